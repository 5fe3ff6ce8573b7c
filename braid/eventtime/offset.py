"""How far an operator has come in its inputs: plain JSON, and all that a decision depends on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from braid.core.errors import StateError
from braid.core.json_values import Json, read_int, read_position
from braid.core.positions import START, Position
from braid.core.times import MIN_TIME

VERSION = 2
"""Version 1 had two inputs, under `left` and `right` in the offset itself. It is still read."""


@dataclass(frozen=True)
class InputOffset:
    """How far one input has come.

    Parameters
    ----------
    position
        The last chunk admitted.
    stream_time
        Its stream time, which the estimator or, while it is idle, another input has moved.
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
        """The JSON object of this input."""
        return {
            "commit": self.position.commit,
            "chunk": self.position.chunk,
            "stream_time": self.stream_time,
            "active": self.active,
            "estimator": self.estimator,
        }

    @classmethod
    def from_json(cls, value: Json) -> InputOffset:
        """Read back what `to_json` gave."""
        if not isinstance(value, dict):
            raise bad_offset("an input is missing")
        estimator = value.get("estimator")
        if estimator is not None and not isinstance(estimator, dict):
            raise bad_offset(f"'estimator' is {estimator!r}")
        return cls(
            Position(read_int(value, "commit"), read_int(value, "chunk")),
            read_int(value, "stream_time"),
            read_int(value, "active"),
            estimator,
        )


@dataclass(frozen=True)
class Offset:
    """How far an operator has come.

    Parameters
    ----------
    inputs
        The inputs by name, in the operator's order.
    growth
        By how much the row budget of the next micro-batch exceeds the configured one.
    drained
        Whether the input has ended and all stream times are `MAX_TIME`.
    """

    inputs: Mapping[str, InputOffset]
    growth: int = 1
    drained: bool = False

    @classmethod
    def start(cls, names: Iterable[str], now: int) -> Offset:
        """Before anything has been admitted; silence counts from `now`."""
        return cls({str(name): InputOffset(START, MIN_TIME, now) for name in names})

    def to_json(self) -> dict[str, Json]:
        """The JSON object of the offset."""
        return {
            "version": VERSION,
            "inputs": {name: offset.to_json() for name, offset in self.inputs.items()},
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
        if version == 1:
            inputs: Json = {name: value.get(name) for name in ("left", "right")}
        elif version == VERSION:
            inputs = value.get("inputs")
        else:
            raise bad_offset(f"its version is {version!r}, this is version {VERSION}")
        if not isinstance(inputs, dict):
            raise bad_offset(f"'inputs' is {inputs!r}")
        drained = value.get("drained")
        if not isinstance(drained, bool):
            raise bad_offset(f"'drained' is {drained!r}")
        found = {name: InputOffset.from_json(offset) for name, offset in inputs.items()}
        return cls(found, read_int(value, "growth"), drained)

    @classmethod
    def from_text(cls, text: str) -> Offset:
        """Read back what `to_text` gave."""
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise bad_offset(str(error)) from None
        if not isinstance(value, dict):
            raise bad_offset(f"it is {value!r}")
        return cls.from_json(value)


def bad_offset(what: str) -> StateError:
    """The error for an offset that this version did not write."""
    return StateError(
        f"not an offset of an operator: {what}",
        where="offset",
        hint="use the version of Braid that wrote the checkpoint, or start the operator anew",
    )
