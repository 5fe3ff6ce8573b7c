"""A third operator beside joins: of rows with equal keys within a window of event time, the first one stays.

Rows are decided once stream time has passed them, in order of event time, so that the answer does not depend
on the order of arrival. State is references, as everywhere: the blocks whose rows may still matter, and a bit
or two for each of their rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from braid.core.columns import HASH, TIME
from braid.core.counters import Counters
from braid.core.times import MIN_TIME
from braid.kernels.arrays import Ints
from braid.kernels.join.blocks import BlockSource, BlockStore
from braid.kernels.lost import Lost
from braid.kernels.state import InputState, OperatorState, decode, encode
from braid.kernels.step import Output, Step

INPUT = "rows"
WAITING, EMITTED, DROPPED = 0, 1, 2


@dataclass(frozen=True)
class Deduplicate:
    """Keep a row unless one with the same key was kept up to `within` microseconds before it.

    Parameters
    ----------
    within
        Length of the window.
    output
        Columns to emit.
    """

    within: int
    output: tuple[str, ...]

    inputs = (INPUT,)
    whole = None

    def columns(self, name: str) -> tuple[str, ...]:
        """What is read of the input."""
        return tuple(dict.fromkeys((HASH, TIME, *self.output)))

    def output_schema(self, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        """The columns to emit, as they are."""
        return pa.schema([schemas[INPUT].field(name) for name in self.output])

    def open(
        self,
        source: BlockSource,
        state: bytes | None = None,
        losses: Mapping[str, BlockSource | None] | None = None,
    ) -> Shard:
        """One shard, from its state or from the start."""
        return Shard(self, source, state)


class Shard:
    """The rows of one shard that are waiting, or may still hide others."""

    def __init__(self, spec: Deduplicate, source: BlockSource, state: bytes | None) -> None:
        self._spec = spec
        self._source = source
        self._store = BlockStore(source.schema(INPUT))
        self._flags = np.zeros(0, np.uint8)
        self._time = MIN_TIME
        if state is not None:
            saved = decode(state)
            for block in saved.inputs[INPUT].blocks:
                self._store.append(block, source.read(INPUT, block))
            self._flags, self._time = saved.inputs[INPUT].flags, saved.times[INPUT]

    def step(self, step: Step) -> Output:
        """Take rows in, and emit those that are decided and hide behind no other."""
        counts = Counters.over([INPUT])
        lost = Lost(counts)
        for block in sorted(step.blocks[INPUT]):
            batch = self._source.read(INPUT, block)
            self._store.append(block, batch)
            counts.inputs[INPUT].rows += batch.num_rows
        self._time = step.times[INPUT]
        every = np.arange(self._store.rows)
        times, key = self._store.take(TIME, every), self._store.take(HASH, every).to_numpy()
        timed = times.is_valid().to_numpy(zero_copy_only=False)
        time = times.fill_null(0).to_numpy()
        # Rows without a valid time were reported by the slicer; they take no part.
        fresh = np.where(timed[len(self._flags) :], WAITING, DROPPED).astype(np.uint8)
        counts.inputs[INPUT].invalid = int(np.count_nonzero(fresh))
        self._flags = np.append(self._flags, fresh)
        chosen = self._choose(time, key)
        decided = (self._flags == WAITING) & (time < self._time)
        counts.inputs[INPUT].decided = int(np.count_nonzero(decided))
        self._flags[decided] = DROPPED
        self._flags[chosen] = EMITTED
        schema = self._spec.output_schema({INPUT: self._source.schema(INPUT)})
        rows = pa.table([self._store.take(name, chosen) for name in schema.names], schema=schema)
        self._forget(time)
        counts.inputs[INPUT].pending = int(np.count_nonzero(self._flags == WAITING))
        return Output(rows, lost.table(), counts)

    def snapshot(self) -> bytes:
        """References to blocks, and a bit or two for each row."""
        state = InputState(tuple(self._store.ids), self._flags, self._time)
        return encode(OperatorState({INPUT: state}, {INPUT: self._time}))

    def _choose(self, time: Ints, key: Ints) -> Ints:
        """Row numbers to emit. All keys at once: every round takes the next row of each key that is free."""
        decided = np.flatnonzero((self._flags == EMITTED) | ((self._flags == WAITING) & (time < self._time)))
        order = decided[np.lexsort((decided, time[decided], key[decided]))]
        _, first, group = np.unique(key[order], return_index=True, return_inverse=True)
        ends = np.append(first[1:], len(order))
        known = np.unique(time[order])
        # Place of each row by key and time, so that one binary search finds the next row of every key.
        place = group * (len(known) + 1) + np.searchsorted(known, time[order])
        chosen: list[Ints] = []
        while len(first):
            now = order[first]
            chosen.append(now[self._flags[now] == WAITING])
            limit = np.searchsorted(known, time[now] + self._spec.within, side="right")
            following = np.searchsorted(place, group[first] * (len(known) + 1) + limit)
            left = following < ends
            first, ends = following[left], ends[left]
        return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)

    def _forget(self, time: Ints) -> None:
        """Drop blocks in which nothing waits, and nothing that was emitted can hide a row any more."""
        needed = (self._flags == WAITING) | (
            (self._flags == EMITTED) & (time >= self._time - self._spec.within)
        )
        block, _ = self._store.locate(np.flatnonzero(needed))
        kept = np.unique(block)
        rows = np.isin(self._store.locate(np.arange(self._store.rows))[0], kept)
        self._store.keep(kept)
        self._flags = self._flags[rows]
