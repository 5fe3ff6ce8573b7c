"""Which seeds random tests try."""

from __future__ import annotations

import os


def seeds(usual: int) -> range:
    """The seeds of a random test: as many as usual, or as `$BRAID_SEEDS` says, or its range `500-1000`."""
    first, _, last = os.environ.get("BRAID_SEEDS", str(usual)).rpartition("-")
    return range(int(first or 0), int(last))
