"""Other shards while a join runs: the state is cut anew, and nobody can tell from what comes out."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from braid.core.side import Side
from braid.core.times import SECOND
from braid.kernels.join.spec import JoinType, MatchMode, SeriesMode, SeriesSpec
from tests.engine.random_joins import OUTPUT, RandomJoin
from tests.seeds import seeds

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
SHARDS = (1, 2, 3, 4, 7)


def run(join: RandomJoin, shards: Sequence[int], often: float = 0.3) -> RandomJoin:
    """Publish as rows arrive, with drains here and there, and restarts: with other shards, if given any."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        join.open(root)
        moments, chosen = random.Random(join.seed), random.Random(join.seed)
        for now, arrived in join.ticks():
            for side in Side:
                join.publish(side, arrived[side], now)
            join.run(now, draining=moments.random() < 0.03)
            if moments.random() < often:
                # Silence of inputs is counted from a start on, so that both runs must have the same starts.
                if shards:
                    join.rescale(chosen.choice(shards))
                else:
                    join.restart()
        join.run(now + 1, draining=True)
    return join


def same(one: RandomJoin, other: RandomJoin) -> None:
    """Both have given and lost the same."""
    assert Counter(one.emitted) == Counter(other.emitted)
    assert one.lost == other.lost
    assert one.counts.lost_matches == other.counts.lost_matches


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("seed", seeds(15))
def test_joins_give_the_same_with_other_shards(seed: int, waits: bool) -> None:
    rescaled = run(RandomJoin(seed, waits=waits), SHARDS)
    rescaled.check()
    same(rescaled, run(RandomJoin(seed, waits=waits), ()))


@pytest.mark.parametrize("mode", list(SeriesMode))
@pytest.mark.parametrize("seed", seeds(4))
def test_series_joins_give_the_same_with_other_shards(seed: int, mode: SeriesMode) -> None:
    found = []
    for shards in (SHARDS, ()):
        join = RandomJoin(seed)
        join.broadcast = None
        join.spec = SeriesSpec(JoinType.LEFT, mode, 1, OUTPUT, within=20 * SECOND)
        found.append(run(join, shards))
    same(*found)


@pytest.mark.parametrize("match", list(MatchMode))
def test_rows_in_flight_keep_their_matches_and_choices(match: MatchMode) -> None:
    join = RandomJoin(5, modes=(match,), types=(JoinType.LEFT,))
    join.keys, join.broadcast = 30, None
    join.spec = replace(join.spec, keys=1, lower=-30 * SECOND, upper=60 * SECOND)
    run(join, SHARDS, often=1.0)
    join.check()
    assert join.rescales > 10
