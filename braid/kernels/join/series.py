"""Time-series joins of one shard: records are paired with their neighbours in time in the other series.

A record's predecessor in the other series is known once that series' stream time has passed the record; its
successor is known once that series' stream time has reached the successor. So whether a pair is certain
is a function of two stream times and of which rows have arrived: a pair is emitted in the step in which it
becomes certain, without a note of what was emitted before, and the result does not depend on arrival.
For series that are declared ordered, stream time is the time of the last record, and these rules become
the six cases of Schranz and Jeremias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from braid.core.columns import HASH
from braid.core.counters import Counters
from braid.core.errors import StateError
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import FAR, MAX_TIME, MIN_TIME
from braid.kernels.arrays import Flags, Ints, Mask
from braid.kernels.blocks import BlockSource, BlockStore
from braid.kernels.join.buffer import GONE, MATCHED
from braid.kernels.join.emit import output_schema
from braid.kernels.join.keys import check_key_type, equal_keys, group_codes
from braid.kernels.join.late_lookup import Late, look_back
from braid.kernels.join.neighbours import Merged, merge_sides
from braid.kernels.join.parse import parse
from braid.kernels.join.runs import Run
from braid.kernels.join.spec import JoinSpec, Neighbour, SeriesMode, SeriesSpec
from braid.kernels.lost import Loss, Lost
from braid.kernels.state import InputState, OperatorState, decode, encode
from braid.kernels.step import Output, Step


@dataclass
class _Series:
    """Rows of a side that may still be paired: numbers in the store (ascending), times, hashes, flags."""

    store: BlockStore
    rows: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    times: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    hashes: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    matched: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    last: Position | None = None
    drained: Position | None = None

    def add(self, rows: Ints, times: Ints, hashes: Ints) -> None:
        self.rows = np.concatenate([self.rows, rows])
        self.times = np.concatenate([self.times, times])
        self.hashes = np.concatenate([self.hashes, hashes])
        self.matched = np.concatenate([self.matched, np.zeros(len(rows), np.bool_)])

    def keep(self, which: Mask) -> None:
        """Forget all other rows, and blocks that only they held."""
        self.rows, self.times = self.rows[which], self.times[which]
        self.hashes, self.matched = self.hashes[which], self.matched[which]
        if int(np.count_nonzero(self.held())) < self.store.blocks:
            wanted = np.zeros(self.store.rows, np.bool_)
            wanted[self.rows] = True
            left, _ = self.store.keep(wanted)
            self.rows = self.rows - np.cumsum(~left)[self.rows]
        self.store.tidy()

    def held(self) -> Mask:
        """Which blocks have rows that may still be paired."""
        held: Mask = np.diff(np.searchsorted(self.rows, self.store.starts)) > 0
        return held


class SeriesJoin:
    """Joins one shard of two time series; the same interface as `IntervalJoin`.

    Parameters
    ----------
    spec
        What to join.
    source
        Blocks of the shard.
    state
        What `snapshot` returned, to go on from there.
    """

    def __init__(self, spec: SeriesSpec, source: BlockSource, state: bytes | None = None) -> None:
        self._spec = spec
        self._source = source
        self._schemas = {side: source.schema(side) for side in Side}
        for side in Side:
            for name in spec.key_columns:
                check_key_type(name, self._schemas[side].field(name).type)
        self._schema = output_schema(spec, self._schemas)
        self._within = FAR if spec.within is None else min(spec.within, FAR)
        self._series = {side: _Series(BlockStore(self._schemas[side])) for side in Side}
        self._times: Mapping[str, int] = dict.fromkeys(Side, MIN_TIME)
        if state is not None:
            self._restore(decode(state))

    @property
    def pending(self) -> dict[Side, int]:
        """Rows per side that may still be paired."""
        return {side: len(series.rows) for side, series in self._series.items()}

    def step(self, step: Step) -> Output:
        """Take new rows in, and emit the pairs that have become certain."""
        times = step.times
        if any(times[side] < self._times[side] for side in Side):
            raise StateError(
                f"stream times went back: {self._times} -> {times}",
                hint="steps must be replayed in order, from the state that belongs to them",
            )
        work = _Work(self._spec, self._within, self._schema, self._series, self._times, times)
        for side in Side:
            for block in sorted(step.blocks[side]):
                work.load(side, block, self._source.read(side, block))
            work.list_parted(side, self._source)
        work.emit()
        self._times = times
        return work.output()

    def snapshot(self) -> bytes:
        """State as versioned bytes: blocks in use, and bits for the rows in them."""
        return encode(OperatorState({side: self._side_state(side) for side in Side}, self._times))

    def _side_state(self, side: Side) -> InputState:
        series = self._series[side]
        flags: Flags = np.full(series.store.rows, GONE, np.uint8)
        flags[series.rows] = np.where(series.matched, MATCHED, 0)
        held = series.held()
        whole = series.store.whole(flags, GONE, held)
        return InputState(series.store.positions(held), whole, MIN_TIME, series.last, series.drained)

    def _restore(self, state: OperatorState) -> None:
        self._times = state.times
        for side in Side:
            saved = state.inputs[side]
            series = self._series[side]
            series.last, series.drained = saved.last, saved.drained
            for block in saved.blocks:
                batch = self._source.read(side, block)
                start = series.store.append(block, batch)
                times = parse(batch, self._spec, start).times
                rows = np.flatnonzero(saved.flags[start : start + batch.num_rows] & GONE == 0)
                series.add(start + rows, times[rows], batch.column(HASH).to_numpy()[rows])
            if series.store.rows != len(saved.flags):
                raise StateError(
                    f"saved state knows {len(saved.flags)} {side} rows, "
                    f"but the log has {series.store.rows} for it",
                    hint="the state belongs to another shard range or category; replay from the log",
                )
            series.matched = saved.flags[series.rows] & MATCHED > 0


class _Work:
    """The working set of one step."""

    def __init__(
        self,
        spec: SeriesSpec,
        within: int,
        schema: pa.Schema,
        series: dict[Side, _Series],
        before: Mapping[str, int],
        after: Mapping[str, int],
    ) -> None:
        self._spec, self._within, self._schema = spec, within, schema
        self._series = series
        self._before, self._after = before, after
        self._old = {side: len(series[side].rows) for side in Side}
        self._batches: list[pa.RecordBatch] = []
        self._counts = Counters.over(Side)
        self._lost = Lost(self._counts)

    def load(self, side: Side, block: Position, batch: pa.RecordBatch) -> None:
        """Take a block in; rows behind their own stream time would contradict what is certain already."""
        series = self._series[side]
        start = series.store.append(block, batch)
        parsed = parse(batch, self._spec, start)
        rows = np.sort(parsed.run.row)
        times = parsed.times[rows - start]
        late = times < self._before[side]
        series.add(rows[~late], times[~late], batch.column(HASH).to_numpy()[rows[~late] - start])
        series.last = block if series.last is None else max(series.last, block)
        counts = self._counts.inputs[side]
        counts.rows += batch.num_rows
        counts.inert += len(parsed.inert)
        counts.invalid += len(parsed.invalid)
        if not self._spec.type.pads(side):
            self._lose(side, Loss.INVALID_TIME, parsed.invalid)
        self._lose(side, Loss.LATE, rows[late])
        for which in (parsed.inert, parsed.invalid, rows[late]):
            self._end(side, which)

    def list_parted(self, side: Side, source: BlockSource) -> None:
        """List new rows that a drain has parted from rows in their reach: those are not their neighbours now.

        Without a bound everything is in reach, and rows are not listed.
        """
        until, series = self._series[side.other].drained, self._series[side]
        if until is None or self._spec.within is None:
            return
        fresh = slice(self._old[side], None)
        order = np.argsort(series.hashes[fresh] if self._spec.keys else series.times[fresh], kind="stable")
        rows, times = series.rows[fresh][order], series.times[fresh][order]
        if not len(rows):
            return
        near = JoinSpec(self._spec.type, -self._within, self._within, self._spec.keys, ())
        keys = series.hashes[fresh][order] if self._spec.keys else times
        late = Late(side, Run(keys, rows), times, MAX_TIME)
        found = [pairs for _, pairs in look_back(near, source, series.store, late, until)]
        own = [pairs.left if side is Side.LEFT else pairs.right for pairs in found]
        self._lose(side, Loss.LATE, np.unique(np.concatenate([rows[:0], *own])))

    def _lose(self, side: Side, loss: Loss, rows: Ints) -> None:
        if len(rows):
            self._lost.add(side, loss, self._series[side].store.refs(rows), np.zeros_like(rows))

    def emit(self) -> None:
        """Emit what has become certain, and forget what nothing can be paired with any more."""
        order = self._merge()
        if len(order):
            if self._spec.mode.symmetric:
                self._emit_pairs(order)
            else:
                self._emit_choices(order)
            self._forget(order)

    def output(self) -> Output:
        """Everything that the step has produced."""
        for side in Side:
            self._counts.inputs[side].pending = len(self._series[side].rows)
            self._counts.inputs[side].hold(*self._series[side].store.extent(self._series[side].held()))
        for side, column in self._spec.carried:
            least = self._series[side].store.least(column, self._series[side].rows)
            if least is not None:
                self._counts.inputs[side].held[column] = least
        return Output(pa.Table.from_batches(self._batches, self._schema), self._lost.table(), self._counts)

    def _merge(self) -> Merged:
        left, right = self._series[Side.LEFT], self._series[Side.RIGHT]
        if not self._spec.keys:
            zeros = (np.zeros(len(left.rows), np.int64), np.zeros(len(right.rows), np.int64))
            return merge_sides(zeros[0], left.times, zeros[1], right.times)
        order = merge_sides(left.hashes, left.times, right.hashes, right.times)
        keys = [
            pa.concat_arrays([left.store.take(name, left.rows), right.store.take(name, right.rows)])
            for name in self._spec.key_columns
        ]
        at = pa.array(np.where(order.is_left, 0, len(left.rows)) + order.index)
        same = order.group[1:] == order.group[:-1]
        for key in keys:
            sorted_key = key.take(at)
            same &= equal_keys(sorted_key[1:], sorted_key[:-1])
        if np.array_equal(same, order.group[1:] == order.group[:-1]):
            return order
        # Two keys share a hash: group by the keys themselves.
        codes = group_codes(keys)
        return merge_sides(codes[: len(left.rows)], left.times, codes[len(left.rows) :], right.times)

    def _is_old(self, order: Merged) -> Mask:
        limit = np.where(order.is_left, self._old[Side.LEFT], self._old[Side.RIGHT])
        old: Mask = order.index < limit
        return old

    # -- symmetric modes --------------------------------------------------------------------------

    def _emit_pairs(self, order: Merged) -> None:
        old = self._is_old(order)
        pairs = [self._roles(order, old, side) for side in Side]
        code = np.concatenate([left * len(order) + right for left, right, _ in pairs])
        known = np.concatenate([certain for _, _, certain in pairs])
        code, inverse = np.unique(code, return_inverse=True)
        before = np.zeros(len(code), np.bool_)
        before[inverse[known]] = True
        fresh = code[~before]
        positions = {Side.LEFT: fresh // len(order), Side.RIGHT: fresh % len(order)}
        for side in Side:
            if self._spec.type.pads(side):
                self._series[side].matched[order.index[positions[side]]] = True
        self._counts.matches += len(fresh)
        self._append(*(self._rows(order, side, positions[side]) for side in Side))
        for side in Side:
            self._settle(order, old, side)

    def _roles(self, order: Merged, old: Mask, side: Side) -> tuple[Ints, Ints, Mask]:
        """Pairs that rows of `side` choose and that are certain now: positions, and if they were before."""
        other = side.other
        mine = np.flatnonzero(order.of(side))
        previous = order.before(other, inclusive=True)[mine]
        following = order.after(other, inclusive=False)[mine]
        time = order.time[mine]
        gap_back = np.where(previous >= 0, time - order.time[previous], FAR * 2)
        gap_ahead = np.where(following >= 0, order.time[following] - time, FAR * 2)
        chosen = [
            (previous, gap_back <= self._within, time + 1),
            (following, gap_ahead <= self._within, time + gap_ahead),
        ]
        if self._spec.mode is SeriesMode.SPARSE:
            nearer = gap_back <= gap_ahead
            chosen = [
                (previous, chosen[0][1] & nearer, time + np.maximum(gap_back, 1)),
                (following, chosen[1][1] & ~nearer, time + gap_ahead),
            ]
        own, partner, known = [], [], []
        for position, valid, needed in chosen:
            certain = valid & (self._after[other] >= needed)
            own.append(mine[certain])
            partner.append(position[certain])
            was = (self._before[other] >= needed[certain]) & old[own[-1]] & old[partner[-1]]
            known.append(was)
        both = np.concatenate(own), np.concatenate(partner)
        left, right = both if side is Side.LEFT else both[::-1]
        return left, right, np.concatenate(known)

    def _settle(self, order: Merged, old: Mask, side: Side) -> None:
        """Pad rows whose bound has passed without a partner."""
        if not self._spec.type.pads(side):
            return
        other, series = side.other, self._series[side]
        mine = np.flatnonzero(order.of(side))
        needed = order.time[mine] + self._within
        due = (self._after[other] > needed) & ~((self._before[other] > needed) & old[mine])
        index = order.index[mine[due]]
        self._end(side, np.sort(series.rows[index[~series.matched[index]]]))

    # -- one partner per left row -----------------------------------------------------------------

    def _emit_choices(self, order: Merged) -> None:
        spec, old = self._spec, self._is_old(order)
        mine = np.flatnonzero(order.is_left)
        time = order.time[mine]
        previous = order.before(Side.RIGHT, inclusive=spec.inclusive or spec.mode is not SeriesMode.PREVIOUS)[
            mine
        ]
        following = order.after(Side.RIGHT, inclusive=spec.inclusive and spec.mode is SeriesMode.NEXT)[mine]
        gap_back = np.where(previous >= 0, time - order.time[previous], FAR * 2)
        gap_ahead = np.where(following >= 0, order.time[following] - time, FAR * 2)
        has_previous, has_following = gap_back <= self._within, gap_ahead <= self._within
        previous = np.where(has_previous, previous, -1)
        following = np.where(has_following, following, -1)
        # The right stream time at which each neighbour, or its absence, is final.
        know_previous = time + (1 if spec.inclusive or spec.mode is not SeriesMode.PREVIOUS else 0)
        know_following = np.where(has_following, time + gap_ahead, time + self._within + 1)
        match spec.mode:
            case SeriesMode.PREVIOUS:
                chosen, needed = previous, know_previous
            case SeriesMode.NEXT:
                chosen, needed = following, know_following
            case _:
                back = has_previous & (gap_back <= gap_ahead)
                chosen = np.where(back, previous, following)
                needed = np.where(back, time + np.maximum(gap_back, 1), know_following)
        if any(column.neighbour is not None for column in spec.output):
            needed = np.maximum(needed, np.maximum(know_previous, know_following))
        seen = old[mine] & np.where(chosen >= 0, old[chosen], True)
        due = (self._after[Side.RIGHT] >= needed) & ~((self._before[Side.RIGHT] >= needed) & seen)
        found_one = int(np.count_nonzero(due & (chosen >= 0)))
        self._counts.matches += found_one
        self._count_decided(Side.LEFT, found_one, int(np.count_nonzero(due)) - found_one)
        due &= (chosen >= 0) | spec.type.pads(Side.LEFT)
        self._append(
            self._rows(order, Side.LEFT, mine[due]),
            *(self._rows(order, Side.RIGHT, found[due]) for found in (chosen, previous, following)),
        )

    # -- shared -----------------------------------------------------------------------------------

    def _forget(self, order: Merged) -> None:
        """Keep rows that a row of the other side at or after both stream times might be paired with."""
        horizon = min(self._after.values())
        kept = np.zeros(len(order), np.bool_)
        for side in Side:
            mine = np.flatnonzero(order.of(side))
            time = order.time[mine]
            following = order.after(side.other, inclusive=False)[mine]
            # Open-ended rows have no successor before the horizon yet: one may still come.
            open_ended = (following < 0) | (order.time[following] >= horizon)
            keep = (time >= horizon) | open_ended | self._is_last(order, mine, horizon)
            # Twice the bound: a partner within the bound may itself choose between this row and one as far
            # on its other side.
            keep &= time >= horizon - min(2 * self._within, FAR)
            if self._spec.type.pads(side) and self._spec.mode.symmetric:
                matched = self._series[side].matched[order.index[mine]]
                keep |= ~matched & (self._after[side.other] <= time + self._within)
            kept[mine] = keep
        if self._spec.mode is SeriesMode.SPARSE:
            # Keep what a kept row has chosen: without it, the row would seem to have chosen its next best.
            chosen = [order.before(side.other, inclusive=True)[kept & order.of(side)] for side in Side]
            for positions in chosen:
                kept[positions[positions >= 0]] = True
        for side in Side:
            which = np.zeros(len(self._series[side].rows), np.bool_)
            which[order.index[kept & order.of(side)]] = True
            if self._spec.mode.symmetric:
                # A record that has a partner may get another one for as long as it is kept.
                self._count_decided(side, int(np.count_nonzero(self._series[side].matched & ~which)), 0)
            self._series[side].keep(which)

    def _is_last(self, order: Merged, mine: Ints, horizon: int) -> Mask:
        """Whether a row is its side's last one before the horizon, in its group."""
        same = np.append(order.group[mine[1:]] == order.group[mine[:-1]], False)
        next_time = np.append(order.time[mine[1:]], 0)
        last: Mask = ~same | (next_time >= horizon)
        return last

    def _rows(self, order: Merged, side: Side, positions: Ints) -> Ints:
        rows = np.full(len(positions), -1)
        found = positions >= 0
        rows[found] = self._series[side].rows[order.index[positions[found]]]
        return rows

    def _end(self, side: Side, unmatched: Ints) -> None:
        """Count rows that have ended without a match, and pad them."""
        self._count_decided(side, 0, len(unmatched))
        if self._spec.type.pads(side):
            none = np.full(len(unmatched), -1)
            self._append(*((unmatched, none) if side is Side.LEFT else (none, unmatched)))

    def _count_decided(self, side: Side, matched: int, unmatched: int) -> None:
        if side in self._spec.remembered:
            counted = self._counts.inputs[side]
            counted.decided += matched + unmatched
            counted.matched += matched
            counted.unmatched += unmatched

    def _append(
        self, left: Ints, right: Ints, previous: Ints | None = None, following: Ints | None = None
    ) -> None:
        if not len(left):
            return
        none = np.full(len(left), -1)
        partners = {None: right, Neighbour.PREVIOUS: previous, Neighbour.NEXT: following}
        arrays = []
        for column in self._spec.output:
            rows = left if column.side is Side.LEFT else partners[column.neighbour]
            store = self._series[column.side].store
            arrays.append(store.take(column.column, none if rows is None else rows, nullable=True))
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
