"""A folder in Git."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Versions of before were written by their authors alone, and should run."""
    op.add_column(
        "versions", sa.Column("desired", sa.String(length=20), server_default="running", nullable=False)
    )
    op.add_column("versions", sa.Column("writers", sa.JSON(), server_default="[]", nullable=False))
    op.create_table(
        "followed",
        sa.Column("path", sa.String(length=400), nullable=False),
        sa.Column("application", sa.String(length=200), nullable=False),
        sa.Column("program", sa.String(length=64), nullable=False),
        sa.Column("settings", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("hint", sa.Text(), nullable=True),
        sa.Column("agreed", sa.String(length=64), nullable=False),
        sa.Column("landed_program", sa.String(length=64), nullable=True),
        sa.Column("landed_settings", sa.String(length=64), nullable=True),
        sa.Column("commit", sa.String(length=64), nullable=True),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("accepted", sa.String(length=64), nullable=True),
        sa.Column("tried", sa.Float(), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("path", "application"),
    )
