"""The source of a join: reads commit records only, paces the inputs, and emits a reference per shard."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from braid.core.columns import TIME
from braid.core.config import AppConfig
from braid.core.json_values import Json, read_int
from braid.core.positions import Position
from braid.core.times import MIN_TIME
from braid.engine.waiting import Full, limited, padding_due
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.offset import Offset, SideName, SideOffset
from braid.eventtime.pacing import Decision, PacingConfig, next_offset
from braid.home.paths import read_json, write_json
from braid.log.reader import Reader
from braid.log.shared import reader

REFERENCES = "slot int, shard int, step string"
"""Reference rows: the state key of a shard, the shard, and the micro-batch as JSON."""
_FIRST_GROWTH = 8
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
        How far the right input is kept ahead of the left one.
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
    disorder
        Sides whose order is declared, with how far a record may be behind an earlier one.
    rescued
        Sides whose late rows find their partners in the log.
    held_files
        Per side, where the joins upstream say how many rows they hold: while they hold any, the side is not
        taken for idle. Only for sides whose late rows would be lost.
    pad_after
        How long unmatched rows wait by the wall clock; None if they wait for stream time.
    buffered_file
        Where the sink says how many rows the join buffers, if that has a limit.
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
    disorder: dict[SideName, int] = field(default_factory=dict)
    rescued: tuple[SideName, ...] = ()
    held_files: dict[SideName, tuple[str, ...]] = field(default_factory=dict)
    pad_after: int | None = None
    buffered_file: str | None = None

    def to_json(self) -> str:
        """The configuration as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> PaceConfig:
        """Read back what `to_json` gave."""
        value = json.loads(text)
        lists = {name: tuple(value[name]) for name in ("propagated", "rescued", "slots")}
        return cls(**{**value, **lists})


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
        self._warm = False

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
        waits = _waits(start)
        if offset.drained:
            if not any(self._more(name, offset.side(name)) for name in ("left", "right")):
                return start
            offset, epoch, waits = _reopened(offset, now), epoch + 1, _Waits()
        config, full = self._pacing(offset, waits.full)
        if full.steps:
            # Full buffers take one chunk, whatever the budget had grown to.
            offset = replace(offset, growth=1)
        decision = next_offset(
            offset,
            _records(self._log("left"), offset.left.needed),
            _records(self._log("right"), offset.right.needed),
            config,
            now,
            draining=Path(self._config.drain_file).exists(),
            watching_since=self._since,
        )
        self._tell(decision, full)
        if decision.offset is offset and not self._padding_due(offset, waits, now):
            if self._warm:
                return start
            self._warm = True
            return _again(start)
        self._warm = True
        clock = 0 if self._config.pad_after is None else max(now, waits.now)
        return _pack(decision.offset, epoch, _Waits(clock, full))

    def partitions(self, start: dict[str, Json], end: dict[str, Json]) -> Sequence[InputPartition]:
        """One task that emits references to what lies between two offsets."""
        if start == end:
            return []
        self._warm = True
        (before, _), (after, epoch) = _unpack(start), _unpack(end)
        step = {
            "left": _blocks(self._log("left"), before.left.position, after.left.position),
            "right": _blocks(self._log("right"), before.right.position, after.right.position),
            "left_time": after.left.stream_time,
            "right_time": after.right.stream_time,
            "epoch": epoch,
            "wall_time": _waits(end).now,
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

    def _pacing(self, offset: Offset, full: Full) -> tuple[PacingConfig, Full]:
        """How to pace now, and since when buffers have been full."""
        # The options have been checked and converted: durations are microseconds, not to be read once more.
        config = self._config
        options = AppConfig.model_construct(**config.options)
        pacing = PacingConfig.of(options, config.upper, config.propagated, config.disorder, config.rescued)
        patient = tuple(name for name, files in config.held_files.items() if any(map(_rows_in, files)))
        pacing = replace(pacing, patient=patient)
        limit = options.max_buffered_rows
        if limit is None or config.buffered_file is None:
            return pacing, full
        buffered = _rows_in(config.buffered_file)
        return limited(pacing, buffered, limit, offset.growth), full.after(buffered, limit)

    def _padding_due(self, offset: Offset, waits: _Waits, now: int) -> bool:
        """Whether rows have waited for long enough by the clock."""
        if self._config.pad_after is None or offset.drained:
            return False
        newest = max(self._arrived(name, offset.side(name).position) for name in ("left", "right"))
        return padding_due(now, waits.now, newest, self._config.pad_after)

    def _arrived(self, side: str, position: Position) -> int:
        log = self._log(side)
        return log.commit(position.commit).wall_time if position.commit >= log.first else MIN_TIME

    def _tell(self, decision: Decision, full: Full) -> None:
        """Write down what the inputs are doing when that has changed, micro-batch or not."""
        status = {
            "left": decision.left.status.value,
            "right": decision.right.status.value,
            "paused": None if decision.pause is None else decision.pause.side,
            "why": None if decision.pause is None else decision.pause.describe(),
        }
        if full.steps:
            status["why"] = "; ".join(filter(None, (status["why"], "buffers are full: max_buffered_rows")))
        if status != self._said:
            write_json(Path(self._config.status_file), status)
            self._said = status


def drained(offset: object) -> bool:
    """Whether an offset, as Spark reports it, is that of a join that has been drained."""
    value = json.loads(offset) if isinstance(offset, str) else offset
    return isinstance(value, dict) and _unpack(value)[0].drained


@dataclass(frozen=True)
class _Waits:
    """What an offset says besides positions and stream times: the clock, and how long buffers are full."""

    now: int = 0
    full: Full = field(default_factory=Full)


def _pack(offset: Offset, epoch: int, waits: _Waits | None = None) -> dict[str, Json]:
    value: dict[str, Json] = {"epoch": epoch, "at": offset.to_json()}
    if waits is not None and waits != _Waits():
        value["waits"] = {"now": waits.now, "steps": waits.full.steps, "rows": waits.full.rows}
    return value


def _waits(value: dict[str, Json]) -> _Waits:
    stored = value.get("waits")
    if not isinstance(stored, dict):
        return _Waits()
    return _Waits(read_int(stored, "now"), Full(read_int(stored, "steps"), read_int(stored, "rows")))


def _again(value: dict[str, Json]) -> dict[str, Json]:
    """The same offset under another number: a micro-batch that admits nothing.

    The first micro-batch of a run is slow: Spark starts Python processes, and windows are read from the log.
    While there is nothing to do is the time for it.
    """
    turn = value.get("turn", 0)
    assert isinstance(turn, int)
    return {**value, "turn": turn + 1}


def _unpack(value: dict[str, Json]) -> tuple[Offset, int]:
    at, epoch = value["at"], value["epoch"]
    assert isinstance(at, dict)
    assert isinstance(epoch, int)
    return Offset.from_json(at), epoch


def _rows_in(path: str) -> int:
    """How many rows a join has buffered, as its sink has told."""
    stored = read_json(Path(path))
    return int(stored["rows"]) if isinstance(stored, dict) else 0


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
