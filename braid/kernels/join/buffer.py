"""The rows of one side that can still match: pending left rows, or the right window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MAX_TIME, MIN_TIME
from braid.kernels.arrays import Flags, Ints, Mask, extended
from braid.kernels.blocks import BlockStore, microseconds
from braid.kernels.join.lateness import Lateness
from braid.kernels.join.pairs import near
from braid.kernels.join.parse import Parsed, parse
from braid.kernels.join.runs import Run, add_run, merge, probe
from braid.kernels.join.spec import JoinSpec
from braid.kernels.minima import PAGE, Minima, Where
from braid.kernels.state import InputState

MATCHED = 1
"""Flag: the row has been emitted with a partner, so it is never padded."""
PADDED = 2
"""Flag: the row has been emitted padded before its time was up; a later match is counted, not emitted."""
GONE = 4
"""Flag: the row takes no further part: it is decided, matched once, evicted, or one that can never match."""
EVICTED = 8
"""Flag: a cap has barred the row from new matches, but whether it is padded is still open."""

COMPACT_ROWS = 1 << 12
"""Rows that a store may hold beyond twice what it needs."""
REMEMBERED = 8
"""One decided row is remembered for so many live ones, at most, when departed rows are removed."""


class Loaded(NamedTuple):
    """New rows of a side: those that can match, with their times, and the numbers of those that cannot."""

    run: Run
    times: Ints
    inert: Ints
    invalid: Ints


class _Carried(NamedTuple):
    """A carried time column: values by row number, and the least ones."""

    values: Ints
    minima: Minima


class Buffer:
    """Blocks of one side, indexed by a few sorted runs, each much smaller than the one before.

    Rows leave when the floor passes them, or before (`retire`). They stay in the runs until they make up a
    quarter of them, so that each row is moved a bounded number of times however long the window is.
    `times`, `flags` and the `extra` attributes (-1 at first) are addressed by row number.

    Rows that the floor has passed are *remembered* as long as they are in the runs: every row at `memory` or
    after, and before `floor`, is. A late row finds them here as it would in the log. This is a cache: what it
    holds changes no result, no counter and no saved state.

    Parameters
    ----------
    spec
        What is joined.
    schema
        Columns of the side.
    columns
        Those that are wanted again after a block has been loaded.
    extra
        Names of further attributes of rows.
    carried
        Time columns whose least value among live rows is asked for.
    remembers
        Whether decided rows are remembered: nothing but the floor may then make rows leave.
    """

    def __init__(
        self,
        spec: JoinSpec,
        schema: pa.Schema,
        columns: Sequence[str],
        extra: Sequence[str] = (),
        carried: Sequence[str] = (),
        *,
        remembers: bool = False,
    ) -> None:
        self._spec = spec
        self._columns = list(columns)
        self.store = BlockStore(schema)
        self.floor = MIN_TIME
        self.memory = MIN_TIME if remembers else MAX_TIME
        self.newest = self._whole = MIN_TIME
        self.live = 0
        self.times: Ints = np.zeros(0, np.int64)
        self.flags: Flags = np.zeros(0, np.uint8)
        self.extra: dict[str, Ints] = {name: np.zeros(0, np.int64) for name in extra}
        self.lateness = Lateness()
        self._carried = {name: _Carried(np.zeros(0, np.int64), Minima()) for name in carried}
        self._left: list[Ints] = []
        self._minima = Minima()
        self._held: Ints = np.zeros(0, np.int64)
        self._due: Ints = np.zeros(0, np.int64)
        self._runs: list[Run] = []
        self._kept = 0

    def extent(self) -> tuple[int, int | None]:
        """In how many blocks live rows are, and the commit of the first one."""
        return self.store.extent(self._held > 0)

    def load(
        self, blocks: Sequence[tuple[Position, pa.RecordBatch]], due: Sequence[int] | None = None
    ) -> Loaded:
        """Take blocks into the store, and index their rows without adding them to the runs yet.

        `due` is the wall-clock time from which on rows of each block are padded, where that is the rule.
        """
        start = self.store.rows
        parsed = [self._parse(block, batch) for block, batch in blocks]
        more = self.store.rows - start
        self.times = extended(self.times, [p.times for p in parsed])
        self.flags = extended(self.flags, [np.zeros(more, np.uint8)])
        for name, values in self.extra.items():
            self.extra[name] = extended(values, [np.full(more, -1)])
        for name, (values, minima) in self._carried.items():
            self._carried[name] = _Carried(
                extended(values, [_carried_values(batch, name) for _, batch in blocks]), minima
            )
        run = merge([p.run for p in parsed])
        inert = np.concatenate([run.row[:0], *(p.inert for p in parsed)])
        invalid = np.concatenate([run.row[:0], *(p.invalid for p in parsed)])
        self.flags[inert] = self.flags[invalid] = GONE
        self._extend_minima(start)
        self._held = extended(self._held, [np.array([len(p.run) for p in parsed], np.int64)])
        self._due = extended(self._due, [np.array(due or [MAX_TIME] * len(blocks), np.int64)])
        self.live += len(run)
        times = self.times[run.row]
        self.newest = max(self.newest, int(times.max(initial=MIN_TIME)))
        return Loaded(run, times, inert, invalid)

    def _parse(self, block: Position, batch: pa.RecordBatch) -> Parsed:
        return parse(batch, self._spec, self.store.append(block, batch.select(self._columns)))

    def add(self, run: Run) -> None:
        """Make new rows part of the index: those that are live, and those to be remembered."""
        worth = self._worth(run.row)
        add_run(self._runs, run if worth.all() else run.select(worth))

    def search(self, side: Side, low: Ints, high: Ints, time: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Candidates `(needle, row, time)` among live rows for rows of `side` at `time`; see `runs.probe`."""
        for needle, row in self._candidates(side, low, high, time):
            good = self.flags[row] < GONE
            yield needle[good], row[good], self.times[row[good]]

    def recall(
        self, side: Side, low: Ints, high: Ints, time: Ints, since: int
    ) -> Iterator[tuple[Ints, Ints, Ints]]:
        """The same among rows that the floor has passed, and that are at `since` or after."""
        for needle, row in self._candidates(side, low, high, time):
            found = self.times[row]
            good = (found < self.floor) & (found >= since)
            yield needle[good], row[good], found[good]

    def _candidates(self, side: Side, low: Ints, high: Ints, time: Ints) -> Iterator[tuple[Ints, Ints]]:
        bounds = near(self._spec, side, time, self.times)
        for run in self._runs:
            for needle, position in probe(run, low, high, bounds):
                yield needle, run.row[position]

    def cross(self, floor: int) -> Ints:
        """Raise the floor; the rows that leave by it, ascending, which are to be retired."""
        self.floor = max(floor, self.floor)
        if not self.lateness.depth():
            # Nobody looks for decided rows.
            self.memory = max(self.memory, self.floor)
        return self._minima.below(self.floor, self.times, self._gone)

    def hold_back(self, rows: Ints) -> None:
        """Rows that were to leave by the floor stay until the next time."""
        self._minima.lower(rows, self.times[rows])

    def rows_in_flight(self) -> Ints:
        """All live rows, ascending."""
        return np.flatnonzero(self.flags < GONE)

    def forget_order(self) -> None:
        """Some of the rows so far have left, or will, by other rules than those that come next.

        So what is not among the live rows is looked for in the log, until the floor has passed all of them.
        """
        self._whole = self.newest + 1
        self.memory = max(self.memory, self._whole)

    def retire(self, rows: Ints) -> None:
        """Rows that were live take no further part."""
        if len(rows):
            self.flags[rows] = GONE
            self.live -= len(rows)
            self._held -= self.store.count(rows)
            if self._carried:
                self._left.append(rows)

    def groups(self, keys: Ints) -> Run:
        """All live rows whose run key is among `keys` (ascending, distinct)."""
        found = []
        for run in self._runs:
            for _, position in probe(run, keys, keys):
                picked = run.select(position)
                found.append(picked.select(self.flags[picked.row] < GONE))
        return merge(found)

    def least(self, column: str) -> int | None:
        """Least value of a carried column among live rows, in microseconds; None if all are NULL."""
        if self._left:
            pages = np.unique(np.concatenate(self._left) // PAGE)
            for values, minima in self._carried.values():
                minima.renew(pages, values, self._gone)
            self._left.clear()
        found = self._carried[column].minima.least()
        return None if found == MAX_TIME else found

    def due(self, now: int, held_back: Ints) -> Ints:
        """Rows of blocks that have waited for long enough by the wall clock.

        Each block is due once, but one with rows that are held back is due again.
        """
        due = self._due <= now
        rows = self.store.span(np.flatnonzero(due))
        self._due[due & (self.store.count(held_back) == 0)] = MAX_TIME
        return rows

    def compact(self) -> None:
        """Remove departed rows when it pays, and put blocks together that came one by one."""
        total = sum(map(len, self._runs))
        sparse = self.store.rows > 2 * max(self._kept, self.live) + COMPACT_ROWS
        if (total - self.live) * 4 <= total and not sparse:
            self.store.tidy()
            return
        self._forget()
        runs = [run.select(self._worth(run.row)) for run in self._runs]
        wanted = np.zeros(self.store.rows, np.bool_)
        for run in runs:
            wanted[run.row] = True
        left, stay = self.store.keep(wanted)
        number = np.cumsum(left) - 1
        self._runs = [Run(run.key, number[run.row]) for run in runs if len(run)]
        self._kept = self.store.rows
        self._held, self._due = self._held[stay], self._due[stay]
        self.times, self.flags = self.times[left], self.flags[left]
        self.extra = {name: values[left] for name, values in self.extra.items()}
        self._carried = {name: _Carried(one.values[left], Minima()) for name, one in self._carried.items()}
        self._left.clear()
        self._minima = Minima()
        self._extend_minima(0)

    def _forget(self) -> None:
        """Raise the memory to what late rows have looked for, and to a share of the live rows."""
        self.memory = max(self.memory, self.floor - self.lateness.depth())
        self.lateness.fade()
        if self.memory >= self.floor:
            return
        times = np.concatenate([self.times[:0], *(self.times[run.row] for run in self._runs)])
        times = times[(times < self.floor) & (times >= self.memory)]
        room = self.live // REMEMBERED
        if len(times) > room:
            self.memory = int(np.partition(times, len(times) - room - 1)[len(times) - room - 1]) + 1

    def _gone(self, where: Where) -> Mask:
        gone: Mask = self.flags[where] & GONE > 0
        return gone

    def _worth(self, rows: Ints) -> Mask:
        """Which rows are live, or to be remembered."""
        live: Mask = self.flags[rows] & GONE == 0
        if self.memory >= self.floor or live.all():
            return live
        return live | (self.times[rows] >= self.memory)

    def _extend_minima(self, first: int) -> None:
        """Take rows from `first` on into the minima."""
        gone = self.flags[first:] & GONE > 0
        some = bool(gone.any())
        for values, minima in ((self.times, self._minima), *self._carried.values()):
            minima.extend(np.where(gone, MAX_TIME, values[first:]) if some else values[first:])

    def state(
        self, last: Position | None, drained: Position | None = None, foreign: Position | None = None
    ) -> InputState:
        """What the side needs besides the log: blocks with live rows, and the flags of all rows in them."""
        held = self._held > 0
        flags = self.store.whole(self.flags, GONE, held)
        return InputState(
            self.store.positions(held), flags, self.floor, last, drained, self.newest, self._whole, foreign
        )

    def state_numbers(self, rows: Ints) -> Ints:
        """Where live rows are among the flags of the state."""
        return self.store.whole_number(rows, self._held > 0)

    def restore(
        self,
        blocks: Sequence[tuple[Position, pa.RecordBatch]],
        saved: InputState,
        due: Sequence[int] | None = None,
        *,
        flagged: bool = True,
    ) -> None:
        """Rebuild the index from blocks and flags, as after a restart.

        Earlier versions did not flag all rows that the floor had passed.
        """
        loaded, flags = self.load(blocks, due), saved.flags
        self.floor, self._whole = saved.floor, saved.whole
        self.newest = max(self.newest, saved.newest)
        self.memory = max(self.memory, saved.floor, saved.whole)
        kept = flags[loaded.run.row] & GONE == 0
        if not flagged:
            kept &= loaded.times >= saved.floor
        self.retire(np.sort(loaded.run.row[~kept]))
        self.flags |= np.where(self.flags & GONE > 0, np.uint8(0), flags)
        self.add(loaded.run.select(kept))


def _carried_values(batch: pa.RecordBatch, name: str) -> Ints:
    values: Ints = microseconds(batch.column(name)).fill_null(MAX_TIME).to_numpy()
    return values
