"""What an operator takes in, micro-batch by micro-batch, and what it gives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from braid.core.counters import Counters
from braid.core.positions import Position, positions_in, ranges_of


@dataclass(frozen=True)
class Step:
    """One micro-batch: new blocks of each input in order of arrival, and the stream times after them.

    Parameters
    ----------
    blocks, times
        By the name of the input.
    wall_time
        Matters only to operators that wait by the clock; like the stream times it must be the same when a
        step is replayed.
    epoch
        After a drain every window is closed, and what comes later begins a new epoch: see
        `OperatorSpec.after_drain`.
    seals
        Whether shards hand their states over after it, for a savepoint.
    settles
        Whether rows that have a match are decided with it: those that are left go on by other rules.
    """

    blocks: Mapping[str, Sequence[Position]]
    times: Mapping[str, int]
    wall_time: int = 0
    epoch: int = 0
    seals: bool = False
    settles: bool = False

    @property
    def size(self) -> int:
        """How many blocks there are."""
        return sum(map(len, self.blocks.values()))

    def to_text(self) -> str:
        """The step as JSON, for the way to the workers."""
        value = {
            "inputs": {
                name: {"blocks": ranges_of(blocks), "time": self.times[name]}
                for name, blocks in self.blocks.items()
            },
            "wall_time": self.wall_time,
            "epoch": self.epoch,
            "seals": self.seals,
            "settles": self.settles,
        }
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Step:
        """Read back what `to_text` gave."""
        value = json.loads(text)
        inputs = value["inputs"]
        return cls(
            {name: positions_in(part["blocks"]) for name, part in inputs.items()},
            {name: part["time"] for name, part in inputs.items()},
            value["wall_time"],
            value["epoch"],
            value["seals"],
            value["settles"],
        )


@dataclass(frozen=True)
class Output:
    """What a step emits.

    Parameters
    ----------
    rows
        Output columns.
    lost
        Rows that lost a possible match or could not take part, with the reason: see `braid.kernels.lost`.
    counts
        What this step has counted, by input.
    """

    rows: pa.Table
    lost: pa.Table
    counts: Counters
