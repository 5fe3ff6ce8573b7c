"""The rows of one side that can still match: pending left rows, or the right window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MIN_TIME
from braid.kernels.arrays import Flags, Ints, Mask
from braid.kernels.blocks import BlockStore
from braid.kernels.join.pairs import near
from braid.kernels.join.parse import parse
from braid.kernels.join.runs import EMPTY, Run, merge, probe
from braid.kernels.join.spec import JoinSpec

MATCHED = 1
"""Flag: the row has been emitted with a partner, so it is never padded."""
PADDED = 2
"""Flag: the row has been emitted padded before its time was up; a later match is counted, not emitted."""
GONE = 4
"""Flag: the row takes no further part (matched once, or evicted by a cap)."""
EVICTED = 8
"""Flag: a cap has barred the row from new matches, but whether it is padded is still open."""

INERT = 16
"""Flag: the row can never match (a NULL key, not live, or no usable time); not part of saved state."""

COMPACT_ROWS = 1 << 16
"""Rows that a store may hold beyond twice what it needs."""

Column = TypeVar("Column", Ints, Flags)


class Loaded(NamedTuple):
    """New rows of a side: those that can match, with their times, and the numbers of those that cannot."""

    run: Run
    times: Ints
    inert: Ints
    invalid: Ints


class Buffer:
    """Blocks of one side, indexed by one large and one small sorted run.

    Rows with `time < floor` have left; they are skipped by every search and removed when they make up a
    quarter of the runs, so that each row is moved a bounded number of times however long the window is.
    `times`, `flags` and the `extra` attributes (-1 at first) are addressed by row number.
    """

    def __init__(self, spec: JoinSpec, schema: pa.Schema, extra: Sequence[str] = ()) -> None:
        self._spec = spec
        self.store = BlockStore(schema)
        self.floor = MIN_TIME
        self.times: Ints = np.zeros(0, np.int64)
        self.flags: Flags = np.zeros(0, np.uint8)
        self.extra: dict[str, Ints] = {name: np.zeros(0, np.int64) for name in extra}
        self._large = EMPTY
        self._small = EMPTY
        self._ranges: Ints = np.zeros((0, 2), np.int64)
        self._gone = 0
        self._kept = 0

    @property
    def live(self) -> int:
        """Rows that can still match."""
        return len(self._large) + len(self._small) - self._gone

    def load(self, blocks: Sequence[tuple[Position, pa.RecordBatch]]) -> Loaded:
        """Take blocks into the store, and index their rows without adding them to the runs yet."""
        start = self.store.rows
        parsed = [parse(batch, self._spec, self.store.append(block, batch)) for block, batch in blocks]
        ranges = [(p.times.min(), p.times.max()) if len(p.times) else (0, 0) for p in parsed]
        self._ranges = np.concatenate([self._ranges, np.array(ranges, np.int64).reshape(-1, 2)])
        more = self.store.rows - start
        self.times = _extend(self.times, [p.times for p in parsed])
        self.flags = _extend(self.flags, [np.zeros(more, np.uint8)])
        for name, values in self.extra.items():
            self.extra[name] = _extend(values, [np.full(more, -1)])
        run = merge([p.run for p in parsed])
        inert = np.concatenate([run.row[:0], *(p.inert for p in parsed)])
        invalid = np.concatenate([run.row[:0], *(p.invalid for p in parsed)])
        self.flags[inert] = self.flags[invalid] = INERT
        return Loaded(run, self.times[run.row], inert, invalid)

    def add(self, run: Run) -> None:
        """Make new rows part of the index."""
        self._small = merge([self._small, run])
        if len(self._small) * 4 > len(self._large):
            self._large, self._small = merge([self._large, self._small]), EMPTY

    def search(self, side: Side, low: Ints, high: Ints, time: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Candidates `(needle, row, time)` among live rows for rows of `side` at `time`; see `runs.probe`."""
        bounds = near(self._spec, side, time, self.times)
        for run in (self._large, self._small):
            for needle, position in probe(run, low, high, bounds):
                row = run.row[position]
                found = self.times[row]
                good = (found >= self.floor) & (self.flags[row] < GONE)
                yield needle[good], row[good], found[good]

    def cross(self, floor: int, first_new: int) -> Ints:
        """Raise the floor; the rows that leave by it, ascending, without those already gone.

        Rows numbered from `first_new` have just been loaded, and may be behind the old floor too.
        """
        floor = max(floor, self.floor)
        new_block = int(np.searchsorted(self.store.starts, first_new))
        # Only blocks whose times reach into [old floor, new floor) are looked at: on streams that are
        # roughly ordered, a few of the oldest, however long the window is.
        touched = np.flatnonzero((self._ranges[:, 0] < floor) & (self._ranges[:, 1] >= self.floor))
        touched = touched[touched < new_block]
        leaving = [np.empty(0, np.int64)]
        if len(touched):
            begin, end = self.store.starts[touched[0]], self.store.starts[touched[-1] + 1]
            times = self.times[begin:end]
            leaving.append(begin + np.flatnonzero((times < floor) & (times >= self.floor)))
        leaving.append(first_new + np.flatnonzero(self.times[first_new:] < floor))
        rows = np.concatenate(leaving)
        rows = np.compress(self.flags[rows] & (GONE | INERT) == 0, rows)
        self._gone += int(np.searchsorted(rows, first_new))
        self.floor = floor
        return rows

    def discard(self, rows: Ints) -> None:
        """Mark live rows of the runs as gone."""
        self.flags[rows] |= GONE
        self._gone += len(rows)

    def live_rows(self) -> Ints:
        """Numbers of the rows that can still match."""
        return np.concatenate([run.row[self._present(run)] for run in (self._large, self._small)])

    def groups(self, keys: Ints) -> Run:
        """All live rows whose run key is among `keys` (ascending, distinct)."""
        found = []
        for run in (self._large, self._small):
            for _, position in probe(run, keys, keys):
                picked = run.select(position)
                found.append(picked.select(self._present(picked) & (self.flags[picked.row] < GONE)))
        return merge(found)

    def compact(self) -> None:
        """Remove departed rows, and blocks that only they held, when it pays."""
        total = len(self._large) + len(self._small)
        sparse = self.store.rows > 2 * max(self._kept, self.live) + COMPACT_ROWS
        if self._gone * 4 <= total and not sparse:
            return
        runs = [run.select(self._present(run)) for run in (self._large, self._small)]
        block = np.repeat(np.arange(len(self.store.ids)), np.diff(self.store.starts))
        held = np.zeros(len(self.store.ids), np.bool_)
        for run in runs:
            held[block[run.row]] = True
        blocks = np.flatnonzero(held)
        self.store.keep(blocks)
        pick = np.flatnonzero(held[block])
        down = np.cumsum(~held[block])
        self._ranges = self._ranges[blocks]
        self.times = self.times[pick]
        self.flags = self.flags[pick]
        self.extra = {name: values[pick] for name, values in self.extra.items()}
        self._large, self._small = (Run(run.key, run.row - down[run.row]) for run in runs)
        self._gone = 0
        self._kept = self.store.rows

    def restore(self, blocks: Sequence[tuple[Position, pa.RecordBatch]], flags: Flags, floor: int) -> None:
        """Rebuild the index from blocks and flags, as after a restart."""
        loaded = self.load(blocks)
        self.flags |= flags
        self.floor = floor
        self.add(loaded.run.select(self._present(loaded.run)))

    def _present(self, run: Run) -> Mask:
        present: Mask = (self.times[run.row] >= self.floor) & (self.flags[run.row] & GONE == 0)
        return present


def _extend(values: Column, parts: Sequence[Column]) -> Column:
    """Append to an array, in place where the array it is a view of has room; a sixteenth is kept as room."""
    size, more = len(values), sum(map(len, parts))
    if not more:
        return values
    room = values.base if isinstance(values.base, np.ndarray) else values
    if len(room) < size + more:
        room = np.empty((size + more) * 17 // 16, values.dtype)
        room[:size] = values
    np.concatenate(parts, out=room[size : size + more])
    return room[: size + more]
