"""What tokens are limited to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Tokens of before are not limited."""
    op.add_column("tokens", sa.Column("only", sa.JSON(), server_default="[]", nullable=False))
