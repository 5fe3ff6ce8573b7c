"""A join whose type, match mode and window change while rows are in flight, with other shards in between."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from braid.core.side import Side
from braid.kernels.join.spec import JoinSpec, MatchMode
from tests.engine.updated_joins import UpdatedJoin, other
from tests.seeds import seeds

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
SHARDS = (1, 2, 3, 5)


Change = Callable[[JoinSpec, random.Random], JoinSpec]


def run(join: UpdatedJoin, change: Change, shards: Sequence[int] = SHARDS) -> UpdatedJoin:
    """Publish as rows arrive, and change the join, its shards and its process at random."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        join.open(root)
        rng, layouts = random.Random(join.seed), random.Random(join.seed)
        now = 0
        for now, arrived in join.ticks():
            for side in Side:
                join.publish(side, arrived[side], now)
            join.run(now)
            chance = rng.random()
            if chance < 0.2:
                assert isinstance(join.spec, JoinSpec)
                # Now and then back to what it was: a rollback is an update like any other.
                back = rng.random() < 0.3 and len(join.versions) > 1
                spec = rng.choice(join.versions).spec if back else change(join.spec, rng)
                join.update(spec, layouts.choice(shards))
            elif chance < 0.3:
                join.rescale(layouts.choice(shards))
            elif chance < 0.4:
                join.restart()
        join.run(now + 1, draining=True)
    return join


@pytest.mark.parametrize("seed", seeds(50))
def test_type_and_match_mode_change_with_rows_in_flight(seed: int) -> None:
    join = run(UpdatedJoin(seed, span=90), other)
    assert Counter(join.emitted) == join.expected()
    assert not any(join.lost.values())


@pytest.mark.parametrize("seed", seeds(50))
def test_type_and_window_change_with_rows_in_flight(seed: int) -> None:
    join = UpdatedJoin(seed, span=90, modes=(MatchMode.ALL,))
    run(join, partial(other, modes=False, windows=True)).check_judged()


@pytest.mark.parametrize("seed", seeds(15))
def test_whatever_changes_the_layout_does_not_matter(seed: int) -> None:
    """Windows, waits by the clock and CONSUME change, too."""
    one, fixed = (UpdatedJoin(seed, span=90, waits=seed % 2 == 0) for _ in range(2))
    anything = partial(other, windows=True, waits=True)
    run(one, anything).check_sound()
    run(fixed, anything, shards=(1,))
    assert Counter(one.emitted) == Counter(fixed.emitted)
    assert one.lost == fixed.lost
    assert one.counts.lost_matches == fixed.counts.lost_matches
