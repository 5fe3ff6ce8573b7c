"""Runs migrations over the connection that the registry was opened with."""

from alembic import context

from braid.service.registry.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
