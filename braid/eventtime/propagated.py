"""Stream time that an upstream join has already worked out, and the watermarks that a join passes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from braid.core.json_values import Json, read_int
from braid.core.positions import START, Position
from braid.core.times import MIN_TIME, shift_time
from braid.eventtime.chunk import ChunkTimes


@dataclass(frozen=True)
class Propagated:
    """Stream time is the watermark of the last commit that has been admitted whole."""

    kind: ClassVar[str] = "propagated"

    def start(self, after: Position = START) -> PropagatedClock:
        """A clock that has seen no commit."""
        return PropagatedClock(MIN_TIME)

    def restore(self, snapshot: Mapping[str, Json]) -> PropagatedClock:
        """The clock that wrote `snapshot`."""
        return PropagatedClock(read_int(snapshot, "time"))


class PropagatedClock:
    """The last watermark seen."""

    def __init__(self, time: int) -> None:
        self._time = time

    @property
    def stream_time(self) -> int:
        """The last watermark; it never goes back, even if the upstream's did."""
        return self._time

    @property
    def frontier(self) -> int:
        """The same: the upstream's rows say no more."""
        return self._time

    @property
    def since(self) -> Position | None:
        """Nothing is ever recalled."""
        return None

    def observe(self, chunk: ChunkTimes) -> None:
        """Take a commit's watermark with its last chunk: its rows still follow earlier ones."""
        if chunk.last and chunk.watermark is not None:
            self._time = max(self._time, chunk.watermark)

    def recall(self, chunk: ChunkTimes) -> None:
        """Do nothing."""

    def snapshot(self) -> dict[str, Json]:
        """The watermark."""
        return {"kind": Propagated.kind, "time": self._time}


def output_watermarks(left_time: int, right_time: int, lower: int, upper: int) -> tuple[int, int]:
    """Watermarks of the left and of the right time column in a join's output, for the commit that it writes.

    A left row is pending while `time + upper >= right_time`, and new ones come at `left_time` or later, so
    nothing more comes out below the lesser of the two; its partners are at most `lower` away from it, and a
    right row that waits to be padded is at `left_time + lower` or later.
    """
    left = min(left_time, shift_time(right_time, -upper))
    return left, shift_time(left, lower)
