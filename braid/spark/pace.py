"""The source of a join: reads commit records only, paces the inputs, and emits a reference per shard."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from braid.config import AppConfig
from braid.eventtime.chunk import MIN_TIME, ChunkTimes, Position
from braid.eventtime.estimator import Json
from braid.eventtime.offset import Offset, SideName, SideOffset
from braid.eventtime.pacing import Decision, PacingConfig, next_offset
from braid.home import write_json
from braid.kernels.spec import TIME
from braid.log.reader import Reader
from braid.spark.readers import reader

REFERENCES = "slot int, shard int, step string"
"""Reference rows: the state key of a shard, the shard, and the micro-batch as JSON."""
_FIRST_GROWTH = 4
"""A new join is likely to begin with a backlog."""
_WHOLE = 2**31
"""Chunk number after the last chunk of any commit."""


@dataclass(frozen=True)
class PaceConfig:
    """What the source needs to know; travels as JSON in one option.

    Parameters
    ----------
    root
        Root of the log.
    left, right
        Input categories.
    upper
        The join's upper bound.
    options
        The application's options.
    propagated
        Sides that carry the watermarks of an upstream join.
    slots
        State key of every shard, in order.
    drain_file
        While it exists, what is in the log is all there will be.
    status_file
        Where to say what is paused, and why.
    """

    root: str
    left: str
    right: str
    upper: int
    options: dict[str, Any]
    propagated: tuple[SideName, ...]
    slots: tuple[int, ...]
    drain_file: str
    status_file: str

    def to_json(self) -> str:
        """The configuration as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> PaceConfig:
        """Read back what `to_json` gave."""
        value = json.loads(text)
        return cls(**{**value, "propagated": tuple(value["propagated"]), "slots": tuple(value["slots"])})


class PacedSource(DataSource):
    """Paces a join. Option: `config`."""

    @classmethod
    def name(cls) -> str:
        """Name for `spark.readStream.format`."""
        return "braid_paced"

    def schema(self) -> str:
        """Reference rows."""
        return REFERENCES

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The reader of one streaming query."""
        return PacedReader(PaceConfig.from_json(self.options["config"]))


@dataclass
class Reference(InputPartition):
    """A micro-batch as JSON."""

    step: str


class PacedReader(DataSourceStreamReader):
    """Offsets hold everything that a decision depends on, so that a replayed micro-batch is the same one.

    After a drain every window is closed. What comes later begins a new epoch: new stream times, new state.
    """

    def __init__(self, config: PaceConfig) -> None:
        self._config = config
        self._since: int | None = None
        self._said: object = None

    def initialOffset(self) -> dict[str, Json]:  # noqa: N802
        """Before the oldest chunks that are left."""
        start = Offset.start(_now())
        sides = {name: replace(start.left, position=_before(self._log(name))) for name in ("left", "right")}
        return _pack(Offset(sides["left"], sides["right"], _FIRST_GROWTH), 0)

    def latestOffset(self, start: dict[str, Json], limit: ReadLimit) -> dict[str, Json]:  # noqa: N802
        """What to admit next; `start` itself while there is nothing to do."""
        now = _now()
        self._since = now if self._since is None else self._since
        offset, epoch = _unpack(start)
        if offset.drained:
            if not any(self._more(name, offset.side(name)) for name in ("left", "right")):
                return start
            offset, epoch = _reopened(offset, now), epoch + 1
        decision = next_offset(
            offset,
            _records(self._log("left"), offset.left.needed),
            _records(self._log("right"), offset.right.needed),
            self._pacing(),
            now,
            draining=Path(self._config.drain_file).exists(),
            watching_since=self._since,
        )
        self._tell(decision)
        return start if decision.offset is offset else _pack(decision.offset, epoch)

    def partitions(self, start: dict[str, Json], end: dict[str, Json]) -> Sequence[InputPartition]:
        """One task that emits references to what lies between two offsets."""
        if start == end:
            return []
        (before, _), (after, epoch) = _unpack(start), _unpack(end)
        step = {
            "left": _blocks(self._log("left"), before.left.position, after.left.position),
            "right": _blocks(self._log("right"), before.right.position, after.right.position),
            "left_time": after.left.stream_time,
            "right_time": after.right.stream_time,
            "epoch": epoch,
        }
        return [Reference(json.dumps(step, separators=(",", ":")))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One row per shard."""
        assert isinstance(partition, Reference)
        slots = self._config.slots
        yield pa.RecordBatch.from_pydict(
            {
                "slot": pa.array(slots, pa.int32()),
                "shard": pa.array(range(len(slots)), pa.int32()),
                "step": pa.array([partition.step] * len(slots), pa.string()),
            }
        )

    def _log(self, side: str) -> Reader:
        return reader(self._config.root, self._config.left if side == "left" else self._config.right)

    def _more(self, side: str, offset: SideOffset) -> bool:
        return next(_records(self._log(side), offset.position), None) is not None

    def _pacing(self) -> PacingConfig:
        # The options have been checked and converted: durations are microseconds, not to be read once more.
        options = AppConfig.model_construct(**self._config.options)
        return PacingConfig.of(options, self._config.upper, self._config.propagated)

    def _tell(self, decision: Decision) -> None:
        """Write down what the inputs are doing when that has changed, micro-batch or not."""
        status = {
            "left": decision.left.status.value,
            "right": decision.right.status.value,
            "paused": None if decision.pause is None else decision.pause.side,
            "why": None if decision.pause is None else decision.pause.describe(),
        }
        if status != self._said:
            write_json(Path(self._config.status_file), status)
            self._said = status


def drained(offset: object) -> bool:
    """Whether an offset, as Spark reports it, is that of a join that has been drained."""
    value = json.loads(offset) if isinstance(offset, str) else offset
    return isinstance(value, dict) and _unpack(value)[0].drained


def _pack(offset: Offset, epoch: int) -> dict[str, Json]:
    return {"epoch": epoch, "at": offset.to_json()}


def _unpack(value: dict[str, Json]) -> tuple[Offset, int]:
    at, epoch = value["at"], value["epoch"]
    assert isinstance(at, dict)
    assert isinstance(epoch, int)
    return Offset.from_json(at), epoch


def _reopened(offset: Offset, now: int) -> Offset:
    """The same positions, with stream times that are yet to be found."""
    left, right = (SideOffset(side.position, MIN_TIME, now) for side in (offset.left, offset.right))
    return Offset(left, right)


def _before(log: Reader) -> Position:
    return Position(log.first - 1, _WHOLE if log.first else -1)


def _records(log: Reader, after: Position) -> Iterator[ChunkTimes]:
    """Chunk records that follow a position, read as they are asked for."""
    latest = log.latest()
    for number in range(max(after.commit, log.first), latest + 1):
        commit = log.commit(number)
        watermark = commit.watermarks.get(TIME)
        if not commit.chunks and (number, -1) > after:
            yield ChunkTimes(number, -1, 0, None, None, 0, b"", commit.wall_time, watermark)
        for chunk in commit.chunks:
            if (number, chunk.index) > after:
                times = chunk.times[TIME]
                last = chunk.index == len(commit.chunks) - 1
                yield ChunkTimes(
                    number,
                    chunk.index,
                    chunk.rows,
                    times.min,
                    times.max,
                    times.nulls,
                    times.sketch,
                    commit.wall_time,
                    watermark,
                    last,
                )


def _blocks(log: Reader, after: Position, upto: Position) -> list[list[int]]:
    """Blocks between two positions, as `[commit, first chunk, last chunk]`."""
    ranges = []
    for number in range(max(after.commit, log.first), upto.commit + 1):
        low = after.chunk + 1 if number == after.commit else 0
        high = upto.chunk if number == upto.commit else len(log.commit(number).chunks) - 1
        if low <= high:
            ranges.append([number, low, high])
    return ranges


def _now() -> int:
    return time.time_ns() // 1000
