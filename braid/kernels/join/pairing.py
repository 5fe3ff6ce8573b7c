"""Pairing: with whom new rows match, among themselves, the rows in flight, and those that are decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MAX_TIME
from braid.kernels.arrays import Mask
from braid.kernels.blocks import BlockSource, BlockStore
from braid.kernels.join.buffer import MATCHED
from braid.kernels.join.late_lookup import Found, Late, find_late, look_back
from braid.kernels.join.pairs import Pairs, batched, near, reach, verify, window, within
from braid.kernels.join.runs import probe
from braid.kernels.join.single_match import CHOICE, Candidates, best
from braid.kernels.join.spec import MatchMode
from braid.kernels.join.working_set import WorkingSet
from braid.kernels.lost import Loss


class Pairing:
    """Finds the pairs of a step, and emits them or lets left rows choose among them."""

    def __init__(self, work: WorkingSet) -> None:
        self._work = work
        self._spec = work.spec
        self._state = work.state
        self._buffers = work.buffers
        self._candidates: list[Candidates] = []

    # -- new rows ---------------------------------------------------------------------------------

    def match(self) -> None:
        """Pairs with a new row: new right x pending left, and new left x (window + new right)."""
        if self._spec.consume:
            return  # Left rows choose in order of time, when they are decided.
        left, right = self._buffers[Side.LEFT].store, self._buffers[Side.RIGHT].store
        for pairs in batched(self._new_pairs()):
            self._accept(left, right, verify(self._spec, left, right, pairs))

    def _new_pairs(self) -> Iterator[Pairs]:
        spec, left, right = self._spec, self._work.new[Side.LEFT], self._work.new[Side.RIGHT]
        low, high = reach(spec, Side.RIGHT, right.run, right.times)
        for needle, row, time in self._buffers[Side.LEFT].search(Side.RIGHT, low, high, right.times):
            yield within(spec, Pairs(row, time, right.run.row[needle], right.times[needle]))
        low, high = reach(spec, Side.LEFT, left.run, left.times)
        for needle, row, time in self._buffers[Side.RIGHT].search(Side.LEFT, low, high, left.times):
            yield within(spec, Pairs(left.run.row[needle], left.times[needle], row, time))
        bounds = near(spec, Side.LEFT, left.times, self._buffers[Side.RIGHT].times)
        for needle, position in probe(right.run, low, high, bounds):
            mine = (left.run.row[needle], left.times[needle])
            yield within(spec, Pairs(*mine, right.run.row[position], right.times[position]))

    def _accept(self, left: BlockStore, right: BlockStore, pairs: Pairs, decided: Side | None = None) -> None:
        """Emit pairs, or keep them as candidates of a single-match join.

        Rows of side `decided` have been dealt with before: nothing is noted of them.
        """
        noted = [side for side in Side if side is not decided]
        if self._state.pads_early:
            pairs = self._work.not_padded(noted, pairs)
        if not len(pairs.left):
            return
        if self._spec.match is not MatchMode.ALL:
            self._candidates.append(
                Candidates(pairs.left, pairs.left_time, *right.refs(pairs.right), pairs.right_time)
            )
            return
        self._work.counts.matches += len(pairs.left)
        self._work.emitter.pairs(left, pairs.left, right, pairs.right)
        self._work.emitter.measure(pairs.left_time, pairs.right_time)
        for side in noted:
            # Whether that matters to this join or not: it may to the one after an update.
            self._buffers[side].flags[pairs.left if side is Side.LEFT else pairs.right] |= MATCHED

    # -- late rows --------------------------------------------------------------------------------

    def look_back(self) -> None:
        """Find partners of new rows among those that are decided: remembered, or else in the log.

        Those are rows below the floor, and whatever their time those of before a drain.
        """
        for side in Side:
            new, other = self._work.new[side], side.other
            until, drained = self._state.last[other], self._state.drained[other]
            late = find_late(self._spec, side, new.run, new.times, self._buffers[other].floor)
            parted = late if drained is None else find_late(self._spec, side, new.run, new.times, MAX_TIME)
            if not len(parted.run) or until is None:
                continue
            self._work.counts.inputs[side].late += len(late.run)
            rescued = side in self._spec.rescued
            source = self._state.source if rescued else self._state.losses.get(side, self._state.source)
            if self._spec.late_lookup and source is not None:
                found: Iterator[Found] = iter(())
                if len(late.run):
                    if source is self._state.source:
                        depths = late.floor - window(self._spec, side, late.times)[0]
                        self._buffers[other].lateness.note(depths)
                    found = self._found(source, late, until)
                if drained is not None:
                    own = self._buffers[side].store
                    found = chain(found, look_back(self._spec, source, own, parted, drained))
                self._accept_late(side, found)
            # Asked after the search, which has missed what retention has removed by then.
            gone = window(self._spec, side, parted.times)[0] <= self._state.source.forgotten(other)
            self._work.lose(side, Loss.BEYOND_RETENTION, parted.run.row[gone])

    def _found(self, source: BlockSource, late: Late, until: Position) -> Iterator[Found]:
        """Matches of late rows since the last drain: with remembered rows, then with those before these."""
        side, own, other = late.side, self._buffers[late.side].store, self._buffers[late.side.other]
        # What the log may have forgotten is not remembered either: a restart must change nothing.
        since = max(other.memory, source.forgotten(side.other) + 1)
        if source is self._state.source and since < late.floor:
            left, right = (own, other.store) if side is Side.LEFT else (other.store, own)
            for pairs in batched(self._recall(late, since)):
                yield Found(other.store, verify(self._spec, left, right, pairs))
            late = find_late(self._spec, side, late.run, late.times, since)
        if len(late.run):
            drained = self._state.drained[side.other]
            yield from look_back(self._spec, source, own, late, until, drained)

    def _recall(self, late: Late, since: int) -> Iterator[Pairs]:
        low, high = reach(self._spec, late.side, late.run, late.times)
        buffer = self._buffers[late.side.other]
        for needle, row, time in buffer.recall(late.side, low, high, late.times, since):
            mine, theirs = (late.run.row[needle], late.times[needle]), (row, time)
            yield within(
                self._spec, Pairs(*mine, *theirs) if late.side is Side.LEFT else Pairs(*theirs, *mine)
            )

    def _accept_late(self, side: Side, matches: Iterable[Found]) -> None:
        own, lost = self._buffers[side].store, [np.empty(0, np.int64)]
        for guests, pairs in matches:
            found = pairs
            if side in self._spec.rescued:
                free = self._free(side, guests, pairs)
                saved, found = pairs.select(free), pairs.select(~free)
                self._work.counts.rescued += len(saved.left)
                stores = (own, guests) if side is Side.LEFT else (guests, own)
                self._accept(*stores, saved, decided=side.other)
            lost.append(found.left if side is Side.LEFT else found.right)
        rows, count = np.unique(np.concatenate(lost), return_counts=True)
        self._work.counts.lost_matches += int(count.sum())
        self._work.lose(side, Loss.LATE, rows, count)

    def _free(self, side: Side, guests: BlockStore, pairs: Pairs) -> Mask:
        """Of which matches of late rows the partner has not come out for good by an earlier program."""
        foreign = self._state.foreign[side.other]
        if foreign is None:
            return np.ones(len(pairs.left), np.bool_)
        commit, chunk, _ = guests.refs(pairs.right if side is Side.LEFT else pairs.left)
        free: Mask = (commit > foreign.commit) | ((commit == foreign.commit) & (chunk > foreign.chunk))
        return free

    # -- single match -----------------------------------------------------------------------------

    def choose(self) -> None:
        """FIRST takes its match now; the other single-match modes remember the best so far."""
        if not self._candidates:
            return
        fresh = Candidates(*(np.concatenate(values) for values in zip(*self._candidates, strict=True)))
        left = self._buffers[Side.LEFT]
        if self._spec.match.waits:
            rows, index = np.unique(fresh.left, return_index=True)
            known = left.extra["commit"][rows] >= 0
            rows, index = rows[known], index[known]
            earlier = Candidates(rows, fresh.left_time[index], *(left.extra[name][rows] for name in CHOICE))
            chosen = best(
                self._spec.match,
                Candidates(*(np.concatenate(both) for both in zip(fresh, earlier, strict=True))),
            )
            for name in CHOICE:
                left.extra[name][chosen.left] = getattr(chosen, name)
            left.flags[chosen.left] |= MATCHED
            return
        chosen = best(self._spec.match, fresh)
        self._work.emit_choices(chosen)
        left.flags[chosen.left] |= MATCHED
        self._work.end(Side.LEFT, chosen.left)
        left.retire(chosen.left)
