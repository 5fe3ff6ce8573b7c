"""JSON that was read but is yet to be believed: typed access, with errors that name the key."""

from __future__ import annotations

from collections.abc import Mapping

from braid.core.errors import StateError
from braid.core.positions import Position

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None


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
