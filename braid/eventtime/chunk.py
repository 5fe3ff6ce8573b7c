"""What event time needs to know of a chunk, and where a chunk stands in its category."""

from __future__ import annotations

from dataclasses import dataclass

from braid.core.positions import Position


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
