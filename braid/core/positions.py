"""Where chunks stand in a category, and ranges of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Position(NamedTuple):
    """A chunk of a category. Positions compare in arrival order; `chunk` is -1 in a commit without rows."""

    commit: int
    chunk: int


START = Position(-1, -1)
"""Before the first chunk of any category."""


class ChunkRange(NamedTuple):
    """Chunks of one commit, from `first` to `last`, both included. As JSON: `[commit, first, last]`."""

    commit: int
    first: int
    last: int

    def positions(self) -> list[Position]:
        """Every chunk of the range."""
        return [Position(self.commit, chunk) for chunk in range(self.first, self.last + 1)]


def positions_in(ranges: Iterable[Iterable[int]]) -> list[Position]:
    """All chunks of some ranges, in their order; ranges may be lists, as JSON has them."""
    return [position for found in ranges for position in ChunkRange(*found).positions()]


def ranges_of(positions: Iterable[Position]) -> list[ChunkRange]:
    """Ascending positions as the fewest ranges."""
    ranges: list[ChunkRange] = []
    for commit, chunk in positions:
        if ranges and ranges[-1].commit == commit and ranges[-1].last == chunk - 1:
            ranges[-1] = ranges[-1]._replace(last=chunk)
        else:
            ranges.append(ChunkRange(commit, chunk, chunk))
    return ranges
