"""What a stream-time estimator is: a frozen configuration that starts and restores a small state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from braid.core.json_values import Json
from braid.core.positions import START, Position
from braid.eventtime.chunk import ChunkTimes


class StreamClock(Protocol):
    """The running state of an estimator; it sees chunks in the order in which they are admitted."""

    @property
    def stream_time(self) -> int:
        """The estimate, in microseconds; `MIN_TIME` before there is one. It never goes back."""

    @property
    def frontier(self) -> int:
        """How far the stream has come, whatever may still arrive from before; not below the estimate."""

    @property
    def since(self) -> Position | None:
        """The position after which chunks must be recalled to go on from a snapshot; None for no need."""

    def observe(self, chunk: ChunkTimes) -> None:
        """Take in a chunk that has just been admitted."""

    def recall(self, chunk: ChunkTimes) -> None:
        """Take in again, after a restore and before anything is observed, a chunk admitted earlier."""

    def snapshot(self) -> dict[str, Json]:
        """Plain JSON, a few hundred bytes at most, from which `Estimator.restore` goes on."""


class Estimator(Protocol):
    """The configuration of an estimator."""

    @property
    def kind(self) -> str:
        """What its snapshots are marked with: no other kind of estimator can go on from them."""

    def start(self, after: Position = START) -> StreamClock:
        """A clock that knows of no chunk, and will see those after a position."""

    def restore(self, snapshot: Mapping[str, Json]) -> StreamClock:
        """The clock that wrote `snapshot`, which is of the same kind."""
