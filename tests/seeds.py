"""How many seeds random tests try."""

from __future__ import annotations

import os


def seeds(usual: int) -> range:
    """The seeds of a random test: so many as a rule, or as many as `$BRAID_SEEDS` says."""
    return range(int(os.environ.get("BRAID_SEEDS", usual)))
