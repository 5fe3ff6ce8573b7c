"""The interval join of one shard, micro-batch by micro-batch.

Notation: a left row at time t matches right rows with equal keys within `[t + lower, t + upper]`. Pending
left rows are those with `t >= left floor = right stream time - upper`: later right rows may still match
them. The right window holds the rows with `time >= right floor = left stream time + lower`. What a floor
has passed is decided for good, and is in the log if a late row needs it.
"""

from __future__ import annotations

from collections.abc import Mapping

from braid.core.errors import StateError
from braid.core.side import Side
from braid.kernels.blocks import BlockSource
from braid.kernels.join.buffer import Buffer
from braid.kernels.join.deciding import Deciding
from braid.kernels.join.pairing import Pairing
from braid.kernels.join.spec import JoinSpec
from braid.kernels.join.state import JoinState
from braid.kernels.join.working_set import WorkingSet
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
        self._state = JoinState(spec, source, state, losses)

    def step(self, step: Step) -> Output:
        """Match new rows, emit what is certain, and forget what can no longer match."""
        before = self._state.times
        if any(step.times[side] < before[side] for side in Side):
            raise StateError(
                f"stream times went back: {dict(before)} -> {dict(step.times)}",
                hint="steps must be replayed in order, from the state that belongs to them",
            )
        work = WorkingSet(self._state, step)
        pairing, deciding = Pairing(work), Deciding(work)
        pairing.match()
        pairing.look_back()
        pairing.choose()
        deciding.decide()
        deciding.pad_waiting()
        if step.settles:
            deciding.settle()
        if step.seals:
            deciding.note()
        self._state.advance(step)
        return work.output()

    def snapshot(self) -> bytes:
        """State as versioned bytes: block ranges and bits."""
        return self._state.snapshot()

    @property
    def pending(self) -> dict[Side, int]:
        """Rows per side that can still match."""
        return {side: self.buffer(side).live for side in Side}

    def buffer(self, side: Side) -> Buffer:
        """The buffered rows of a side."""
        return self._state.buffers[side]
