"""Steps of the shards of an operator in one process: what a worker does, without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from braid.core.columns import NOTE
from braid.core.counters import Counters, InputCounters
from braid.core.errors import StateError
from braid.core.hashes import ALL_HASHES, HashRange
from braid.core.json_rows import json_rows
from braid.core.positions import Position
from braid.engine.blocks import LogBlocks
from braid.engine.expressions import compile_columns
from braid.engine.notes import DROP, FILE, STATE, counts_note, note_array, text_note
from braid.engine.savepoints import SavedShard, shared_savepoint
from braid.kernels.blocks import BlockSource
from braid.kernels.operator import Operator, OperatorSpec
from braid.kernels.step import Output, Step
from braid.log.reader import Reader
from braid.log.shared import fresh, reader
from braid.log.writer import write_file
from braid.plan.names import carried_name
from braid.plan.stages.base import Projection

BLOB_ROWS = 65_536
"""Most rows of a batch of results."""
DIRECT_ROWS = 1_000
"""Results of a shard that are worth a file of their own; fewer go to the sink, into one file."""
LOOK_AHEAD = 2
"""Shards whose steps are begun before their turn: the kernels leave the interpreter most of the time."""
LOOK_AHEAD_BLOCKS = 16
"""Blocks of a step from which on that pays."""
OTHER_RUN_SECONDS = 60.0
"""How long shards of another run of the same query are kept after their last step."""


@dataclass(frozen=True)
class Direct:
    """Where results go that need no Catalyst, and how their columns are computed."""

    category: str
    stage: str
    columns: tuple[Projection, ...]
    chunk_rows: int


@dataclass(frozen=True)
class OperatorConfig:
    """What a worker needs to know of an operator.

    Parameters
    ----------
    root
        Root of the log.
    inputs
        Input categories by the names of the inputs.
    operator
        What it does.
    ranges
        The hashes of each shard.
    run
        Name of this run of the query: what a worker has in its cache from another one is not used.
    direct
        How a worker stores results itself; None if they need Catalyst.
    savepoint
        Path of what shards without a state begin with; None if they begin with nothing.
    """

    root: str
    inputs: Mapping[str, str]
    operator: OperatorSpec
    ranges: tuple[HashRange, ...]
    run: str
    direct: Direct | None = None
    savepoint: str | None = None


class StateCell(Protocol):
    """The state of one shard, which a runtime keeps, and forgets together with a step that failed."""

    def get(self) -> bytes | None:
        """What was put last; None at first."""

    def put(self, value: bytes) -> None:
        """Keep a value instead."""


@dataclass
class _Cached:
    """A shard after its last step, of which `version` and `step` tell: the number and the text.

    `query` is what all runs of a query have in common, and `used` when the shard was used last.
    """

    version: int
    operator: Operator
    step: str = ""
    query: object = None
    used: float = 0.0


@dataclass
class _Begun:
    """A step that another thread does, with the version of the shard that it began with."""

    version: int
    step: str
    done: Future[_Done]


@dataclass
class _Done:
    operator: Operator
    output: Output
    seconds: float


_cache: dict[tuple[str, int], _Cached] = {}
"""Operators of this worker by run and shard, those longest without a step first. A cache only: state and log
are enough to build them again."""
_begun: dict[tuple[str, int], _Begun] = {}
"""Steps begun before their turn. Nobody need ever ask for them: their operators have left the cache."""


def forget_run(run: str) -> None:
    """Forget what is cached of a run that is over, in a process that lives on with other queries."""
    for kept in (_cache, _begun):
        for other in kept.copy():
            if other[0] == run:
                kept.pop(other, None)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(LOOK_AHEAD, thread_name_prefix="step")


class Stepper:
    """Steps of the shards of one state partition.

    Parameters
    ----------
    config
        What to run.
    state
        The state of the shard that a step is for.
    """

    def __init__(self, config: OperatorConfig, state: StateCell) -> None:
        self._config = config
        self._state = state
        self._query = (config.root, tuple(config.inputs.items()))

    def step(self, shard: int, text: str) -> list[pa.RecordBatch]:
        """Results of a step, given as text: rows and, on rows of their own, notes."""
        started = time.perf_counter()
        step = Step.from_text(text)
        version, begun, rebuilt = self._open(shard, text, step)
        self._look_ahead(text, step)
        opened = time.perf_counter()
        done = begun.result() if isinstance(begun, Future) else _do(begun, step)
        operator, output = done.operator, done.output
        joined = time.perf_counter()
        state = operator.snapshot()
        self._state.put(_pack(version + 1, step.epoch, state))
        self._keep(shard, _Cached(version + 1, operator, text, self._query, time.monotonic()))
        blocks = self._blocks(shard)
        saved = time.perf_counter()
        counts = self._counts(shard, output)
        for name, at in step.times.items():
            counts.inputs.setdefault(name, InputCounters()).stream_time = at
        counts.epoch = step.epoch
        counts.state_bytes = len(state)
        counts.rebuilt = int(rebuilt)
        counts.open_ms = (opened - started) * 1000
        counts.join_ms = done.seconds * 1000
        counts.save_ms = (saved - joined) * 1000
        notes = [_lost(self._listed(shard, output), blocks)]
        if step.seals:
            saved_shard = SavedShard(self._config.ranges[shard], step.epoch, state)
            notes.append(pa.array([text_note(STATE, saved_shard.to_json())]))
        table, direct = output.rows, self._config.direct
        if direct is not None:
            category = fresh(self._config.root, direct.category)
            table = _stored(table, direct, category.schema)
            if table.num_rows >= DIRECT_ROWS:
                entry = write_file(category, direct.stage, table.to_batches(), direct.chunk_rows)
                notes.append(pa.array([text_note(FILE, entry.to_json())]))
                table = table.slice(0, 0)
        counts.store_ms = (time.perf_counter() - saved) * 1000
        return _results(table, [*notes, pa.array([counts_note(counts)])])

    def _counts(self, shard: int, output: Output) -> Counters:
        """Counters of a step; of an input that all shards read whole, the first one counts the rows.

        Which of those rows have had a match no shard knows, unless it is the only one.
        """
        whole = self._config.operator.whole
        if whole is not None and len(self._config.ranges) > 1:
            counted = output.counts.inputs[whole]
            counted.matched = counted.unmatched = 0
            if shard > 0:
                output.counts.inputs[whole] = InputCounters(held=counted.held, oldest=counted.oldest)
        return output.counts

    def _listed(self, shard: int, output: Output) -> pa.Table:
        """Lost rows to list: of an input that every shard reads, each once."""
        whole = self._config.operator.whole
        if whole is None or shard == 0:
            return output.lost
        return output.lost.filter(pc.not_equal(output.lost["side"], str(whole)))

    def _open(self, shard: int, text: str, step: Step) -> tuple[int, Operator | Future[_Done], bool]:
        """The shard as the state says it is: from the cache if that is as new, else built from state and log.

        Or the step itself, if it has been begun on such a shard; and whether it was built from a state. The
        cache entry is taken out: if the step fails half-way, nobody will use what it left behind.
        """
        begun = _begun.pop((self._config.run, shard), None)
        cached = _cache.pop((self._config.run, shard), None)
        stored = self._state.get()
        version, before, state = self._first(shard, step) if stored is None else unpack_state(stored)
        if state is not None and before != step.epoch:
            state = self._config.operator.after_drain(state)
        elif begun is not None and (begun.version, begun.step) == (version, text):
            return version, begun.done, False
        elif cached is not None and cached.version == version:
            return version, cached.operator, False
        for log in self._readers().values():
            log.refresh()  # an update may have changed its columns since an earlier run in this process
        operator = self._config.operator.open(self._blocks(shard), state, self._losses(shard))
        return version, operator, state is not None

    def _first(self, shard: int, step: Step) -> tuple[int, int, bytes | None]:
        """Version, epoch and state that a shard begins with."""
        config = self._config
        if config.savepoint is None:
            return 0, step.epoch, None
        saved = shared_savepoint(config.savepoint)
        return 0, saved.epoch, saved.cut(config.operator, self._readers(), config.ranges[shard])

    def _keep(self, shard: int, cached: _Cached) -> None:
        """Put a shard into the cache; let those go that are of runs that have ended, or are elsewhere.

        Every shard takes every step, one after the other: one that has missed a step is in another worker.
        """
        run = self._config.run
        # Threads that step operators of their own share the cache: none may see it change.
        for other, one in _cache.copy().items():
            ended = one.query == cached.query and one.used < cached.used - OTHER_RUN_SECONDS
            if ended if other[0] != run else one.version < cached.version - 1:
                _cache.pop(other, None)
        _cache[run, shard] = cached

    def _look_ahead(self, text: str, step: Step) -> None:
        """Begin the step of shards whose turn comes next, on what the cache has of them.

        Every shard of a micro-batch gets the same step. Whether the cache was right, their turn will show.
        """
        if step.size < LOOK_AHEAD_BLOCKS:
            return
        for other, begun in _begun.copy().items():
            if begun.step != text and _begun.pop(other, None) is not None:
                begun.done.cancel()
        waiting = [
            other
            for other, cached in _cache.copy().items()
            if other[0] == self._config.run and cached.step != text
        ]
        for other in waiting[: LOOK_AHEAD - len(_begun)]:
            cached = _cache.pop(other)
            _begun[other] = _Begun(cached.version, text, _threads().submit(_do, cached.operator, step))

    def _blocks(self, shard: int) -> LogBlocks:
        return self._range(self._config.ranges[shard])

    def _range(self, hash_range: HashRange) -> LogBlocks:
        return LogBlocks(self._readers(), hash_range, self._config.operator)

    def _readers(self) -> dict[str, Reader]:
        return {name: reader(self._config.root, one) for name, one in self._config.inputs.items()}

    def _losses(self, shard: int) -> dict[str, BlockSource | None]:
        """A late row of one that all shards read has lost matches of all of them: the first one looks."""
        whole = self._config.operator.whole
        return {} if whole is None else {whole: self._range(ALL_HASHES) if shard == 0 else None}


def _do(operator: Operator, step: Step) -> _Done:
    started = time.perf_counter()
    output = operator.step(step)
    return _Done(operator, output, time.perf_counter() - started)


def _stored(table: pa.Table, direct: Direct, schema: pa.Schema) -> pa.Table:
    """What is stored of results."""
    columns = compile_columns(direct.columns, table.schema, schema)
    assert columns is not None
    stored = pa.schema([schema.field(column.name) for column in direct.columns])
    batches = [
        pa.RecordBatch.from_arrays([column(batch) for column in columns], schema=stored)
        for batch in table.to_batches()
    ]
    return pa.Table.from_batches(batches, stored)


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
    notes = [pa.array([], pa.string())]
    if not lost.num_rows:
        return notes[0]
    lost = lost.filter(pc.not_equal(lost["reason"], "invalid_time")).combine_chunks()
    for group in (
        lost.group_by(["side", "reason", "commit", "chunk"]).aggregate([("row", "list")]).to_pylist()
    ):
        batch = blocks.read(str(group["side"]), Position(group["commit"], group["chunk"]))
        rows = batch.take(pa.array(group["row_list"]))
        texts = json_rows(_readable(rows))
        reasons = pa.repeat(str(group["reason"]), len(texts))
        notes.append(note_array(DROP, reasons, pa.repeat(str(group["side"]), len(texts)), texts))
    return pa.concat_arrays(notes)


def _readable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The payload of rows, under the names that the program knows."""
    names = [name for name in rows.schema.names if not name.startswith("__")]
    plain = [carried_name(name) for name in names]
    return pa.RecordBatch.from_arrays([rows.column(name) for name in names], names=plain)


def _pack(version: int, epoch: int, state: bytes) -> bytes:
    return json.dumps({"version": version, "epoch": epoch}).encode() + b"\n" + state


def unpack_state(stored: bytes) -> tuple[int, int, bytes]:
    """Version, epoch and the operator's own state, of what is kept in a `StateCell`."""
    head, found, state = bytes(stored).partition(b"\n")
    if not found:
        raise StateError(
            "operator state has no header", hint="use the version of Braid that wrote the checkpoint"
        )
    header = json.loads(head)
    return header["version"], header["epoch"], state
