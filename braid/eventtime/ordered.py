"""Stream time of a stream that is declared ordered: the time of its last record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from braid.eventtime.chunk import MIN_TIME, ChunkTimes, Position
from braid.eventtime.estimator import Json, read_int


@dataclass(frozen=True)
class Ordered:
    """No record is older than one before it, so the newest one is proof that all before it have come."""

    def start(self) -> OrderedClock:
        """A clock that has seen no record."""
        return OrderedClock(MIN_TIME)

    def restore(self, snapshot: Mapping[str, Json]) -> OrderedClock:
        """The clock that wrote `snapshot`."""
        return OrderedClock(read_int(snapshot, "time"))


class OrderedClock:
    """The greatest time seen."""

    def __init__(self, time: int) -> None:
        self._time = time

    @property
    def stream_time(self) -> int:
        """The greatest time seen; a record below it breaks the promise, and is late."""
        return self._time

    @property
    def since(self) -> Position | None:
        """Nothing is ever recalled."""
        return None

    def observe(self, chunk: ChunkTimes) -> None:
        """Take a chunk in."""
        if chunk.max is not None:
            self._time = max(self._time, chunk.max)

    def recall(self, chunk: ChunkTimes) -> None:
        """Do nothing."""

    def snapshot(self) -> dict[str, Json]:
        """The greatest time."""
        return {"time": self._time}
