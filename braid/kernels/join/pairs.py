"""Candidate pairs: which rows may match by time, and which of them really match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from braid.core.side import Side
from braid.kernels.arrays import Ints, Mask
from braid.kernels.blocks import BlockStore
from braid.kernels.join.hot_keys import Near
from braid.kernels.join.keys import equal_keys
from braid.kernels.join.predicate import ColumnRef
from braid.kernels.join.runs import MAX_PAIRS, Run
from braid.kernels.join.spec import JoinSpec


class Pairs(NamedTuple):
    """Row numbers and times of both sides."""

    left: Ints
    left_time: Ints
    right: Ints
    right_time: Ints

    def select(self, which: Mask | Ints) -> Pairs:
        """The pairs that a mask or an index picks."""
        return Pairs(*(values[which] for values in self))


def window(spec: JoinSpec, side: Side, time: Ints) -> tuple[Ints, Ints]:
    """Event times of the other side that rows of `side` can match."""
    if side is Side.LEFT:
        return time + spec.lower, time + spec.upper
    return time - spec.upper, time - spec.lower


def reach(spec: JoinSpec, side: Side, run: Run, times: Ints) -> tuple[Ints, Ints]:
    """What to search the other side's runs for: the same hash, or a range of times without keys."""
    return (run.key, run.key) if spec.keys else window(spec, side, times)


def near(spec: JoinSpec, side: Side, time: Ints, times: Ints, first: int = 0) -> Near:
    """The bounds of a search by rows of `side` at `time`; `times` are those of the other side's rows."""
    low, high = (spec.lower, spec.upper) if side is Side.LEFT else (-spec.upper, -spec.lower)
    return Near(time, low, high, times, first)


def within(spec: JoinSpec, pairs: Pairs) -> Pairs:
    """The pairs that satisfy the time bounds."""
    ahead = pairs.right_time - pairs.left_time
    return pairs.select((ahead >= spec.lower) & (ahead <= spec.upper))


def verify(spec: JoinSpec, left: BlockStore, right: BlockStore, pairs: Pairs) -> Pairs:
    """The pairs with equal keys that satisfy the residual predicate."""
    for name in spec.key_columns:
        if not len(pairs.left):
            return pairs
        pairs = pairs.select(equal_keys(left.take(name, pairs.left), right.take(name, pairs.right)))
    if spec.residual is None or not len(pairs.left):
        return pairs

    def fetch(ref: ColumnRef) -> pa.Array:
        if ref.side is Side.LEFT:
            return left.take(ref.name, pairs.left)
        return right.take(ref.name, pairs.right)

    return pairs.select(spec.residual.evaluate(fetch).fill_null(False).to_numpy(zero_copy_only=False))


def batched(pairs: Iterable[Pairs]) -> Iterator[Pairs]:
    """Join small sets of pairs into larger ones of about `MAX_PAIRS`."""
    waiting: list[Pairs] = []
    size = 0
    for some in pairs:
        if len(some.left):
            waiting.append(some)
            size += len(some.left)
        if size >= MAX_PAIRS:
            yield _concat(waiting)
            waiting, size = [], 0
    if waiting:
        yield _concat(waiting)


def joined(pairs: Iterable[Pairs]) -> Iterator[Pairs]:
    """All pairs at once, if there are any."""
    parts = [some for some in pairs if len(some.left)]
    if parts:
        yield _concat(parts)


def _concat(parts: list[Pairs]) -> Pairs:
    return Pairs(*(np.concatenate(values) for values in zip(*parts, strict=True)))
