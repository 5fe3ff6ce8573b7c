"""Of rows with equal keys within a window of event time, the first one stays.

Rows are decided once stream time has passed them, in order of event time, so that the answer does not depend
on the order of arrival. State is references, as everywhere: the blocks whose rows may still matter, and two
bits for each of their rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from braid.core.columns import HASH, KEY, TIME
from braid.core.counters import Counters
from braid.core.errors import StateError
from braid.core.positions import Position
from braid.core.times import MAX_TIME, MIN_TIME, shift_time
from braid.eventtime.validity import in_range
from braid.kernels.arrays import Flags, Ints, Mask, extended
from braid.kernels.blocks import BlockSource, BlockStore
from braid.kernels.join.runs import Run, add_run, probe
from braid.kernels.lost import Loss, Lost
from braid.kernels.minima import Minima
from braid.kernels.operator import INPUT
from braid.kernels.state import InputState, OperatorState, decode, encode
from braid.kernels.step import Output, Step

WAITING, KEPT, GONE = 0, 1, 2
COMPACT_ROWS = 1 << 12
"""Rows that may be held beyond twice what is needed."""


@dataclass(frozen=True)
class Deduplicate:
    """Keep a row unless one with the same keys was kept up to `within` microseconds before it.

    Parameters
    ----------
    keys
        How many key columns there are; NULLs are equal.
    within
        Length of the window.
    output
        Columns to emit.
    """

    keys: int
    within: int
    output: tuple[str, ...]

    inputs = (INPUT,)
    whole = None
    gone = GONE

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that tell rows apart."""
        return tuple(f"{KEY}{number}" for number in range(self.keys))

    def columns(self, name: str) -> tuple[str, ...]:
        """What is read of the input."""
        return tuple(dict.fromkeys((HASH, TIME, *self.key_columns, *self.output)))

    def output_schema(self, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        """The columns to emit, as they are."""
        return pa.schema([schemas[INPUT].field(name) for name in self.output])

    def open(
        self,
        source: BlockSource,
        state: bytes | None = None,
        losses: Mapping[str, BlockSource | None] | None = None,
    ) -> DeduplicateShard:
        """One shard, from its state or from the start."""
        return DeduplicateShard(self, source, state)

    def after_drain(self, state: bytes) -> bytes:
        """Rows that were kept at the end go on hiding others."""
        left = decode(state).inputs[INPUT]
        kept = InputState(left.positions, left.flags, MIN_TIME)
        return encode(OperatorState({INPUT: kept}, {INPUT: MIN_TIME}))


class DeduplicateShard:
    """The rows of one shard that are waiting, or may still hide others.

    A step looks at the rows that it decides, and at kept ones with their hashes: those are indexed by hash,
    and the least times of waiting and of kept rows tell which of them stream time has passed.
    """

    def __init__(self, spec: Deduplicate, source: BlockSource, state: bytes | None) -> None:
        self._spec = spec
        self._source = source
        self._columns = list(dict.fromkeys((HASH, *spec.key_columns, *spec.output)))
        self._store = BlockStore(source.schema(INPUT))
        self._flags: Flags = np.zeros(0, np.uint8)
        self._times: Ints = np.zeros(0, np.int64)
        self._held: Ints = np.zeros(0, np.int64)
        self._minima = {WAITING: Minima(), KEPT: Minima()}
        self._runs: list[Run] = []
        self._counts = {WAITING: 0, KEPT: 0}
        self._time = MIN_TIME
        if state is not None:
            self._restore(decode(state))

    def step(self, step: Step) -> Output:
        """Take rows in, and emit those that are decided and hide behind no other."""
        counts = Counters.over(self._spec.inputs)
        counted, lost = counts.inputs[INPUT], Lost(counts)
        first = self._store.rows
        usable = self._load(sorted(step.blocks[INPUT]))
        late = usable & (self._times[first:] < self._time)
        counted.rows = len(usable)
        counted.invalid = int(np.count_nonzero(~usable))
        counted.late = int(np.count_nonzero(late))
        for loss, which in ((Loss.INVALID_TIME, ~usable), (Loss.LATE, late)):
            rows = first + np.flatnonzero(which)
            if len(rows):
                lost.add(INPUT, loss, self._store.refs(rows), np.zeros_like(rows))
        self._set(first, np.where(usable & ~late, WAITING, GONE).astype(np.uint8))
        self._time = step.times[INPUT]
        decided = self._passed(WAITING, self._time)
        kept = self._choose(np.union1d(decided, self._hiding(decided)), self._times)
        self._change(decided, WAITING, GONE)
        self._change(kept, GONE, KEPT)
        schema = self._spec.output_schema({INPUT: self._source.schema(INPUT)})
        columns = self._store.gather(schema.names, kept)
        rows_out = pa.table([columns[name] for name in schema.names], schema=schema)
        self._change(self._passed(KEPT, shift_time(self._reached(), -self._spec.within)), KEPT, GONE)
        self._compact()
        counted.decided = len(decided) + counted.invalid + counted.late
        # Rows that only hide others do not count: an operator after this one would wait for them for ever.
        counted.pending = self._counts[WAITING]
        counted.hold(*self._store.extent(self._held > 0))
        return Output(rows_out, lost.table(), counts)

    def snapshot(self) -> bytes:
        """References to blocks, and two bits for each row."""
        held = self._held > 0
        flags = self._store.whole(self._flags, GONE, held)
        state = InputState(self._store.positions(held), flags, self._time)
        return encode(OperatorState({INPUT: state}, {INPUT: self._time}))

    def _load(self, blocks: Sequence[Position]) -> Mask:
        """Take blocks in; which of their rows have a usable time. Their flags are still to be set."""
        batches = [self._source.read(INPUT, block) for block in blocks]
        for block, batch in zip(blocks, batches, strict=True):
            self._store.append(block, batch.select(self._columns))
        times = pa.chunked_array([batch.column(TIME) for batch in batches], pa.int64())
        fresh: Ints = times.fill_null(0).to_numpy()
        self._times = extended(self._times, [fresh])
        self._held = extended(self._held, [np.zeros(len(blocks), np.int64)])
        usable: Mask = times.is_valid().to_numpy() & in_range(fresh)
        return usable

    def _set(self, first: int, flags: Flags) -> None:
        """Give flags to the rows from `first` on, which have none yet."""
        self._flags = extended(self._flags, [flags])
        times = self._times[first:]
        for flag, minima in self._minima.items():
            minima.extend(np.where(flags == flag, times, MAX_TIME))
            self._counts[flag] += int(np.count_nonzero(flags == flag))
        self._held += self._store.count(first + np.flatnonzero(flags != GONE))
        kept = first + np.flatnonzero(flags == KEPT)
        self._index(kept)

    def _change(self, rows: Ints, before: int, after: int) -> None:
        """Rows with one flag get another."""
        self._flags[rows] = after
        blocks = self._store.count(rows)
        if before in self._counts:
            self._counts[before] -= len(rows)
            self._held -= blocks
        if after in self._counts:
            self._counts[after] += len(rows)
            self._held += blocks
            self._minima[after].lower(rows, self._times[rows])
            self._index(rows)

    def _index(self, kept: Ints) -> None:
        """Make kept rows part of the index by hash."""
        if len(kept):
            hashes = self._store.take(HASH, kept).to_numpy()
            order = np.argsort(hashes, kind="stable")
            add_run(self._runs, Run(hashes[order], kept[order]))

    def _passed(self, flag: int, limit: int) -> Ints:
        """Rows with a flag whose time is before the limit, ascending; they are to lose it."""
        return self._minima[flag].below(limit, self._times, lambda where: self._flags[where] != flag)

    def _reached(self) -> int:
        """How far the stream has come; at its end, its latest kept row: it may hide what follows a drain."""
        if self._time < MAX_TIME:
            return self._time
        return int(self._times[self._flags == KEPT].max(initial=MIN_TIME))

    def _hiding(self, rows: Ints) -> Ints:
        """Kept rows that share a hash with any of some rows."""
        hashes = np.unique(self._store.take(HASH, rows).to_numpy())
        found = [run.row[position] for run in self._runs for _, position in probe(run, hashes, hashes)]
        hiding = np.concatenate([rows[:0], *found])
        return np.compress(self._flags[hiding] == KEPT, hiding)

    def _compact(self) -> None:
        """Remove rows without further use, when that pays."""
        indexed = sum(map(len, self._runs))
        live = sum(self._counts.values())
        if (indexed - self._counts[KEPT]) * 4 <= indexed and self._store.rows <= 2 * live + COMPACT_ROWS:
            self._store.tidy()
            return
        runs = [run.select(self._flags[run.row] == KEPT) for run in self._runs]
        left, stay = self._store.keep(self._flags != GONE)
        down = np.cumsum(~left)
        self._runs = [Run(run.key, run.row - down[run.row]) for run in runs if len(run)]
        self._held, self._times, self._flags = self._held[stay], self._times[left], self._flags[left]
        for flag in self._minima:
            self._minima[flag] = Minima()
            self._minima[flag].extend(np.where(self._flags == flag, self._times, MAX_TIME))

    def _restore(self, state: OperatorState) -> None:
        saved = state.inputs[INPUT]
        self._load(saved.blocks)
        if self._store.rows != len(saved.flags):
            raise StateError(
                f"saved state knows {len(saved.flags)} rows, but the log has {self._store.rows} for it",
                hint="the state belongs to another shard range or category; replay from the log",
            )
        self._set(0, saved.flags)
        self._time = state.times[INPUT]

    def _choose(self, rows: Ints, time: Ints) -> Ints:
        """Waiting rows to emit, of rows that are decided or were kept before.

        All keys at once: every round takes the next row of each key that no kept one hides, or that was kept
        before: after a drain, rows may be older than those, which go on hiding the rows after them.
        """
        keys = self._keys(rows)
        order = rows[np.lexsort((rows, time[rows], keys))]
        keys = np.sort(keys)
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        ends = np.append(first[1:], len(order))
        known = np.unique(time[order])
        # Place of each row by key and time, so that one binary search finds the next row of every key.
        place = keys * (len(known) + 1) + np.searchsorted(known, time[order])
        kept = np.append(np.flatnonzero(self._flags[order] == KEPT), len(order))
        chosen = [rows[:0]]
        while len(first):
            now = order[first]
            chosen.append(now[self._flags[now] == WAITING])
            limit = np.searchsorted(known, time[now] + self._spec.within, side="right")
            following = np.searchsorted(place, keys[first] * (len(known) + 1) + limit)
            following = np.minimum(following, kept[np.searchsorted(kept, first, side="right")])
            left = following < ends
            first, ends = following[left], ends[left]
        return np.sort(np.concatenate(chosen))

    def _keys(self, rows: Ints) -> Ints:
        """A number for each row, equal where all of its keys are."""
        found: Ints = np.zeros(len(rows), np.int64)
        for name in self._spec.key_columns:
            encoded = self._store.take(name, rows).dictionary_encode()
            codes = encoded.indices.fill_null(-1).to_numpy().astype(np.int64) + 1
            _, found = np.unique(found * (len(encoded.dictionary) + 1) + codes, return_inverse=True)
        return found
