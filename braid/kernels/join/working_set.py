"""The working set of one step of a join: new rows, and what comes of them and of those before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from braid.core.counters import Counters
from braid.core.positions import Position
from braid.core.side import Side
from braid.kernels.arrays import Ints
from braid.kernels.join.buffer import MATCHED, PADDED, Loaded
from braid.kernels.join.emit import Emitter
from braid.kernels.join.pairs import Pairs
from braid.kernels.join.single_match import Candidates
from braid.kernels.join.state import JoinState
from braid.kernels.lost import Loss, Lost
from braid.kernels.step import Output, Step


class WorkingSet:
    """What a step begins with, and collects: pairing and deciding share it.

    Parameters
    ----------
    state
        What the join holds: new rows are taken into its buffers, but not into their index yet.
    step
        The micro-batch.
    """

    def __init__(self, state: JoinState, step: Step) -> None:
        self.state = state
        self.step = step
        self.spec = state.spec
        self.buffers = state.buffers
        self.emitter = Emitter(self.spec, state.schemas)
        self.counts = Counters.over(Side)
        self._lost = Lost(self.counts)
        self.new = {side: self._load(side, sorted(step.blocks[side])) for side in Side}
        for side in Side:
            new, time = self.new[side], state.times[side]
            self.counts.inputs[side].rows = len(new.run) + len(new.inert) + len(new.invalid)
            self.counts.inputs[side].behind = int(np.count_nonzero(new.times < time))

    def _load(self, side: Side, blocks: Sequence[Position]) -> Loaded:
        batches = [(block, self.state.source.read(side, block)) for block in blocks]
        return self.buffers[side].load(batches, self.state.due(side, blocks))

    def not_padded(self, sides: Iterable[Side], pairs: Pairs) -> Pairs:
        """Leave out pairs of rows of some sides that have already come out padded, and count them."""
        padded = np.zeros(len(pairs.left), np.bool_)
        for side in sides:
            rows = pairs.left if side is Side.LEFT else pairs.right
            padded |= self.buffers[side].flags[rows] & PADDED > 0
        self.counts.matches_after_padding += int(np.count_nonzero(padded))
        return pairs.select(~padded)

    def lose(self, side: Side, loss: Loss, rows: Ints, matches: Ints | None = None) -> None:
        """List rows as lost, with the number of matches they are known to have lost."""
        if len(rows):
            store = self.buffers[side].store
            self._lost.add(side, loss, store.refs(rows), np.zeros_like(rows) if matches is None else matches)

    def emit_choices(self, chosen: Candidates) -> None:
        """Emit pairs whose right rows are given by address."""
        if not len(chosen.left):
            return
        store = self.state.blocks_with(chosen.commit, chosen.chunk)
        self.counts.matches += len(chosen.left)
        self.emitter.pairs(
            self.buffers[Side.LEFT].store,
            chosen.left,
            store,
            store.number(chosen.commit, chosen.chunk, chosen.row),
        )
        self.emitter.measure(chosen.left_time, chosen.time)
        right, at = self.buffers[Side.RIGHT], (chosen.commit, chosen.chunk, chosen.row)
        here = right.store.present(*at)
        right.flags[right.store.number(*(values[here] for values in at))] |= MATCHED

    def end(self, side: Side, rows: Ints) -> None:
        """Count rows that nothing more comes of, each once, and pad those without a match."""
        counted, flags = self.counts.inputs[side], self.buffers[side].flags
        counted.decided += len(rows)
        if not len(rows) or side not in self.spec.remembered:
            return
        unmatched = rows[flags[rows] & MATCHED == 0]
        counted.matched += len(rows) - len(unmatched)
        counted.unmatched += len(unmatched)
        if len(unmatched) and self.spec.type.pads(side):
            self.emitter.padded(side, self.buffers[side].store, unmatched)

    def output(self) -> Output:
        """Everything that the step has produced."""
        for side in Side:
            self.counts.inputs[side].pending = self.buffers[side].live
            blocks, oldest = self.buffers[side].extent()
            if side is Side.RIGHT and self.spec.match.waits:
                # The best match so far of a pending row is read again, even if it has left the window.
                chosen = self._oldest_choice()
                oldest = chosen if oldest is None else min(oldest, oldest if chosen is None else chosen)
            self.counts.inputs[side].hold(blocks, oldest)
        for side, column in self.spec.carried:
            least = self.buffers[side].least(column)
            if least is not None:
                self.counts.inputs[side].held[column] = least
        lower, upper = self.emitter.distances.tolist()
        self.counts.distances_lower, self.counts.distances_upper = lower, upper
        return Output(self.emitter.table(), self._lost.table(), self.counts)

    def _oldest_choice(self) -> int | None:
        """The oldest commit with a right row that a pending left row has chosen."""
        commits = self.buffers[Side.LEFT].extra["commit"][self.state.choosing()]
        return int(commits.min()) if len(commits) else None
