"""Stream time of a stream whose disorder is declared: the greatest time seen, less that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from braid.core.errors import ConfigError
from braid.core.json_values import Json, read_int
from braid.core.positions import START, Position
from braid.core.times import MIN_TIME, shift_time
from braid.eventtime.chunk import ChunkTimes


@dataclass(frozen=True)
class Ordered:
    """No record comes after one that is later by more than `disorder`, so those before that have all come.

    Parameters
    ----------
    disorder
        How far a record may be behind an earlier one, in microseconds; exactly so far is not yet late.
    """

    kind: ClassVar[str] = "ordered"
    disorder: int = 0

    def __post_init__(self) -> None:
        if self.disorder < 0:
            raise ConfigError(f"disorder is {self.disorder}, but must not be negative")

    def start(self, after: Position = START) -> OrderedClock:
        """A clock that has seen no record."""
        return OrderedClock(MIN_TIME, self.disorder)

    def restore(self, snapshot: Mapping[str, Json]) -> OrderedClock:
        """The clock that wrote `snapshot`, with the disorder that is declared now."""
        return OrderedClock(read_int(snapshot, "newest"), self.disorder)


class OrderedClock:
    """The greatest time seen."""

    def __init__(self, newest: int, disorder: int) -> None:
        self._newest = newest
        self._disorder = disorder

    @property
    def stream_time(self) -> int:
        """The greatest time seen, less the disorder; a record below it breaks the promise, and is late."""
        return shift_time(self._newest, -self._disorder)

    @property
    def frontier(self) -> int:
        """The greatest time seen."""
        return self._newest

    @property
    def since(self) -> Position | None:
        """Nothing is ever recalled."""
        return None

    def observe(self, chunk: ChunkTimes) -> None:
        """Take a chunk in."""
        if chunk.max is not None:
            self._newest = max(self._newest, chunk.max)

    def recall(self, chunk: ChunkTimes) -> None:
        """Do nothing."""

    def snapshot(self) -> dict[str, Json]:
        """The greatest time."""
        return {"kind": Ordered.kind, "newest": self._newest}
