"""What the join of one shard holds from step to step, and how it is saved and restored."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from braid.core.columns import HASH, TIME
from braid.core.errors import StateError
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import FAR, MIN_TIME
from braid.kernels.arrays import Ints
from braid.kernels.blocks import BlockSource, BlockStore
from braid.kernels.choices import ADDRESS, CHOOSER
from braid.kernels.join.buffer import GONE, PADDED, Buffer
from braid.kernels.join.keys import check_key_type
from braid.kernels.join.single_match import CHOICE
from braid.kernels.join.spec import JoinSpec, MatchMode
from braid.kernels.state import OperatorState, decode, encode
from braid.kernels.step import Step


class JoinState:
    """The rows in flight of both sides, and what is known of those before; parameters are `IntervalJoin`'s.

    Of each side, `last` is the last block taken in, and `times` has the stream time; for `drained`, `foreign`
    and `noted` see `braid.kernels.state`. `pads_early` tells whether rows may have come out padded before
    their time was up.
    """

    def __init__(
        self,
        spec: JoinSpec,
        source: BlockSource,
        state: bytes | None = None,
        losses: Mapping[Side, BlockSource | None] | None = None,
    ) -> None:
        self.spec = dataclasses.replace(spec, lower=_clamp(spec.lower), upper=_clamp(spec.upper))
        self.source = source
        self.losses = losses or {}
        self.schemas = {side: source.schema(side) for side in Side}
        for side in Side:
            for name in spec.key_columns:
                check_key_type(name, self.schemas[side].field(name).type)
        self.buffers = {
            Side.LEFT: self._buffer(Side.LEFT, CHOICE if spec.match.waits else ()),
            Side.RIGHT: self._buffer(Side.RIGHT),
        }
        self.last: dict[Side, Position | None] = dict.fromkeys(Side)
        self.drained: dict[Side, Position | None] = dict.fromkeys(Side)
        self.foreign: dict[Side, Position | None] = dict.fromkeys(Side)
        self.times: Mapping[str, int] = dict.fromkeys(Side, MIN_TIME)
        self.pads_early = spec.pad_after is not None
        self.noted = True
        if state is not None:
            self._restore(decode(state))

    def _buffer(self, side: Side, extra: Sequence[str] = ()) -> Buffer:
        spec = self.spec
        columns = list(spec.columns(side))
        if spec.consume and HASH not in columns:
            columns.append(HASH)
        # Rows that are taken by a match, or evicted, leave while the floor is still below them.
        taken = spec.consume if side is Side.RIGHT else spec.match is MatchMode.FIRST
        return Buffer(
            spec,
            self.schemas[side],
            columns,
            extra,
            [name for which, name in spec.carried if which is side],
            remembers=spec.late_lookup and not taken and spec.max_per_key is None,
        )

    def advance(self, step: Step) -> None:
        """Take note of a step that is done."""
        if step.seals:
            for side in Side:
                if side not in self.spec.rescued:
                    self.foreign[side.other] = self.last[side.other]
        self.times = step.times
        for side in Side:
            if step.blocks[side]:
                self.last[side] = max(step.blocks[side])
            self.buffers[side].compact()

    def choosing(self) -> Ints:
        """Pending left rows that have a best match so far."""
        left = self.buffers[Side.LEFT]
        return np.flatnonzero((left.extra["commit"] >= 0) & (left.flags < GONE))

    def blocks_with(self, commit: Ints, chunk: Ints) -> BlockStore:
        """The blocks of some right rows, which may have left the window: read from the log."""
        store = BlockStore(self.schemas[Side.RIGHT])
        wide = 1 + int(chunk.max(initial=0))
        for number in np.unique(commit * wide + chunk).tolist():
            block = Position(*divmod(number, wide))
            store.append(block, self.source.read(Side.RIGHT, block))
        return store

    def due(self, side: Side, blocks: Iterable[Position]) -> list[int] | None:
        """From when on by the wall clock rows of blocks are padded; None if the clock does not matter."""
        wait = self.spec.pad_after
        if wait is None or not self.spec.type.pads(side):
            return None
        return [self.source.arrived(side, block) + wait for block in blocks]

    def snapshot(self) -> bytes:
        """Versioned bytes: block ranges and bits."""
        choices: dict[str, Ints] = {}
        if self.spec.match.waits:
            left, pending = self.buffers[Side.LEFT], self.choosing()
            address = {name: left.extra[name][pending] for name in ADDRESS}
            choices = {CHOOSER: left.state_numbers(pending), **address}
        return encode(
            OperatorState(
                {
                    side: buffer.state(self.last[side], self.drained[side], self.foreign[side])
                    for side, buffer in self.buffers.items()
                },
                {side: self.times[side] for side in Side},
                choices=choices,
                noted=self.noted,
            )
        )

    def _restore(self, state: OperatorState) -> None:
        self.times, self.noted = state.times, state.noted
        for side in Side:
            saved = state.inputs[side]
            # Rows that have come out padded stay so, also when rows no longer wait by the clock.
            self.pads_early |= bool(np.any(saved.flags & PADDED))
            blocks = [(block, self.source.read(side, block)) for block in saved.blocks]
            rows = sum(batch.num_rows for _, batch in blocks)
            if rows != len(saved.flags):
                raise StateError(
                    f"saved state knows {len(saved.flags)} {side} rows, but the log has {rows} for it",
                    hint="the state belongs to another shard range or category; replay from the log",
                )
            self.buffers[side].restore(blocks, saved, self.due(side, saved.blocks), flagged=state.noted)
            self.last[side], self.drained[side] = saved.last, saved.drained
            self.foreign[side] = saved.foreign
        if state.choices and self.spec.match.waits:
            self._choose_again(state.choices)

    def _choose_again(self, choices: Mapping[str, Ints]) -> None:
        """Let left rows have what they have chosen; event times are in the log."""
        address = [choices[name] for name in ADDRESS]
        store = self.blocks_with(*address[:2])
        times = store.take(TIME, store.number(*address)).to_numpy()
        for name, values in zip(CHOICE, (*address, times), strict=True):
            self.buffers[Side.LEFT].extra[name][choices[CHOOSER]] = values


def _clamp(bound: int) -> int:
    return max(-FAR, min(FAR, bound))
