"""Savepoints: all that a stateful stage needs, besides the log, to go on from a committed micro-batch.

State is references, so a savepoint is small: the offset, and what every shard has saved. Shards with other
ranges of hashes take theirs from it.

A savepoint is made by a micro-batch that admits nothing: in it, every shard hands its state over to the sink,
which writes the file before it commits. Whatever is killed in between, the micro-batch is repeated.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from braid.core.errors import RunError, StateError
from braid.core.hashes import HashRange, overlap
from braid.core.positions import Position
from braid.engine.offsets import OperatorOffset
from braid.home.files import write_text
from braid.kernels.operator import OperatorSpec
from braid.kernels.recut import Cutting, ShardState
from braid.kernels.state import InputState, OperatorState, decode, encode
from braid.log.reader import Reader
from braid.log.sealed import check_format, seal, unseal

FORMAT = 1


class SavedShard(NamedTuple):
    """A shard: its hashes, after how many drains it was saved, and its state."""

    hashes: HashRange
    epoch: int
    state: bytes

    def to_json(self) -> str:
        """On the way from a worker to the sink."""
        return json.dumps([self.hashes, self.epoch, b64encode(self.state).decode()])

    @classmethod
    def from_json(cls, text: str) -> SavedShard:
        """Read back what `to_json` gave."""
        (low, high), epoch, state = json.loads(text)
        return cls((low, high), epoch, b64decode(state))


@dataclass(frozen=True)
class Savepoint:
    """A stateful stage at the end of a micro-batch.

    Parameters
    ----------
    stage
        Its name.
    batch
        The number of the micro-batch.
    offset
        Where the stage stands.
    epoch
        After how many drains states were saved.
    shards
        The hashes of each shard, and its state, in order of hashes.
    """

    stage: str
    batch: int
    offset: OperatorOffset
    epoch: int
    shards: tuple[tuple[HashRange, bytes], ...]

    @property
    def name(self) -> str:
        """The name of its file."""
        assert self.offset.sealed is not None
        return savepoint_name(self.stage, self.offset.sealed)

    @classmethod
    def of(cls, stage: str, batch: int, offset: OperatorOffset, shards: Iterable[SavedShard]) -> Savepoint:
        """Put together what shards have handed over."""
        found = sorted(shards)
        epochs = {shard.epoch for shard in found}
        if len(epochs) != 1:
            raise StateError(
                f"shards of stage {stage!r} stand at epochs {sorted(epochs)}",
                hint="start the application again",
            )
        return cls(stage, batch, offset, epochs.pop(), tuple((one.hashes, one.state) for one in found))

    def write(self, path: Path) -> None:
        """Write it to a file, whole or not at all."""
        record = {
            "format": FORMAT,
            "stage": self.stage,
            "batch": self.batch,
            "offset": self.offset.to_json(),
            "epoch": self.epoch,
            "shards": [(hashes, b64encode(state).decode()) for hashes, state in self.shards],
        }
        write_text(path, seal(record).decode())

    @classmethod
    def read(cls, path: Path) -> Savepoint:
        """Read back what `write` has written; a `BraidError` says what is wrong with anything else."""
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise RunError(
                "there is no such savepoint", where=str(path), hint="restore the file from a backup"
            ) from None
        record = json.loads(unseal(data, str(path)))
        check_format(record["format"], str(path), FORMAT)
        return cls(
            record["stage"],
            record["batch"],
            OperatorOffset.from_json(record["offset"]),
            record["epoch"],
            tuple(((low, high), b64decode(state)) for (low, high), state in record["shards"]),
        )

    def moved(self, name: str, ends: Mapping[str, Position]) -> Savepoint:
        """The same under another name, after inputs were sliced again: they end at other positions.

        Its windows are closed. What has come out of rows is not known of those that were sliced again; where
        that was true of any of them, it is taken to be true of all.
        """
        inputs = {
            one: replace(offset, position=ends.get(one, offset.position), estimator=None)
            for one, offset in self.offset.at.inputs.items()
        }
        offset = replace(self.offset, at=replace(self.offset.at, inputs=inputs), sealed=name)
        shards = tuple((hashes, encode(_moved(decode(state), ends))) for hashes, state in self.shards)
        return replace(self, offset=offset, shards=shards)

    def cut(self, operator: OperatorSpec, readers: Mapping[str, Reader], wanted: HashRange) -> bytes:
        """The state of a shard that has the wanted hashes."""

        def below(name: str, block: Position, low: int) -> int:
            return readers[name].rows_below(*block, low)

        shards = (
            ShardState(hashes, decode(state)) for hashes, state in self.shards if overlap(hashes, wanted)
        )
        return encode(Cutting(below, operator.gone, operator.whole).cut(shards, wanted))


def _moved(state: OperatorState, ends: Mapping[str, Position]) -> OperatorState:
    inputs = dict(state.inputs)
    for name, end in ends.items():
        foreign = None if inputs[name].foreign is None else end
        inputs[name] = InputState(floor=inputs[name].floor, last=end, foreign=foreign)
    return replace(state, inputs=inputs)


def savepoint_name(stage: str, number: str) -> str:
    """The name of the file of a savepoint."""
    return f"{stage}.{number}.json"


def is_savepoint_of(stage: str, name: str) -> bool:
    """Whether a file is a savepoint of a stage."""
    return name.removesuffix(".json").rpartition(".")[0] == stage


@lru_cache(4)
def shared_savepoint(path: str) -> Savepoint:
    """A savepoint, read once per process: every shard that begins takes its state from it."""
    return Savepoint.read(Path(path))
