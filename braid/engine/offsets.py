"""Offsets as a runtime stores them before it acts upon them: of operators, and of readers of a category."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from braid.core.json_values import Json, read_int, read_position
from braid.core.positions import Position
from braid.engine.waiting import Full
from braid.eventtime.offset import Offset, bad_offset

VERSION = 2
"""Version 1 had no number, and the clock and full buffers together under `waits`. It is still read."""


@dataclass(frozen=True)
class OperatorOffset:
    """Where an operator stands, with all that the next decision depends on.

    Parameters
    ----------
    at
        Positions and stream times of the inputs.
    epoch
        How often the operator has been drained: after that, stream times and state begin anew.
    now
        The wall clock of the decision.
    full
        Since when the buffers have been full.
    turn
        Counts micro-batches that admit nothing, so that each has an offset of its own.
    sealed
        Name of the savepoint that the micro-batch before has made; see `braid.engine.savepoints`.
    settled
        Whether that micro-batch has decided rows that had a match: see `Step.settles`.
    """

    at: Offset
    epoch: int = 0
    now: int = 0
    full: Full = field(default_factory=Full)
    turn: int = 0
    sealed: str | None = None
    settled: bool = False

    def again(self, sealed: str | None = None, *, settled: bool = False) -> OperatorOffset:
        """The same offset under another number; with a name, after a micro-batch that makes a savepoint."""
        return replace(self, turn=self.turn + 1, sealed=sealed, settled=settled)

    def needed(self, name: str, oldest: int | None) -> int:
        """The lowest commit of an input that it takes to go on from here.

        `oldest` is the oldest one that the operator's state refers to, as its counters say.
        """
        lowest = self.at.inputs[name].needed.commit
        return lowest if oldest is None else min(lowest, oldest)

    def to_json(self) -> dict[str, Json]:
        """The JSON object of the offset."""
        found: dict[str, Json] = {
            "version": VERSION,
            "at": self.at.to_json(),
            "epoch": self.epoch,
            "now": self.now,
            "full": [self.full.steps, self.full.rows],
            "turn": self.turn,
        }
        if self.sealed is not None:
            found["sealed"] = self.sealed
        if self.settled:
            found["settled"] = True
        return found

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> OperatorOffset:
        """Read back what `to_json` gave; a `StateError` says what is wrong with anything else."""
        at = value.get("at")
        if not isinstance(at, dict):
            raise bad_offset(f"'at' is {at!r}")
        offset, epoch = Offset.from_json(at), read_int(value, "epoch")
        turn = read_int({"turn": 0, **value}, "turn")
        if "version" not in value:
            waits = value.get("waits")
            if not isinstance(waits, dict):
                return cls(offset, epoch, turn=turn)
            full = Full(read_int(waits, "steps"), read_int(waits, "rows"))
            return cls(offset, epoch, read_int(waits, "now"), full, turn)
        if value["version"] != VERSION:
            raise bad_offset(f"its version is {value['version']!r}, this is version {VERSION}")
        stored = value.get("full")
        if not isinstance(stored, list) or len(stored) != 2:
            raise bad_offset(f"'full' is {stored!r}")
        steps, rows = (read_int({"full": number}, "full") for number in stored)
        sealed = value.get("sealed")
        if sealed is not None and not isinstance(sealed, str):
            raise bad_offset(f"'sealed' is {sealed!r}")
        settled = value.get("settled", False)
        return cls(offset, epoch, read_int(value, "now"), Full(steps, rows), turn, sealed, settled is True)


@dataclass(frozen=True)
class ReadOffset:
    """How far a category has been read, chunk by chunk: `next` is the first chunk that has not been.

    Offsets of version 1 were the numbers of that chunk, `{"commit": c, "chunk": k}`. They are still read.
    """

    next: Position

    def to_json(self) -> dict[str, Json]:
        """The JSON object of the offset."""
        return {"next": list(self.next)}

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> ReadOffset:
        """Read back what `to_json` gave."""
        if "next" in value:
            return cls(read_position(value, "next"))
        return cls(Position(read_int(value, "commit"), read_int(value, "chunk")))
