"""Of rows with equal keys within a window of event time, the first one stays.

Rows are decided once stream time has passed them, in order of event time, so that the answer does not depend
on the order of arrival. State is references, as everywhere: the blocks whose rows may still matter, and two
bits for each of their rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from braid.core.columns import HASH, KEY, TIME
from braid.core.counters import Counters
from braid.core.errors import StateError
from braid.core.times import MIN_TIME, shift_time
from braid.eventtime.validity import in_range
from braid.kernels.arrays import Flags, Ints
from braid.kernels.blocks import BlockSource, BlockStore
from braid.kernels.lost import Loss, Lost
from braid.kernels.operator import INPUT
from braid.kernels.state import InputState, OperatorState, decode, encode
from braid.kernels.step import Output, Step

WAITING, KEPT, GONE = 0, 1, 2


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


class DeduplicateShard:
    """The rows of one shard that are waiting, or may still hide others."""

    def __init__(self, spec: Deduplicate, source: BlockSource, state: bytes | None) -> None:
        self._spec = spec
        self._source = source
        self._store = BlockStore(source.schema(INPUT))
        self._flags: Flags = np.zeros(0, np.uint8)
        self._time = MIN_TIME
        if state is not None:
            self._restore(decode(state))

    def step(self, step: Step) -> Output:
        """Take rows in, and emit those that are decided and hide behind no other."""
        counts = Counters.over(self._spec.inputs)
        counted, lost = counts.inputs[INPUT], Lost(counts)
        for block in sorted(step.blocks[INPUT]):
            self._store.append(block, self._source.read(INPUT, block))
        times = self._store.take(TIME, np.arange(self._store.rows))
        time: Ints = times.fill_null(0).to_numpy()
        fresh = np.arange(len(self._flags), self._store.rows)
        usable = (times.is_valid().to_numpy(zero_copy_only=False) & in_range(time))[fresh]
        late = usable & (time[fresh] < self._time)
        self._flags = np.append(self._flags, np.where(usable & ~late, WAITING, GONE).astype(np.uint8))
        counted.rows = len(fresh)
        counted.invalid = int(np.count_nonzero(~usable))
        counted.late = int(np.count_nonzero(late))
        for loss, rows in ((Loss.INVALID_TIME, fresh[~usable]), (Loss.LATE, fresh[late])):
            if len(rows):
                lost.add(INPUT, loss, self._store.refs(rows), np.zeros_like(rows))
        self._time = step.times[INPUT]
        decided = (self._flags == WAITING) & (time < self._time)
        kept = self._choose(np.flatnonzero(decided | (self._flags == KEPT)), time)
        self._flags[decided] = GONE
        self._flags[kept] = KEPT
        schema = self._spec.output_schema({INPUT: self._source.schema(INPUT)})
        rows_out = pa.table([self._store.take(name, kept) for name in schema.names], schema=schema)
        self._forget(time)
        counted.decided = int(np.count_nonzero(decided)) + counted.invalid + counted.late
        # Rows that only hide others do not count: an operator after this one would wait for them for ever.
        counted.pending = int(np.count_nonzero(self._flags == WAITING))
        counted.hold(self._store.ids)
        return Output(rows_out, lost.table(), counts)

    def snapshot(self) -> bytes:
        """References to blocks, and two bits for each row."""
        state = InputState(tuple(self._store.ids), self._flags, self._time)
        return encode(OperatorState({INPUT: state}, {INPUT: self._time}))

    def _restore(self, state: OperatorState) -> None:
        saved = state.inputs[INPUT]
        for block in saved.blocks:
            self._store.append(block, self._source.read(INPUT, block))
        if self._store.rows != len(saved.flags):
            raise StateError(
                f"saved state knows {len(saved.flags)} rows, but the log has {self._store.rows} for it",
                hint="the state belongs to another shard range or category; replay from the log",
            )
        self._flags, self._time = saved.flags, state.times[INPUT]

    def _choose(self, rows: Ints, time: Ints) -> Ints:
        """Waiting rows to emit, of rows that are decided or were kept before.

        All keys at once: every round takes the next row of each key that no kept one hides.
        """
        keys = self._keys(rows)
        order = rows[np.lexsort((rows, time[rows], keys))]
        keys = np.sort(keys)
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        ends = np.append(first[1:], len(order))
        known = np.unique(time[order])
        # Place of each row by key and time, so that one binary search finds the next row of every key.
        place = keys * (len(known) + 1) + np.searchsorted(known, time[order])
        chosen = [rows[:0]]
        while len(first):
            now = order[first]
            chosen.append(now[self._flags[now] == WAITING])
            limit = np.searchsorted(known, time[now] + self._spec.within, side="right")
            following = np.searchsorted(place, keys[first] * (len(known) + 1) + limit)
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

    def _forget(self, time: Ints) -> None:
        """Drop blocks in which nothing waits, and nothing that was kept can hide a row any more."""
        over = (self._flags == KEPT) & (time < shift_time(self._time, -self._spec.within))
        self._flags[over] = GONE
        block, _ = self._store.locate(np.arange(self._store.rows))
        kept = np.unique(block[self._flags != GONE])
        self._flags = self._flags[np.isin(block, kept)]
        self._store.keep(kept)
