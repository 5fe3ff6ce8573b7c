"""Deciding: what comes of rows whose time has passed, that have waited for long enough, or are too many."""

from __future__ import annotations

import numpy as np

from braid.core.columns import HASH
from braid.core.side import Side
from braid.core.times import MAX_TIME
from braid.kernels.arrays import Ints
from braid.kernels.choices import ADDRESS
from braid.kernels.join.buffer import EVICTED, GONE, MATCHED, PADDED
from braid.kernels.join.caps import overflow
from braid.kernels.join.consume import assign
from braid.kernels.join.pairs import Pairs, joined, reach, verify, within
from braid.kernels.join.runs import Run
from braid.kernels.join.single_match import CHOICE, Candidates
from braid.kernels.join.working_set import WorkingSet
from braid.kernels.lost import Loss


class Deciding:
    """Raises the floors of a step, and lets rows go that can match no more: padded, if they had no match."""

    def __init__(self, work: WorkingSet) -> None:
        self._work = work
        self._spec = work.spec
        self._step = work.step
        self._state = work.state
        self._buffers = work.buffers

    def decide(self) -> None:
        """Raise the floors, emit rows that can no longer match, and keep the rest of the new rows."""
        spec, step = self._spec, self._step
        left_floor = step.times[Side.RIGHT] - spec.upper
        right_floor = step.times[Side.LEFT] + spec.lower
        if spec.consume:
            # Left rows choose in order of time: none before a row may still be to come.
            left_floor = min(left_floor, step.times[Side.LEFT])
        if spec.consume or (spec.match.waits and spec.type.pads(Side.RIGHT)):
            # A right row is free, or unmatched, only when every left row that might choose it has chosen.
            right_floor = min(right_floor, left_floor + spec.lower)
        if spec.consume:
            # New right rows can be chosen at once, so they are made part of the window first.
            self._admit(Side.RIGHT)
        self._cross(Side.LEFT, left_floor)
        self._admit(Side.LEFT)
        self._cross(Side.RIGHT, right_floor)
        if not spec.consume:
            self._admit(Side.RIGHT)
        for side in Side:
            new = self._work.new[side]
            self._work.counts.inputs[side].inert += len(new.inert)
            self._work.counts.inputs[side].invalid += len(new.invalid)
            self._work.end(side, new.inert)
            self._work.end(side, new.invalid)
            if not spec.type.pads(side):
                self._work.lose(side, Loss.INVALID_TIME, new.invalid)

    def _cross(self, side: Side, floor: int) -> None:
        buffer = self._buffers[side]
        rows = buffer.cross(floor)
        if side is Side.RIGHT and len(rows) and self._spec.type.pads(side):
            # The floor waits for every left row that may choose a row, unless that was before an update.
            chosen = np.isin(rows, self._chosen(side, buffer.floor))
            buffer.hold_back(rows[chosen])
            rows = rows[~chosen]
        self._settle(side, rows)

    def _admit(self, side: Side) -> None:
        """Add new rows to the index, and enforce the cap among those that are not decided yet."""
        buffer, new = self._buffers[side], self._work.new[side]
        if self._spec.consume and side is Side.RIGHT:
            self._settle(side, np.sort(new.run.row[new.times < buffer.floor]))
        buffer.add(new.run)
        evicted = overflow(buffer, self._spec, new.run.key[buffer.flags[new.run.row] < GONE])
        if len(evicted):
            self._evict(side, evicted)

    def pad_waiting(self) -> None:
        """Pad unmatched rows that have waited for long enough by the wall clock."""
        if self._spec.pad_after is None:
            return
        for side in filter(self._spec.type.pads, Side):
            buffer, chosen = self._buffers[side], self._chosen(side)
            rows = buffer.due(self._step.wall_time, chosen)
            rows = rows[(buffer.flags[rows] == 0) & ~np.isin(rows, chosen)]
            self._work.counts.inputs[side].padded_early += len(rows)
            self._work.end(side, rows)
            buffer.flags[rows] |= MATCHED | PADDED

    def _chosen(self, side: Side, before: int = MAX_TIME) -> Ints:
        """Rows that are a pending row's best match so far: they are not padded unless a better one comes.

        Only those with event times before the given one.
        """
        if side is Side.LEFT or not self._spec.match.waits:
            return np.empty(0, np.int64)
        left, pending = self._buffers[Side.LEFT], self._state.choosing()
        pending = pending[left.extra["time"][pending] < before]
        at = [left.extra[name][pending] for name in ADDRESS]
        # They are still here, as the floor of padded right rows waits for every left row that may choose
        # them, unless the join did not pad right rows when they left.
        store = self._buffers[Side.RIGHT].store
        here = store.present(*at)
        return store.number(*(values[here] for values in at))

    def settle(self) -> None:
        """Let left rows go that have a match, with the best one so far: the others go on by other rules."""
        left, right = self._buffers[Side.LEFT], self._buffers[Side.RIGHT]
        rows = left.rows_in_flight()
        self._conclude(rows)
        self._finish(Side.LEFT, rows[left.flags[rows] & MATCHED > 0])
        for buffer in (left, right):
            buffer.forget_order()

    def note(self) -> None:
        """Where nobody knows which rows have had a match, take it that all have: none comes out padded then.

        Earlier versions did not take note of it where they did not have to.
        """
        if not self._state.noted and Side.RIGHT not in self._spec.remembered:
            right = self._buffers[Side.RIGHT]
            right.flags[right.rows_in_flight()] |= MATCHED
        self._state.noted = True

    def _settle(self, side: Side, rows: Ints) -> None:
        """Emit the final word on rows whose time has passed, and let them go."""
        if side is Side.LEFT:
            self._conclude(rows)
        self._finish(side, rows)

    def _conclude(self, rows: Ints) -> None:
        """Let left rows have the match that they have waited with."""
        if self._spec.match.waits:
            left = self._buffers[Side.LEFT]
            chosen = rows[left.extra["commit"][rows] >= 0]
            values = (left.extra[name][chosen] for name in CHOICE)
            self._work.emit_choices(Candidates(chosen, left.times[chosen], *values))
        if self._spec.consume:
            self._consume(rows)

    def _consume(self, rows: Ints) -> None:
        """Let left rows choose among the right rows that nobody has chosen before them."""
        left, right = self._buffers[Side.LEFT], self._buffers[Side.RIGHT]
        times = left.times[rows]
        keys = left.store.take(HASH, rows).to_numpy() if self._spec.keys else times
        order = np.argsort(keys, kind="stable")
        run, times = Run(keys[order], rows[order]), times[order]
        low, high = reach(self._spec, Side.LEFT, run, times)
        candidates = (
            within(self._spec, Pairs(run.row[needle], times[needle], row, time))
            for needle, row, time in right.search(Side.LEFT, low, high, times)
        )
        for pairs in joined(candidates):
            kept = verify(self._spec, left.store, right.store, pairs)
            if self._state.pads_early:
                kept = self._work.not_padded(Side, kept)
            if not len(kept.left):
                continue
            group = (
                left.store.take(HASH, kept.left).to_numpy() if self._spec.keys else np.zeros_like(kept.left)
            )
            chosen = kept.select(assign(kept, group))
            self._work.counts.matches += len(chosen.left)
            self._work.emitter.pairs(left.store, chosen.left, right.store, chosen.right)
            self._work.emitter.measure(chosen.left_time, chosen.right_time)
            left.flags[chosen.left] |= MATCHED
            right.flags[chosen.right] |= MATCHED
            self._work.end(Side.RIGHT, chosen.right)
            right.retire(chosen.right)

    def _finish(self, side: Side, rows: Ints) -> None:
        """Count rows that nothing more comes of, pad those without a match, and let them go."""
        buffer, ended = self._buffers[side], rows
        if self._state.pads_early:
            # What has come out padded after its wait was decided then.
            ended = rows[buffer.flags[rows] & PADDED == 0]
        self._work.end(side, ended)
        buffer.retire(rows)

    def _evict(self, side: Side, rows: Ints) -> None:
        buffer = self._buffers[side]
        self._work.lose(side, Loss.CAPPED, rows)
        if side is Side.RIGHT and self._spec.match.waits and self._spec.type.pads(side):
            # It may be a pending row's best match: whether it is padded is known when its time has passed.
            buffer.flags[rows] |= EVICTED
            return
        self._settle(side, rows)
