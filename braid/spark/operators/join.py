"""What a worker does for a join: references in, results out, one shard at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import ValueState

from braid.core.columns import NOTE
from braid.core.errors import StateError
from braid.core.json_rows import json_rows
from braid.core.positions import Position
from braid.core.side import Side
from braid.engine.notes import COUNTS, DROP, FILE, note_array, text_note
from braid.kernels.join.blocks import BlockSource
from braid.kernels.join.kernel import ShardJoin, open_join
from braid.kernels.join.log_blocks import LogBlocks
from braid.kernels.join.step import Output, Step
from braid.log.layout import shard_range
from braid.log.shared import fresh, reader
from braid.log.writer import write_file
from braid.plan.logical.names import is_special
from braid.spark.operators.processor import Direct, JoinConfig
from braid.spark.slicers.arrow_expressions import compile_columns

if TYPE_CHECKING:
    import pandas as pd

BLOB_ROWS = 65_536
"""Most rows of an Arrow stream in results."""
DIRECT_ROWS = 1_000
"""Results of a shard that are worth a file of their own; fewer go through the JVM, into one file."""
_INPUT_COUNTS = ("rows", "behind", "late", "pending", "blocks", "inert", "invalid", "decided", "unmatched")
"""Counters of what a side brings in, by their names without the side."""


LOOK_AHEAD = 2
"""Shards whose steps are begun before their turn: the kernels leave the interpreter most of the time."""
LOOK_AHEAD_BLOCKS = 16
"""Blocks of a step from which on that pays."""


@dataclass
class _Cached:
    """A join after its last step, of which `version` and `step` tell: the number and the text."""

    version: int
    join: ShardJoin
    step: str = ""


@dataclass
class _Begun:
    """A step that another thread does, with the version of the join that it began with."""

    version: int
    step: str
    done: Future[_Done]


@dataclass
class _Done:
    join: ShardJoin
    output: Output
    seconds: float


_cache: dict[tuple[str, int], _Cached] = {}
"""Joins of this worker by run and shard, those longest without a step first. A cache only: state and log are
enough to build them again."""
_begun: dict[tuple[str, int], _Begun] = {}
"""Steps begun before their turn. Nobody need ever ask for them: their joins are not in the cache any more."""


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(LOOK_AHEAD, thread_name_prefix="join")


class Stepper:
    """Steps of the shards of one state partition.

    Parameters
    ----------
    config
        What to join.
    state
        The value of the shard that a step is for.
    """

    def __init__(self, config: JoinConfig, state: ValueState) -> None:
        self._config = config
        self._state = state

    def run(self, references: pd.DataFrame) -> Iterator[bytes]:
        """Results of a micro-batch, as Arrow streams."""
        for shard, step in zip(references["shard"], references["step"], strict=True):
            yield from map(_encode, self._step(int(shard), step))

    def _step(self, shard: int, text: str) -> list[pa.RecordBatch]:
        started = time.perf_counter()
        step = json.loads(text)
        version, begun = self._open(shard, text, step)
        self._look_ahead(text, step)
        opened = time.perf_counter()
        done = begun.result() if isinstance(begun, Future) else _do(begun, step)
        join, output = done.join, done.output
        joined = time.perf_counter()
        state = join.snapshot()
        self._state.update((_pack(version + 1, _integer(step, "epoch"), state),))
        _cache[self._config.run, shard] = _Cached(version + 1, join, text)
        blocks = self._blocks(shard)
        saved = time.perf_counter()
        counts: dict[str, object] = {
            **self._counts(shard, output),
            "left_time": step["left_time"],
            "right_time": step["right_time"],
            "epoch": step["epoch"],
            "state_bytes": len(state),
            "held": {f"{side}.{column}": least for (side, column), least in output.held.items()},
            "distances_lower": output.distances[0].tolist(),
            "distances_upper": output.distances[1].tolist(),
            "open_ms": (opened - started) * 1000,
            "join_ms": done.seconds * 1000,
            "save_ms": (saved - joined) * 1000,
        }
        notes = [_lost(self._listed(shard, output), blocks)]
        table = output.rows
        if self._config.direct is not None and table.num_rows >= DIRECT_ROWS:
            notes.append(pa.array([text_note(FILE, self._store(table, self._config.direct))]))
            table = table.slice(0, 0)
        counts["store_ms"] = (time.perf_counter() - saved) * 1000
        return _results(table, [*notes, pa.array([text_note(COUNTS, json.dumps(counts))])])

    def _store(self, table: pa.Table, direct: Direct) -> str:
        """Write results to a file of their own, which the sink will make part of its commit."""
        category = fresh(self._config.root, direct.category)
        columns = compile_columns(direct.columns, table.schema, category.schema)
        assert columns is not None
        names = [column.name for column in direct.columns]
        batches = (
            pa.RecordBatch.from_arrays([column(batch) for column in columns], names=names)
            for batch in table.to_batches()
        )
        return write_file(category, direct.stage, batches, direct.chunk_rows).to_json()

    def _counts(self, shard: int, output: Output) -> dict[str, int]:
        """Counters of a step; every shard has all rows of a side that is read whole, and one counts them."""
        side = self._config.broadcast
        if side is None or shard == 0:
            return output.counts
        twice = tuple(f"{name}_{side}" for name in _INPUT_COUNTS)
        counts = {name: value for name, value in output.counts.items() if name not in twice}
        same = output.lost.filter(pc.equal(output.lost["side"], side.value))
        for reason in same["reason"].value_counts().to_pylist():
            counts[f"lost_{reason['values']}"] -= reason["counts"]
        return counts

    def _listed(self, shard: int, output: Output) -> pa.Table:
        """Lost rows to list: of a side that every shard reads, each once."""
        side = self._config.broadcast
        if side is None or shard == 0:
            return output.lost
        return output.lost.filter(pc.not_equal(output.lost["side"], side.value))

    def _open(self, shard: int, text: str, step: dict[str, object]) -> tuple[int, ShardJoin | Future[_Done]]:
        """The join as the state says it is: from the cache if that is as new, else built from state and log.

        Or the step itself, if it has been begun on such a join. The cache entry is taken out: if the step
        fails half-way, nobody will use what it left behind.
        """
        epoch = _integer(step, "epoch")
        begun = _begun.pop((self._config.run, shard), None)
        cached = _cache.pop((self._config.run, shard), None)
        stored = self._state.get() if self._state.exists() else None
        version, before, state = (0, epoch, None) if stored is None else _unpack(stored[0])
        if before != epoch:
            state = None
        elif begun is not None and (begun.version, begun.step) == (version, text):
            return version, begun.done
        elif cached is not None and cached.version == version:
            return version, cached.join
        return version, open_join(self._config.spec, self._blocks(shard), state, self._losses(shard))

    def _look_ahead(self, text: str, step: dict[str, object]) -> None:
        """Begin the step of shards whose turn comes next, on what the cache has of them.

        Every shard of a micro-batch gets the same step. Whether the cache was right, their turn will show.
        """
        if len(_expand(step["left"])) + len(_expand(step["right"])) < LOOK_AHEAD_BLOCKS:
            return
        for other in [other for other, begun in _begun.items() if begun.step != text]:
            _begun.pop(other).done.cancel()
        waiting = [
            other for other, cached in _cache.items() if other[0] == self._config.run and cached.step != text
        ]
        for other in waiting[: LOOK_AHEAD - len(_begun)]:
            cached = _cache.pop(other)
            _begun[other] = _Begun(cached.version, text, _threads().submit(_do, cached.join, step))

    def _blocks(self, shard: int, shards: int | None = None) -> LogBlocks:
        config = self._config
        return LogBlocks(
            reader(config.root, config.left),
            reader(config.root, config.right),
            shard_range(shard, shards or config.shards),
            config.spec,
            config.broadcast,
        )

    def _losses(self, shard: int) -> dict[Side, BlockSource | None]:
        """A late row of a side that all shards read has lost matches of all of them: the first one looks."""
        side = self._config.broadcast
        return {} if side is None else {side: self._blocks(0, shards=1) if shard == 0 else None}


def _do(join: ShardJoin, step: dict[str, object]) -> _Done:
    started = time.perf_counter()
    output = join.step(
        Step(
            _expand(step["left"]),
            _expand(step["right"]),
            _integer(step, "left_time"),
            _integer(step, "right_time"),
            _integer(step, "wall_time"),
        )
    )
    return _Done(join, output, time.perf_counter() - started)


def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in results; for `mapInArrow`."""
    for batch in batches:
        for blob in batch.column(0):
            with pa.ipc.open_stream(blob.as_buffer()) as stream:
                yield from stream


def _results(rows: pa.Table, notes: list[pa.Array]) -> list[pa.RecordBatch]:
    """Rows, then notes on rows of their own: what was lost, stored and counted."""
    schema = rows.schema.append(pa.field(NOTE, pa.string()))
    nothing = pa.nulls(rows.num_rows, pa.string())
    batches = rows.append_column(NOTE, nothing).combine_chunks().to_batches(max_chunksize=BLOB_ROWS)
    texts = pa.concat_arrays(notes)
    empty = [pa.nulls(len(texts), field.type) for field in rows.schema]
    return [*batches, pa.RecordBatch.from_arrays([*empty, texts], schema=schema)]


def _lost(lost: pa.Table, blocks: LogBlocks) -> pa.Array:
    """A note for every row that lost something, with the row; invalid times were reported by the slicer."""
    lost = lost.filter(pc.not_equal(lost["reason"], "invalid_time")).combine_chunks()
    notes = [pa.array([], pa.string())]
    for group in (
        lost.group_by(["side", "reason", "commit", "chunk"]).aggregate([("row", "list")]).to_pylist()
    ):
        batch = blocks.read(Side(group["side"]), Position(group["commit"], group["chunk"]))
        rows = batch.take(pa.array(group["row_list"]))
        texts = json_rows(_readable(rows))
        reasons = pa.repeat(str(group["reason"]), len(texts))
        notes.append(note_array(DROP, reasons, pa.repeat(str(group["side"]), len(texts)), texts))
    return pa.concat_arrays(notes)


def _readable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The payload of rows, under the names that the program knows."""
    names = [name for name in rows.schema.names if not is_special(name)]
    plain = [name.removeprefix("__left_").removeprefix("__right_") for name in names]
    return pa.RecordBatch.from_arrays([rows.column(name) for name in names], names=plain)


def _encode(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(memoryview(sink.getvalue()))


def _pack(version: int, epoch: int, state: bytes) -> bytes:
    return json.dumps({"version": version, "epoch": epoch}).encode() + b"\n" + state


def _unpack(stored: bytes) -> tuple[int, int, bytes]:
    head, found, state = bytes(stored).partition(b"\n")
    if not found:
        raise StateError(
            "join state has no header", hint="use the version of Braid that wrote the checkpoint"
        )
    header = json.loads(head)
    return header["version"], header["epoch"], state


def _expand(ranges: object) -> list[Position]:
    assert isinstance(ranges, list)
    return [Position(commit, chunk) for commit, low, high in ranges for chunk in range(low, high + 1)]


def _integer(step: dict[str, object], name: str) -> int:
    value = step[name]
    assert isinstance(value, int)
    return value
