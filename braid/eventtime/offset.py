"""How far a join has come in its two inputs: plain JSON, and all that a decision depends on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from braid.core.errors import StateError
from braid.core.json_values import Json, read_int, read_position
from braid.core.positions import START, Position
from braid.core.times import MIN_TIME

VERSION = 1
SideName = Literal["left", "right"]


@dataclass(frozen=True)
class SideOffset:
    """How far one input has come.

    Parameters
    ----------
    position
        The last chunk admitted.
    stream_time
        Its stream time, which the estimator or, while it is idle, the other input has moved.
    active
        The wall clock when rows with event times were last admitted.
    estimator
        The estimator's snapshot; None before the first chunk.
    """

    position: Position
    stream_time: int
    active: int
    estimator: dict[str, Json] | None = None

    @property
    def needed(self) -> Position:
        """The position after which chunk records must be given to go on; at most `position`."""
        if self.estimator is not None and "since" in self.estimator:
            return read_position(self.estimator, "since")
        return self.position

    def to_json(self) -> dict[str, Json]:
        """The JSON object of this side."""
        return {
            "commit": self.position.commit,
            "chunk": self.position.chunk,
            "stream_time": self.stream_time,
            "active": self.active,
            "estimator": self.estimator,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> SideOffset:
        """Read back what `to_json` gave."""
        estimator = value.get("estimator")
        if estimator is not None and not isinstance(estimator, dict):
            raise _bad_offset(f"'estimator' is {estimator!r}")
        return cls(
            Position(read_int(value, "commit"), read_int(value, "chunk")),
            read_int(value, "stream_time"),
            read_int(value, "active"),
            estimator,
        )


@dataclass(frozen=True)
class Offset:
    """How far a join has come.

    Parameters
    ----------
    left, right
        The two inputs.
    growth
        By how much the row budget of the next micro-batch exceeds the configured one.
    drained
        Whether the input has ended and both stream times are `MAX_TIME`.
    """

    left: SideOffset
    right: SideOffset
    growth: int = 1
    drained: bool = False

    @classmethod
    def start(cls, now: int) -> Offset:
        """Before anything has been admitted; silence counts from `now`."""
        side = SideOffset(START, MIN_TIME, now)
        return cls(side, side)

    def side(self, name: SideName) -> SideOffset:
        """The offset of one input."""
        return self.left if name == "left" else self.right

    def to_json(self) -> dict[str, Json]:
        """The JSON object of the offset."""
        return {
            "version": VERSION,
            "left": self.left.to_json(),
            "right": self.right.to_json(),
            "growth": self.growth,
            "drained": self.drained,
        }

    def to_text(self) -> str:
        """The one text of this offset: compact JSON with sorted keys."""
        return json.dumps(self.to_json(), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> Offset:
        """Read back what `to_json` gave; a `StateError` says what is wrong with anything else."""
        version = value.get("version")
        if version != VERSION:
            raise _bad_offset(f"its version is {version!r}, this is version {VERSION}")
        left, right = value.get("left"), value.get("right")
        if not isinstance(left, dict) or not isinstance(right, dict):
            raise _bad_offset("a side is missing")
        drained = value.get("drained")
        if not isinstance(drained, bool):
            raise _bad_offset(f"'drained' is {drained!r}")
        growth = read_int(value, "growth")
        return cls(SideOffset.from_json(left), SideOffset.from_json(right), growth, drained)

    @classmethod
    def from_text(cls, text: str) -> Offset:
        """Read back what `to_text` gave."""
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise _bad_offset(str(error)) from None
        if not isinstance(value, dict):
            raise _bad_offset(f"it is {value!r}")
        return cls.from_json(value)


def _bad_offset(what: str) -> StateError:
    return StateError(
        f"not an offset of a join: {what}",
        where="join offset",
        hint="use the version of Braid that wrote the checkpoint, or start the join anew",
    )
