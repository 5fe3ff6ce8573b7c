"""Readers of categories, one per process: workers live for many micro-batches, and so do caches."""

from __future__ import annotations

from functools import lru_cache

from braid.log.category import Category
from braid.log.log import Log
from braid.log.reader import Reader


@lru_cache(64)
def reader(root: str, category: str) -> Reader:
    """The reader of a category that this process shares."""
    return Log(root).open(category).reader()


def fresh(root: str, category: str) -> Category:
    """A category with its settings as they are now."""
    return Log(root).open(category)
