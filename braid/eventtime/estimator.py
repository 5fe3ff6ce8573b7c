"""What a stream-time estimator is: a frozen configuration that starts and restores a small state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from braid.errors import StateError
from braid.eventtime.chunk import START, ChunkTimes, Position

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None


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


def read_int(snapshot: Mapping[str, Json], key: str) -> int:
    """An integer of a snapshot; a `StateError` that names the key when it is something else."""
    value = snapshot.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_snapshot(key, value, "an integer")
    return value


def read_float(snapshot: Mapping[str, Json], key: str) -> float:
    """A number of a snapshot."""
    value = snapshot.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_snapshot(key, value, "a number")
    return float(value)


def read_floats(snapshot: Mapping[str, Json], key: str) -> list[float]:
    """A list of numbers of a snapshot."""
    value = snapshot.get(key)
    if not isinstance(value, list):
        raise bad_snapshot(key, value, "a list of numbers")
    return [read_float({key: item}, key) for item in value]


def read_position(snapshot: Mapping[str, Json], key: str) -> Position:
    """A `[commit, chunk]` of a snapshot."""
    value = snapshot.get(key)
    if not (isinstance(value, list) and len(value) == 2):
        raise bad_snapshot(key, value, "[commit, chunk]")
    return Position(read_int({key: value[0]}, key), read_int({key: value[1]}, key))


def bad_snapshot(key: str, value: Json, wanted: str) -> StateError:
    """The error for a snapshot that this estimator did not write."""
    return StateError(
        f"{key!r} is {value!r}, where {wanted} was expected",
        where="stream-time snapshot",
        hint="the offset was written by another version: use that one, or start the join anew",
    )
