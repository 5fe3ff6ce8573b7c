"""The rows of one side that can still match: pending left rows, or the right window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braid.kernels.blocks import BlockId, BlockStore, parse
from braid.kernels.runs import EMPTY, Ints, Mask, Run, merge, probe
from braid.kernels.spec import MIN_TIME, JoinSpec

MATCHED = 1
"""Flag: the row has been emitted with a partner, so it is never padded."""
GONE = 2
"""Flag: the row takes no further part (matched once, or evicted by a cap)."""
EVICTED = 4
"""Flag: a cap has barred the row from new matches, but whether it is padded is still open."""

COMPACT_ROWS = 1 << 16
"""Rows that a store may hold beyond twice what it needs."""

Flags = npt.NDArray[np.uint8]


class Loaded(NamedTuple):
    """New rows of a side: those that can match, and the numbers of those that cannot."""

    run: Run
    inert: Ints
    invalid: Ints


class Buffer:
    """Blocks of one side, indexed by one large and one small sorted run.

    Rows with `time < floor` have left; they are skipped by every search and removed when they make up a
    quarter of the runs, so that each row is moved a bounded number of times however long the window is.
    `extra` names further int64 attributes per row (-1 at first) that follow rows through compaction.
    """

    def __init__(self, spec: JoinSpec, schema: pa.Schema, extra: Sequence[str] = ()) -> None:
        self._spec = spec
        self.store = BlockStore(schema)
        self.floor = MIN_TIME
        self.flags: Flags = np.zeros(0, np.uint8)
        self.extra: dict[str, Ints] = {name: np.zeros(0, np.int64) for name in extra}
        self._large = EMPTY
        self._small = EMPTY
        self._left = 0
        self._kept = 0

    @property
    def live(self) -> int:
        """Rows that can still match."""
        return len(self._large) + len(self._small) - self._left

    def load(self, blocks: Sequence[tuple[BlockId, pa.RecordBatch]]) -> Loaded:
        """Take blocks into the store, and index their rows without adding them to the runs yet."""
        parsed = [parse(batch, self._spec, self.store.append(block, batch)) for block, batch in blocks]
        more = self.store.rows - len(self.flags)
        self.flags = np.concatenate([self.flags, np.zeros(more, np.uint8)])
        for name, values in self.extra.items():
            self.extra[name] = np.concatenate([values, np.full(more, -1)])
        if len(parsed) == 1:
            return Loaded(*parsed[0])
        none = np.empty(0, np.int64)
        return Loaded(
            merge([p.run for p in parsed]),
            np.concatenate([none, *(p.inert for p in parsed)]),
            np.concatenate([none, *(p.invalid for p in parsed)]),
        )

    def add(self, run: Run) -> None:
        """Make new rows part of the index."""
        self._small = merge([self._small, run])
        if len(self._small) * 4 > len(self._large):
            self._large, self._small = merge([self._large, self._small]), EMPTY

    def search(self, low: Ints, high: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Candidates `(needle, row, time)` among live rows; see `runs.probe` for the bounds."""
        for run in (self._large, self._small):
            for needle, position in probe(run, low, high):
                row, time = run.row[position], run.time[position]
                good = (time >= self.floor) & (self.flags[row] < GONE)
                yield needle[good], row[good], time[good]

    def cross(self, floor: int) -> tuple[Ints, Ints]:
        """Raise the floor; the rows (and times) that leave by it, without those already gone."""
        rows, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for run in (self._large, self._small):
            index = np.flatnonzero((run.time < floor) & (run.time >= self.floor))
            index = index[self.flags[run.row[index]] & GONE == 0]
            rows.append(run.row[index])
            times.append(run.time[index])
        self.floor = max(self.floor, floor)
        leaving = np.concatenate(rows)
        self._left += len(leaving)
        return leaving, np.concatenate(times)

    def discard(self, rows: Ints) -> None:
        """Mark live rows of the runs as gone."""
        self.flags[rows] |= GONE
        self._left += len(rows)

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
        if self._left * 4 <= total and self.store.rows <= 2 * self._kept + COMPACT_ROWS:
            return
        runs = [run.select(self._present(run)) for run in (self._large, self._small)]
        blocks = np.unique(np.concatenate([self.store.locate(run.row)[0] for run in runs]))
        starts, shift = self.store.keep(blocks)
        sizes = np.diff(self.store.starts)
        pick = np.arange(self.store.rows) + np.repeat(shift, sizes)
        self.flags = self.flags[pick]
        self.extra = {name: values[pick] for name, values in self.extra.items()}
        self._large, self._small = (
            Run(run.key, run.time, run.row - shift[np.searchsorted(starts, run.row, side="right") - 1])
            if len(run)
            else EMPTY
            for run in runs
        )
        self._left = 0
        self._kept = self.store.rows

    def restore(self, blocks: Sequence[tuple[BlockId, pa.RecordBatch]], flags: Flags, floor: int) -> None:
        """Rebuild the index from blocks and flags, as after a restart."""
        loaded = self.load(blocks)
        self.flags = flags
        self.floor = floor
        self.add(loaded.run.select(self._present(loaded.run)))

    def _present(self, run: Run) -> Mask:
        present: Mask = (run.time >= self.floor) & (self.flags[run.row] & GONE == 0)
        return present
