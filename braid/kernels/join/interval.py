"""The interval join of one shard, micro-batch by micro-batch.

Notation: a left row at time t matches right rows with equal keys within `[t + lower, t + upper]`. Pending
left rows are those with `t >= left floor = right stream time - upper`: later right rows may still match
them. The right window holds the rows with `time >= right floor = left stream time + lower`. What a floor
has passed is decided for good, and is in the log if a late row needs it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from braid.core.columns import HASH, TIME
from braid.core.counters import Counters
from braid.core.errors import StateError
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import FAR, MAX_TIME, MIN_TIME
from braid.kernels.arrays import Ints, Mask
from braid.kernels.blocks import BlockSource, BlockStore
from braid.kernels.choices import ADDRESS, CHOOSER
from braid.kernels.join.buffer import EVICTED, GONE, MATCHED, PADDED, Buffer, Loaded
from braid.kernels.join.caps import overflow
from braid.kernels.join.consume import assign
from braid.kernels.join.emit import Emitter
from braid.kernels.join.keys import check_key_type
from braid.kernels.join.late_lookup import Found, Late, find_late, look_back
from braid.kernels.join.pairs import Pairs, batched, joined, near, reach, verify, window, within
from braid.kernels.join.runs import Run, probe
from braid.kernels.join.single_match import CHOICE, Candidates, best
from braid.kernels.join.spec import JoinSpec, MatchMode
from braid.kernels.lost import Loss, Lost
from braid.kernels.state import OperatorState, decode, encode
from braid.kernels.step import Output, Step


class IntervalJoin:
    """Joins one shard. Everything but `state` is a cache of the log and can be lost at any time.

    Parameters
    ----------
    spec
        What to join.
    source
        Blocks of the shard.
    state
        What `snapshot` returned, to go on from there.
    losses
        Where to look for the matches that late rows of a side have lost, if not in `source`. One shard
        looks in all blocks for a side that every shard reads whole, and the others, with None, do not.
    """

    def __init__(
        self,
        spec: JoinSpec,
        source: BlockSource,
        state: bytes | None = None,
        losses: Mapping[Side, BlockSource | None] | None = None,
    ) -> None:
        self._spec = dataclasses.replace(spec, lower=_clamp(spec.lower), upper=_clamp(spec.upper))
        self._source = source
        self._losses = losses or {}
        self._schemas = {side: source.schema(side) for side in Side}
        for side in Side:
            for name in spec.key_columns:
                check_key_type(name, self._schemas[side].field(name).type)
        self._left = self._buffer(Side.LEFT, CHOICE if spec.match.waits else ())
        self._right = self._buffer(Side.RIGHT)
        self._last: dict[Side, Position | None] = dict.fromkeys(Side)
        self._drained: dict[Side, Position | None] = dict.fromkeys(Side)
        self._foreign: dict[Side, Position | None] = dict.fromkeys(Side)
        self._times: Mapping[str, int] = dict.fromkeys(Side, MIN_TIME)
        self._pads_early = spec.pad_after is not None
        self._noted = True
        if state is not None:
            self._restore(decode(state))

    def step(self, step: Step) -> Output:
        """Match new rows, emit what is certain, and forget what can no longer match."""
        if any(step.times[side] < self._times[side] for side in Side):
            raise StateError(
                f"stream times went back: {dict(self._times)} -> {dict(step.times)}",
                hint="steps must be replayed in order, from the state that belongs to them",
            )
        work = _Work(self, step)
        work.match()
        work.look_back()
        work.choose()
        work.decide()
        work.pad_waiting()
        if step.settles:
            work.settle()
        if step.seals:
            work.note()
            for side in Side:
                if side not in self._spec.rescued:
                    self._foreign[side.other] = self._last[side.other]
        self._times = step.times
        for side in Side:
            if step.blocks[side]:
                self._last[side] = max(step.blocks[side])
            self.buffer(side).compact()
        return work.output()

    def snapshot(self) -> bytes:
        """State as versioned bytes: block ranges and bits."""
        choices: dict[str, Ints] = {}
        if self._spec.match.waits:
            left, pending = self._left, self._choosing()
            address = {name: left.extra[name][pending] for name in ADDRESS}
            choices = {CHOOSER: left.state_numbers(pending), **address}
        return encode(
            OperatorState(
                {
                    side: self.buffer(side).state(self._last[side], self._drained[side], self._foreign[side])
                    for side in Side
                },
                {side: self._times[side] for side in Side},
                choices=choices,
                noted=self._noted,
            )
        )

    @property
    def pending(self) -> dict[Side, int]:
        """Rows per side that can still match."""
        return {side: self.buffer(side).live for side in Side}

    def buffer(self, side: Side) -> Buffer:
        """The buffered rows of a side."""
        return self._left if side is Side.LEFT else self._right

    def _choosing(self) -> Ints:
        """Pending left rows that have a best match so far."""
        return np.flatnonzero((self._left.extra["commit"] >= 0) & (self._left.flags < GONE))

    def _buffer(self, side: Side, extra: Sequence[str] = ()) -> Buffer:
        spec = self._spec
        columns = list(spec.columns(side))
        if spec.consume and HASH not in columns:
            columns.append(HASH)
        # Rows that are taken by a match, or evicted, leave while the floor is still below them.
        taken = spec.consume if side is Side.RIGHT else spec.match is MatchMode.FIRST
        return Buffer(
            spec,
            self._schemas[side],
            columns,
            extra,
            [name for which, name in spec.carried if which is side],
            remembers=spec.late_lookup and not taken and spec.max_per_key is None,
        )

    def due(self, side: Side, blocks: Iterable[Position]) -> list[int] | None:
        """From when on by the wall clock rows of blocks are padded; None if the clock does not matter."""
        wait = self._spec.pad_after
        if wait is None or not self._spec.type.pads(side):
            return None
        return [self._source.arrived(side, block) + wait for block in blocks]

    def _restore(self, state: OperatorState) -> None:
        self._times, self._noted = state.times, state.noted
        for side in Side:
            saved = state.inputs[side]
            # Rows that have come out padded stay so, also when rows no longer wait by the clock.
            self._pads_early |= bool(np.any(saved.flags & PADDED))
            blocks = [(block, self._source.read(side, block)) for block in saved.blocks]
            rows = sum(batch.num_rows for _, batch in blocks)
            if rows != len(saved.flags):
                raise StateError(
                    f"saved state knows {len(saved.flags)} {side} rows, but the log has {rows} for it",
                    hint="the state belongs to another shard range or category; replay from the log",
                )
            self.buffer(side).restore(blocks, saved, self.due(side, saved.blocks), flagged=state.noted)
            self._last[side], self._drained[side] = saved.last, saved.drained
            self._foreign[side] = saved.foreign
        if state.choices and self._spec.match.waits:
            address = [state.choices[name] for name in ADDRESS]
            store = self.blocks_with(*address[:2])
            times = store.take(TIME, store.number(*address)).to_numpy()
            for name, values in zip(CHOICE, (*address, times), strict=True):
                self._left.extra[name][state.choices[CHOOSER]] = values

    def blocks_with(self, commit: Ints, chunk: Ints) -> BlockStore:
        """The blocks of some right rows, which may have left the window: read from the log."""
        store = BlockStore(self._schemas[Side.RIGHT])
        wide = 1 + int(chunk.max(initial=0))
        for number in np.unique(commit * wide + chunk).tolist():
            block = Position(*divmod(number, wide))
            store.append(block, self._source.read(Side.RIGHT, block))
        return store


class _Work:
    """The working set of one step of one join."""

    def __init__(self, join: IntervalJoin, step: Step) -> None:
        self._join = join
        self._step = step
        self._spec = join._spec
        self._source = join._source
        self._buffers = {side: join.buffer(side) for side in Side}
        self._floors = {side: join.buffer(side).floor for side in Side}
        self._emitter = Emitter(self._spec, join._schemas)
        self._counts = Counters.over(Side)
        self._lost = Lost(self._counts)
        self._candidates: list[Candidates] = []
        self._new = {side: self._load(side, sorted(step.blocks[side])) for side in Side}
        for side in Side:
            new, time = self._new[side], join._times[side]
            self._counts.inputs[side].rows = len(new.run) + len(new.inert) + len(new.invalid)
            self._counts.inputs[side].behind = int(np.count_nonzero(new.times < time))

    def _load(self, side: Side, blocks: Sequence[Position]) -> Loaded:
        batches = [(block, self._source.read(side, block)) for block in blocks]
        return self._buffers[side].load(batches, self._join.due(side, blocks))

    # -- matching ---------------------------------------------------------------------------------

    def match(self) -> None:
        """Pairs with a new row: new right x pending left, and new left x (window + new right)."""
        if self._spec.consume:
            return  # Left rows choose in order of time, when they are decided.
        left, right = self._buffers[Side.LEFT].store, self._buffers[Side.RIGHT].store
        for pairs in batched(self._new_pairs()):
            self._accept(left, right, verify(self._spec, left, right, pairs))

    def _new_pairs(self) -> Iterator[Pairs]:
        spec, left, right = self._spec, self._new[Side.LEFT], self._new[Side.RIGHT]
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
        if self._join._pads_early:
            pairs = self._not_padded(noted, pairs)
        if not len(pairs.left):
            return
        if self._spec.match is not MatchMode.ALL:
            self._candidates.append(
                Candidates(pairs.left, pairs.left_time, *right.refs(pairs.right), pairs.right_time)
            )
            return
        self._counts.matches += len(pairs.left)
        self._emitter.pairs(left, pairs.left, right, pairs.right)
        self._emitter.measure(pairs.left_time, pairs.right_time)
        for side in noted:
            # Whether that matters to this join or not: it may to the one after an update.
            self._buffers[side].flags[pairs.left if side is Side.LEFT else pairs.right] |= MATCHED

    def _not_padded(self, sides: Iterable[Side], pairs: Pairs) -> Pairs:
        """Leave out pairs of rows of some sides that have already come out padded, and count them."""
        padded = np.zeros(len(pairs.left), np.bool_)
        for side in sides:
            rows = pairs.left if side is Side.LEFT else pairs.right
            padded |= self._buffers[side].flags[rows] & PADDED > 0
        self._counts.matches_after_padding += int(np.count_nonzero(padded))
        return pairs.select(~padded)

    # -- late rows --------------------------------------------------------------------------------

    def look_back(self) -> None:
        """Find partners of new rows among those that are decided: remembered, or else in the log.

        Those are rows below the floor, and whatever their time those of before a drain.
        """
        for side in Side:
            new, other = self._new[side], side.other
            until, drained = self._join._last[other], self._join._drained[other]
            late = find_late(self._spec, side, new.run, new.times, self._floors[other])
            parted = late if drained is None else find_late(self._spec, side, new.run, new.times, MAX_TIME)
            if not len(parted.run) or until is None:
                continue
            self._counts.inputs[side].late += len(late.run)
            rescued = side in self._spec.rescued
            source = self._source if rescued else self._join._losses.get(side, self._source)
            if self._spec.late_lookup and source is not None:
                found: Iterator[Found] = iter(())
                if len(late.run):
                    if source is self._source:
                        depths = late.floor - window(self._spec, side, late.times)[0]
                        self._buffers[other].lateness.note(depths)
                    found = self._found(source, late, until)
                if drained is not None:
                    own = self._buffers[side].store
                    found = chain(found, look_back(self._spec, source, own, parted, drained))
                self._accept_late(side, found)
            # Asked after the search, which has missed what retention has removed by then.
            gone = window(self._spec, side, parted.times)[0] <= self._source.forgotten(other)
            self._lose(side, Loss.BEYOND_RETENTION, parted.run.row[gone])

    def _found(self, source: BlockSource, late: Late, until: Position) -> Iterator[Found]:
        """Matches of late rows since the last drain: with remembered rows, then with those before these."""
        side, own, other = late.side, self._buffers[late.side].store, self._buffers[late.side.other]
        # What the log may have forgotten is not remembered either: a restart must change nothing.
        since = max(other.memory, source.forgotten(side.other) + 1)
        if source is self._source and since < late.floor:
            left, right = (own, other.store) if side is Side.LEFT else (other.store, own)
            for pairs in batched(self._recall(late, since)):
                yield Found(other.store, verify(self._spec, left, right, pairs))
            late = find_late(self._spec, side, late.run, late.times, since)
        if len(late.run):
            drained = self._join._drained[side.other]
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
                self._counts.rescued += len(saved.left)
                stores = (own, guests) if side is Side.LEFT else (guests, own)
                self._accept(*stores, saved, decided=side.other)
            lost.append(found.left if side is Side.LEFT else found.right)
        rows, count = np.unique(np.concatenate(lost), return_counts=True)
        self._counts.lost_matches += int(count.sum())
        self._lose(side, Loss.LATE, rows, count)

    def _free(self, side: Side, guests: BlockStore, pairs: Pairs) -> Mask:
        """Of which matches of late rows the partner has not come out for good by an earlier program."""
        foreign = self._join._foreign[side.other]
        if foreign is None:
            return np.ones(len(pairs.left), np.bool_)
        commit, chunk, _ = guests.refs(pairs.right if side is Side.LEFT else pairs.left)
        free: Mask = (commit > foreign.commit) | ((commit == foreign.commit) & (chunk > foreign.chunk))
        return free

    def _lose(self, side: Side, loss: Loss, rows: Ints, matches: Ints | None = None) -> None:
        """List rows as lost, with the number of matches they are known to have lost."""
        if len(rows):
            store = self._buffers[side].store
            self._lost.add(side, loss, store.refs(rows), np.zeros_like(rows) if matches is None else matches)

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
        self._emit_choices(chosen)
        left.flags[chosen.left] |= MATCHED
        self._end(Side.LEFT, chosen.left)
        left.retire(chosen.left)

    def _emit_choices(self, chosen: Candidates) -> None:
        """Emit pairs whose right rows are given by address."""
        if not len(chosen.left):
            return
        store = self._join.blocks_with(chosen.commit, chosen.chunk)
        self._counts.matches += len(chosen.left)
        self._emitter.pairs(
            self._buffers[Side.LEFT].store,
            chosen.left,
            store,
            store.number(chosen.commit, chosen.chunk, chosen.row),
        )
        self._emitter.measure(chosen.left_time, chosen.time)
        right, at = self._buffers[Side.RIGHT], (chosen.commit, chosen.chunk, chosen.row)
        here = right.store.present(*at)
        right.flags[right.store.number(*(values[here] for values in at))] |= MATCHED

    # -- deciding ---------------------------------------------------------------------------------

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
            new = self._new[side]
            self._counts.inputs[side].inert += len(new.inert)
            self._counts.inputs[side].invalid += len(new.invalid)
            self._end(side, new.inert)
            self._end(side, new.invalid)
            if not spec.type.pads(side):
                self._lose(side, Loss.INVALID_TIME, new.invalid)

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
        buffer, new = self._buffers[side], self._new[side]
        if self._spec.consume and side is Side.RIGHT:
            self._settle(side, np.sort(new.run.row[new.times < buffer.floor]))
        buffer.add(new.run)
        evicted = overflow(buffer, self._spec, new.run.key[buffer.flags[new.run.row] < GONE])
        if len(evicted):
            self._evict(side, evicted)

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
        if not self._join._noted and Side.RIGHT not in self._spec.remembered:
            right = self._buffers[Side.RIGHT]
            right.flags[right.rows_in_flight()] |= MATCHED
        self._join._noted = True

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
            self._emit_choices(Candidates(chosen, left.times[chosen], *values))
        if self._spec.consume:
            self._consume(rows)

    def _finish(self, side: Side, rows: Ints) -> None:
        """Count rows that nothing more comes of, pad those without a match, and let them go."""
        buffer, ended = self._buffers[side], rows
        if self._join._pads_early:
            # What has come out padded after its wait was decided then.
            ended = rows[buffer.flags[rows] & PADDED == 0]
        self._end(side, ended)
        buffer.retire(rows)

    def _end(self, side: Side, rows: Ints) -> None:
        """Count rows that nothing more comes of, each once, and pad those without a match."""
        counted, flags = self._counts.inputs[side], self._buffers[side].flags
        counted.decided += len(rows)
        if not len(rows) or side not in self._spec.remembered:
            return
        unmatched = rows[flags[rows] & MATCHED == 0]
        counted.matched += len(rows) - len(unmatched)
        counted.unmatched += len(unmatched)
        if len(unmatched) and self._spec.type.pads(side):
            self._emitter.padded(side, self._buffers[side].store, unmatched)

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
            if self._join._pads_early:
                kept = self._not_padded(Side, kept)
            if not len(kept.left):
                continue
            group = (
                left.store.take(HASH, kept.left).to_numpy() if self._spec.keys else np.zeros_like(kept.left)
            )
            chosen = kept.select(assign(kept, group))
            self._counts.matches += len(chosen.left)
            self._emitter.pairs(left.store, chosen.left, right.store, chosen.right)
            self._emitter.measure(chosen.left_time, chosen.right_time)
            left.flags[chosen.left] |= MATCHED
            right.flags[chosen.right] |= MATCHED
            self._end(Side.RIGHT, chosen.right)
            right.retire(chosen.right)

    def pad_waiting(self) -> None:
        """Pad unmatched rows that have waited for long enough by the wall clock."""
        if self._spec.pad_after is None:
            return
        for side in filter(self._spec.type.pads, Side):
            buffer, chosen = self._buffers[side], self._chosen(side)
            rows = buffer.due(self._step.wall_time, chosen)
            rows = rows[(buffer.flags[rows] == 0) & ~np.isin(rows, chosen)]
            self._counts.inputs[side].padded_early += len(rows)
            self._end(side, rows)
            buffer.flags[rows] |= MATCHED | PADDED

    def _chosen(self, side: Side, before: int = MAX_TIME) -> Ints:
        """Rows that are a pending row's best match so far: they are not padded unless a better one comes.

        Only those with event times before the given one.
        """
        if side is Side.LEFT or not self._spec.match.waits:
            return np.empty(0, np.int64)
        left, pending = self._buffers[Side.LEFT], self._join._choosing()
        pending = pending[left.extra["time"][pending] < before]
        at = [left.extra[name][pending] for name in ("commit", "chunk", "row")]
        # They are still here, as the floor of padded right rows waits for every left row that may choose
        # them, unless the join did not pad right rows when they left.
        store = self._buffers[Side.RIGHT].store
        here = store.present(*at)
        return store.number(*(values[here] for values in at))

    def _evict(self, side: Side, rows: Ints) -> None:
        buffer = self._buffers[side]
        self._lose(side, Loss.CAPPED, rows)
        if side is Side.RIGHT and self._spec.match.waits and self._spec.type.pads(side):
            # It may be a pending row's best match: whether it is padded is known when its time has passed.
            buffer.flags[rows] |= EVICTED
            return
        self._settle(side, rows)

    def _oldest_choice(self) -> int | None:
        """The oldest commit with a right row that a pending left row has chosen."""
        commits = self._buffers[Side.LEFT].extra["commit"][self._join._choosing()]
        return int(commits.min()) if len(commits) else None

    def output(self) -> Output:
        """Everything that the step has produced."""
        for side in Side:
            self._counts.inputs[side].pending = self._buffers[side].live
            blocks, oldest = self._buffers[side].extent()
            if side is Side.RIGHT and self._spec.match.waits:
                # The best match so far of a pending row is read again, even if it has left the window.
                chosen = self._oldest_choice()
                oldest = chosen if oldest is None else min(oldest, oldest if chosen is None else chosen)
            self._counts.inputs[side].hold(blocks, oldest)
        for side, column in self._spec.carried:
            least = self._buffers[side].least(column)
            if least is not None:
                self._counts.inputs[side].held[column] = least
        lower, upper = self._emitter.distances.tolist()
        self._counts.distances_lower, self._counts.distances_upper = lower, upper
        return Output(self._emitter.table(), self._lost.table(), self._counts)


def _clamp(bound: int) -> int:
    return max(-FAR, min(FAR, bound))
