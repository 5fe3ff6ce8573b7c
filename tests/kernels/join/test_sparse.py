"""Sparse time-series joins of long series, whatever becomes certain when: many cheap cases."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest

from braid.core.columns import LIVE, TIME
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MAX_TIME, MIN_TIME
from braid.kernels.join.series import SeriesJoin
from braid.kernels.join.spec import JoinType, SeriesMode, SeriesSpec
from braid.kernels.join.step import two_sided
from tests.kernels.join.harness import OUTPUT, MemorySource, schema, to_block

Pairs = Counter[tuple[int | None, int | None]]
KIND = schema((pa.string(),))
NEVER = 10**6


def nearest(time: int, others: Sequence[int], within: int) -> int | None:
    """The nearest one, the earlier of two."""
    best = min(others, key=lambda other: (abs(other - time), other), default=None)
    return best if best is not None and abs(best - time) <= within else None


def expected(left: list[int], right: list[int], within: int, kind: JoinType) -> Pairs:
    """Every record with its nearest, each pair once, and those without."""
    found = {(time, nearest(time, right, within)) for time in left}
    found |= {(nearest(time, left, within), time) for time in right}
    pairs = {pair for pair in found if None not in pair}
    alone = {pair for pair in found if None in pair}
    sides = [side for side in Side if kind.pads(side)]
    lonely = {pair for pair in alone if (Side.LEFT if pair[1] is None else Side.RIGHT) in sides}
    return Counter(pairs | lonely)


def joined(rng: random.Random, spec: SeriesSpec, series: dict[Side, list[int]], end: int) -> Pairs:
    """What the join gives, with stream times that advance at random but never beyond what is to come."""
    source, found = MemorySource(KIND), Pairs()
    join = SeriesJoin(spec, source)
    rest, times = {side: list(series[side]) for side in Side}, dict.fromkeys(Side, MIN_TIME)
    for number in range(60):
        blocks: dict[Side, list[Position]] = {side: [] for side in Side}
        for side in Side:
            count = rng.randint(0, 6)
            taken, rest[side] = rest[side][:count], rest[side][count:]
            if taken:
                rows = [{"id": time, TIME: time, LIVE: True, "__key0": "a", "x": None} for time in taken]
                blocks[side] = [Position(number, 0)]
                source.blocks[side][blocks[side][0]] = to_block(rows, KIND, 1)
            if rng.random() < 0.7:
                times[side] = max(times[side], min(rest[side], default=end) - rng.choice([0, 0, 1, 5]))
        if number > 12 and not any(rest.values()):
            times = dict.fromkeys(Side, MAX_TIME)
        out = join.step(two_sided(blocks[Side.LEFT], blocks[Side.RIGHT], times[Side.LEFT], times[Side.RIGHT]))
        found.update(zip(out.rows["l"].to_pylist(), out.rows["r"].to_pylist(), strict=True))
        if times[Side.LEFT] == MAX_TIME:
            return found
        if rng.random() < 0.3:
            join = SeriesJoin(spec, source, join.snapshot())
    raise AssertionError("too few steps")


@pytest.mark.parametrize("kind", list(JoinType))
def test_every_record_is_paired_with_its_nearest(kind: JoinType) -> None:
    for seed in range(100):
        rng = random.Random(f"{kind} {seed}")
        span, disorder = rng.choice([60, 200]), rng.choice([0, 3, 15])
        series = {
            side: sorted(
                rng.sample(range(span), rng.randint(1, 10)),
                key=lambda time: time + rng.random() * disorder,
            )
            for side in Side
        }
        within = rng.choice([1, 10, 20, 40, NEVER])
        spec = SeriesSpec(kind, SeriesMode.SPARSE, 1, OUTPUT, within=None if within == NEVER else within)
        wanted = expected(series[Side.LEFT], series[Side.RIGHT], within, kind)
        assert joined(rng, spec, series, span + 50) == wanted, seed
