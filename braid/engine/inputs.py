"""An input of an operator, seen through its commit records: what there is to admit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from braid.core.columns import TIME
from braid.core.positions import ChunkRange, Position
from braid.core.times import MIN_TIME
from braid.eventtime.chunk import ChunkTimes
from braid.log.reader import Reader
from braid.log.records import Commit

_WHOLE = 2**31
"""Chunk number after the last chunk of any commit."""


class InputLog:
    """The chunks of one input category.

    Parameters
    ----------
    reader
        The reader of the category.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._times = lru_cache(1024)(lambda number: chunk_times(reader.commit(number)))
        self._latest = reader.first - 1

    def before_first(self) -> Position:
        """Before the oldest chunk that retention has left."""
        first = self._reader.first
        return Position(first - 1, _WHOLE if first else -1)

    def records(self, after: Position) -> Iterator[ChunkTimes]:
        """Chunk records that follow a position, read as they are asked for."""
        self._latest = self._reader.latest()
        for number in range(max(after.commit, self._reader.first), self._latest + 1):
            for chunk in self._times(number):
                if chunk.position > after:
                    yield chunk

    def grown(self) -> bool:
        """Whether there is a commit that nobody has asked for yet."""
        return self._reader.grown(self._latest)

    def more(self, after: Position) -> bool:
        """Whether anything follows a position."""
        return next(self.records(after), None) is not None

    def between(self, after: Position, upto: Position) -> list[Position]:
        """The chunks with rows after a position, up to and including another one."""
        found: list[Position] = []
        for number in range(max(after.commit, self._reader.first), upto.commit + 1):
            low = after.chunk + 1 if number == after.commit else 0
            high = upto.chunk if number == upto.commit else len(self._reader.commit(number).chunks) - 1
            found += ChunkRange(number, low, high).positions()
        return found

    def arrived(self, position: Position) -> int:
        """When the commit of a position was published; `MIN_TIME` if it is gone, or there is none."""
        if position.commit < self._reader.first:
            return MIN_TIME
        return self._reader.commit(position.commit).wall_time


def chunk_times(commit: Commit) -> tuple[ChunkTimes, ...]:
    """What event time needs to know of a commit's chunks; one record without rows if there are none."""
    watermark = commit.watermarks.get(TIME)
    if not commit.chunks:
        return (ChunkTimes(commit.id, -1, 0, None, None, 0, b"", commit.wall_time, watermark),)
    last = len(commit.chunks) - 1
    return tuple(
        ChunkTimes(
            commit.id,
            chunk.index,
            chunk.rows,
            chunk.times[TIME].min,
            chunk.times[TIME].max,
            chunk.times[TIME].nulls,
            chunk.times[TIME].sketch,
            commit.wall_time,
            watermark,
            chunk.index == last,
        )
        for chunk in commit.chunks
    )
