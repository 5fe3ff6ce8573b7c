"""Thin commands over `braid.api`."""
