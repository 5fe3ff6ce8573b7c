"""The state of an operator for other ranges of hashes than those that it was saved for.

Blocks are sorted by hash, so the rows that a shard has of a block are a slice of it, and what it knows of
them is a slice of its flags. The state of a new shard is put together from slices of the old ones: nothing is
computed again, and no row is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from braid.core.errors import StateError
from braid.core.hashes import ALL_HASHES, HashRange, overlap
from braid.core.positions import Position
from braid.core.side import Side
from braid.kernels.arrays import Flags, Ints
from braid.kernels.state import InputState, OperatorState

RowsBelow = Callable[[str, Position, int], int]
"""How many rows of a block of an input have a hash below the given one, which may be beyond all hashes."""


Below = Callable[[Position, int], int]
"""The same of one input."""
Kept = tuple[list[Position], Flags]
"""Blocks of an input that a shard needs, and the flags of their rows."""


class ShardState(NamedTuple):
    """What a shard has saved, and the hashes that it has."""

    hashes: HashRange
    state: OperatorState


@dataclass(frozen=True)
class Cutting:
    """How the state of an operator is cut.

    Parameters
    ----------
    below
        Tells where a range of hashes begins in a block.
    gone
        The flag of rows that no longer matter.
    whole
        The input of which every shard has all rows.
    """

    below: RowsBelow
    gone: int
    whole: str | None = None

    def cut(self, shards: Iterable[ShardState], wanted: HashRange) -> OperatorState:
        """The state of a shard with the wanted hashes, of shards that have them all after the same step."""
        parts = sorted(
            (shard for shard in shards if overlap(shard.hashes, wanted)), key=lambda shard: shard.hashes
        )
        _check_together(parts, wanted)
        if len(parts) == 1 and parts[0].hashes == wanted:
            return parts[0].state
        first = parts[0].state
        inputs, moved = {}, {}
        for name, one in first.inputs.items():
            below = partial(self.below, name)
            blocks = [block for part in parts for block in part.state.inputs[name].blocks]
            if name == self.whole:
                walks = [_Walk(part.state.inputs[name]) for part in parts]
                held, flags = _overlay(walks, blocks, below, self.gone)
            else:
                shares = moved[name] = [_Share(part, name, wanted) for part in parts]
                walks = [share.walk for share in shares]
                held, flags = _put_together(shares, blocks, below, self.gone)
            for walk in walks:
                walk.check_end()
            positions = np.array(held, np.int64).reshape(-1, 2)
            known = [part.state.inputs[name] for part in parts]
            newest, decided = max(each.newest for each in known), max(each.whole for each in known)
            inputs[name] = replace(one, positions=positions, flags=flags, newest=newest, whole=decided)
        choices = self._choices(parts, moved, wanted) if first.choices else {}
        return OperatorState(inputs, first.times, choices, all(part.state.noted for part in parts))

    def _choices(
        self, parts: Sequence[ShardState], moved: Mapping[str, Sequence[_Share]], wanted: HashRange
    ) -> dict[str, Ints]:
        """What pending left rows have chosen, under their new numbers and the new addresses of right rows."""
        if self.whole == Side.LEFT:
            raise StateError(
                "left rows that every shard has cannot have chosen a match each",
                hint="replay the join from the log",
            )
        found: list[dict[str, Ints]] = []
        for part, share in zip(parts, moved[Side.LEFT], strict=True):
            number = share.moved(part.state.choices["left"])
            here = number >= 0
            chosen = {name: values[here] for name, values in part.state.choices.items()}
            chosen["left"] = number[here]
            if self.whole != Side.RIGHT:
                chosen["row"] = chosen["row"] + self._shifts(chosen, part.hashes, wanted)
            found.append(chosen)
        return {name: np.concatenate([one[name] for one in found]) for name in found[0]}

    def _shifts(self, chosen: dict[str, Ints], before: HashRange, wanted: HashRange) -> Ints:
        """By how much the numbers of right rows in their blocks change."""
        blocks = np.stack([chosen["commit"], chosen["chunk"]], axis=1)
        unique, index = np.unique(blocks, axis=0, return_inverse=True)
        shifts = [
            self.below(Side.RIGHT, block, before[0]) - self.below(Side.RIGHT, block, wanted[0])
            for block in (Position(*pair) for pair in unique.tolist())
        ]
        return np.array(shifts, np.int64)[index.reshape(-1)]


class _Share:
    """What an old shard has of an input of the new one: goes through its blocks in their order.

    Parameters
    ----------
    shard, name
        The old shard and the input.
    wanted
        The hashes of the new shard.
    """

    def __init__(self, shard: ShardState, name: str, wanted: HashRange) -> None:
        mine = overlap(shard.hashes, wanted)
        assert mine is not None
        self.walk = _Walk(shard.state.inputs[name])
        self.edges = (shard.hashes[0], mine[0], mine[1] + 1, shard.hashes[1] + 1)
        self._cuts: list[tuple[int, int, int]] = []
        self._after: list[int] = []

    def cut(self, block: Position, rows_below: Mapping[int, int], gone: int) -> Flags:
        """Flags of the rows of a block that the new shard has, too; blocks come in their order."""
        begin, low, high, end = (rows_below[edge] for edge in self.edges)
        if not self.walk.at(block):
            return np.full(high - low, gone, np.uint8)
        self._cuts.append((self.walk.start, low - begin, high - low))
        return self.walk.take(end - begin)[low - begin : high - begin]

    def put(self, after: int) -> None:
        """Take note of the new number of the first row that was cut last, if any was."""
        if len(self._after) < len(self._cuts):
            self._after.append(after)

    def moved(self, numbers: Ints) -> Ints:
        """New numbers of rows; -1 for those that the new shard does not have."""
        if not self._cuts:
            return np.full(len(numbers), -1)
        before, skip, count = np.array(self._cuts, np.int64).T
        block = np.searchsorted(before, numbers, side="right") - 1
        row = numbers - before[block] - skip[block]
        inside = (row >= 0) & (row < count[block])
        return np.where(inside, np.array(self._after)[block] + row, -1)


def _put_together(shares: Sequence[_Share], blocks: Iterable[Position], below: Below, gone: int) -> Kept:
    """Blocks that matter to the new shard, and flags of their rows; shares are in order of hashes."""
    edges = sorted({edge for share in shares for edge in share.edges})
    held, flags, size = [], [np.zeros(0, np.uint8)], 0
    for block in sorted(set(blocks)):
        rows_below = {edge: below(block, edge) for edge in edges}
        found = [share.cut(block, rows_below, gone) for share in shares]
        alive = any(np.any(some & gone == 0) for some in found)
        start = size
        for share, some in zip(shares, found, strict=True):
            share.put(start)
            start += len(some)
        if alive:
            held.append(block)
            flags += found
            size = start
    return held, np.concatenate(flags)


def _overlay(walks: Sequence[_Walk], blocks: Iterable[Position], below: Below, gone: int) -> Kept:
    """The same of an input of which all shards have all rows: a row matters if it does to any of them."""
    held, flags = [], [np.zeros(0, np.uint8)]
    for block in sorted(set(blocks)):
        rows = below(block, ALL_HASHES[1] + 1)
        absent = np.full(rows, gone, np.uint8)
        known = [walk.take(rows) if walk.at(block) else absent for walk in walks]
        others = np.bitwise_or.reduce(known) & np.uint8(~gone & 0xFF)
        held.append(block)
        flags.append(others | (np.bitwise_and.reduce(known) & np.uint8(gone)))
    return held, np.concatenate(flags)


class _Walk:
    """Goes through the blocks of a saved state in their order."""

    def __init__(self, state: InputState) -> None:
        self._blocks = iter(state.blocks)
        self._next = next(self._blocks, None)
        self._flags = state.flags
        self.start = 0

    def at(self, block: Position) -> bool:
        """Whether a block, which is no earlier than those before, is one of the state's."""
        return self._next == block

    def take(self, rows: int) -> Flags:
        """The flags of the block that it is at."""
        flags = self._flags[self.start : self.start + rows]
        self.start += rows
        self._next = next(self._blocks, None)
        return flags

    def check_end(self) -> None:
        """Raise `StateError` unless all flags have been taken."""
        if self._next is not None or self.start != len(self._flags):
            raise StateError(
                f"saved state knows {len(self._flags)} rows, but the log has {self.start} for it",
                hint="the state belongs to another shard range or category; replay from the log",
            )


def _check_together(parts: Sequence[ShardState], wanted: HashRange) -> None:
    """Raise `StateError` unless shards have the wanted hashes between them, and stand at the same step."""
    edge = wanted[0]
    for part in parts:
        if part.hashes[0] > edge:
            break
        edge = part.hashes[1] + 1
    if edge <= wanted[1]:
        raise StateError(
            f"no saved state has the hash {edge}", hint="the savepoint is not whole; replay from the log"
        )
    stands = {
        (
            tuple(sorted(part.state.times.items())),
            tuple((name, one.floor, one.last, one.drained) for name, one in part.state.inputs.items()),
        )
        for part in parts
    }
    if len(stands) > 1:
        raise StateError("saved states are not of one step", hint="replay from the log")
