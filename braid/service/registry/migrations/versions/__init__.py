"""Migrations of the registry, by Alembic."""
