"""Watermarks of several time columns through a join, held back by what the join still buffers.

The output of a join has the time columns of both inputs, and each has a watermark of its own. A watermark
that comes in may not simply be passed on: rows that wait in the join would be late for whoever reads its
output. So each is postponed to the least time that is still buffered (Hazelcast's design).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from braid.eventtime.chunk import MIN_TIME, shift_time


@dataclass(frozen=True)
class TimeBound:
    """A condition of the join in the form `limited >= by - postpone`, between columns of the two inputs."""

    limited: str
    by: str
    postpone: int


class Watermarks:
    """What a join knows of its time columns, and what it may tell downstream.

    Parameters
    ----------
    columns
        All time columns of both inputs.
    bounds
        The time bounds of the join condition; not every column needs one.
    """

    def __init__(self, columns: Sequence[str], bounds: Sequence[TimeBound]) -> None:
        self._received = dict.fromkeys(columns, MIN_TIME)
        self._bounds = tuple(bounds)
        self._emitted = dict.fromkeys(columns, MIN_TIME)

    def receive(self, column: str, watermark: int) -> None:
        """Take in a watermark: no row below it will come any more."""
        self._received[column] = max(self._received[column], watermark)

    def limit(self, column: str) -> int:
        """Buffered rows below this can no longer match anything, and may leave."""
        limits = [
            shift_time(self._received[bound.by], -bound.postpone)
            for bound in self._bounds
            if bound.limited == column
        ]
        return max(limits, default=MIN_TIME)

    def emit(self, least: Mapping[str, int]) -> dict[str, int]:
        """Watermarks that may go out, given the least buffered time of each column that has any.

        Only those that have advanced are returned.
        """
        advanced = {}
        for column, received in self._received.items():
            mark = min(received, least.get(column, received))
            if mark > self._emitted[column]:
                self._emitted[column] = advanced[column] = mark
        return advanced
