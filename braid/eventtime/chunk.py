"""What event time needs to know of a chunk, and where a chunk stands in its category."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

MIN_TIME = -(2**62)
"""The stream time of a stream that has none yet."""
MAX_TIME = 2**62
"""The stream time of a stream that has ended. Adding a bound to either never overflows an int64."""


class Position(NamedTuple):
    """A chunk of a category. Positions compare in arrival order; `chunk` is -1 in a commit without rows."""

    commit: int
    chunk: int


START = Position(-1, -1)
"""Before the first chunk of any category."""


@dataclass(frozen=True)
class ChunkTimes:
    """The event times of one chunk, as its commit record tells them.

    Parameters
    ----------
    commit, chunk
        Where the chunk stands. A commit without rows is one record with `chunk` -1 and `rows` 0, so that
        its watermark is seen.
    rows, nulls
        All rows, and those among them without a valid event time.
    min, max
        Exact bounds of the valid event times in microseconds; None when there are none.
    sketch
        A serialised KLL sketch of doubles over the valid event times; empty when there are none.
    wall_time
        When the commit was published, in microseconds.
    watermark
        The event time below which the upstream operator promises nothing more; None without a promise.
    last
        Whether this is the last chunk of its commit; the watermark holds from there on.
    """

    commit: int
    chunk: int
    rows: int
    min: int | None
    max: int | None
    nulls: int
    sketch: bytes
    wall_time: int
    watermark: int | None = None
    last: bool = True

    @property
    def position(self) -> Position:
        """Where the chunk stands."""
        return Position(self.commit, self.chunk)

    @property
    def timed(self) -> int:
        """Rows that have a valid event time."""
        return self.rows - self.nulls


def clamp_time(value: int) -> int:
    """Keep a sum of times and bounds between `MIN_TIME` and `MAX_TIME`."""
    return max(MIN_TIME, min(MAX_TIME, value))


def shift_time(time: int, by: int) -> int:
    """Move a stream time by a bound; "none yet" and "ended" stay what they are."""
    if time in (MIN_TIME, MAX_TIME):
        return time
    return clamp_time(time + by)
