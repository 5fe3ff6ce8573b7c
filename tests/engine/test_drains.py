"""More input after a drain: new rows find rows of before it in the log, as late rows do, or are counted."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from braid.core.side import Side
from braid.core.times import SECOND
from braid.kernels.join.spec import JoinType, MatchMode, SeriesMode, SeriesSpec
from tests.engine.random_joins import OUTPUT, RandomJoin, Row
from tests.seeds import seeds

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


def split(join: RandomJoin) -> list[dict[Side, list[Row]]]:
    """The rows of each drain: at random, or as they arrive; numbered in the order of publishing."""
    count = join.rng.randint(2, 4)
    scattered = join.rng.random() < 0.5
    parts: list[dict[Side, list[Row]]] = [{side: [] for side in Side} for _ in range(count)]
    for side in Side:
        for row in join.rows[side]:
            place = join.rng.randrange(count) if scattered else row.arrival * count // (2 * join.span)
            parts[place][side].append(row)
        everything = [row for part in parts for row in part[side]]
        join.rows[side] = [replace(row, id=number) for number, row in enumerate(everything)]
        rest = iter(join.rows[side])
        for part in parts:
            part[side] = [next(rest) for _ in part[side]]
    return parts


@pytest.mark.parametrize("seed", seeds(15))
def test_whatever_the_drains_every_match_is_emitted_or_counted(seed: int) -> None:
    join = RandomJoin(seed)
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        join.open(root)
        for number, part in enumerate(split(join)):
            now = 1_000 * number
            for begin in range(0, 200, 50):
                for side in Side:
                    join.publish(side, part[side][begin : begin + 50], now)
                if join.rng.random() < 0.5:
                    join.run(now)
                if join.rng.random() < 0.3:
                    join.restart()
            join.run(now, draining=True)
            if join.rng.random() < 0.3:
                join.restart()
        join.check()
        if join.spec.type is JoinType.INNER and join.spec.match is MatchMode.ALL:
            assert join.counts.lost_matches == 0


@pytest.mark.parametrize("kind", list(JoinType))
def test_a_partner_that_comes_after_a_drain_is_found_or_counted(kind: JoinType) -> None:
    join = RandomJoin(0, types=(kind,), modes=(MatchMode.ALL,))
    join.rows = {Side.LEFT: [Row(0, 0, 10, 0)], Side.RIGHT: [Row(0, 0, 10, 0)]}
    join.spec = replace(join.spec, type=kind, keys=1, lower=0, upper=0)
    join.broadcast = None
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        join.open(root)
        join.publish(Side.LEFT, join.rows[Side.LEFT], 0)
        join.run(0, draining=True)
        join.restart()
        join.publish(Side.RIGHT, join.rows[Side.RIGHT], 1)
        join.run(1, draining=True)
        join.check()
    if kind in (JoinType.INNER, JoinType.RIGHT):
        assert (join.emitted, join.counts.lost_matches) == ([(0, 0)], 0)
    else:
        assert (0, None) in join.emitted
        assert (join.counts.lost_matches, join.lost[Side.RIGHT]) == (1, {0: 1})


@pytest.mark.parametrize("mode", list(SeriesMode))
def test_neighbours_from_before_a_drain_are_not_seen_and_that_is_listed(mode: SeriesMode) -> None:
    join = RandomJoin(0)
    join.shards, join.broadcast = 1, None
    join.spec = SeriesSpec(JoinType.LEFT, mode, 1, OUTPUT, within=10 * SECOND)
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        join.open(root)
        join.publish(Side.LEFT, [Row(0, 1, 100, 0), Row(1, 2, 100, 0)], 0)
        join.publish(Side.RIGHT, [Row(0, 1, 95, 0)], 0)
        join.run(0, draining=True)
        join.restart()
        join.publish(Side.LEFT, [Row(2, 1, 104, 0), Row(3, 1, 120, 0), Row(4, 3, 104, 0)], 1)
        join.publish(Side.RIGHT, [Row(1, 1, 121, 0), Row(2, 2, 92, 0), Row(3, 1, 111, 0)], 1)
        join.run(1)
        join.restart()
        join.run(2, draining=True)
    assert join.lost == {Side.LEFT: {2: 1}, Side.RIGHT: {2: 1}}
    assert {left for left, _ in join.emitted} == {0, 1, 2, 3, 4}
