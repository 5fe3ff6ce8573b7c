"""What versions ask for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Versions of before have asked for nothing."""
    op.add_column("versions", sa.Column("resources", sa.JSON(), server_default="{}", nullable=False))
