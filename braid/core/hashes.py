"""Ranges of key hashes: what one shard has of a stream."""

from __future__ import annotations

HashRange = tuple[int, int]
"""Lowest and highest hash, both inclusive."""

ALL_HASHES: HashRange = (-(2**63), 2**63 - 1)


def overlap(one: HashRange, other: HashRange) -> HashRange | None:
    """The hashes that two ranges share."""
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return (low, high) if low <= high else None
