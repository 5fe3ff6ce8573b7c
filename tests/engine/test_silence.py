"""Silent inputs: what is lost is decided by event time, and counted; and with `idle = 'wait'` nothing is."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from braid.core.config import AppConfig
from braid.core.side import Side
from tests.engine.random_joins import RandomJoin
from tests.seeds import seeds

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


def outages(join: RandomJoin) -> None:
    """A few outages on either side, from seconds to many times the window."""
    for _ in range(join.rng.randint(1, 3)):
        side, start = join.rng.choice(list(Side)), join.rng.randint(0, join.span)
        join.silence(side, start, join.rng.choice([3, 10, 45, 300, 2000]))


@pytest.mark.parametrize("seed", seeds(15))
def test_every_match_is_emitted_or_counted_however_long_inputs_are_silent(seed: int) -> None:
    join = RandomJoin(seed)
    outages(join)
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        join.open(root, declared=seed % 4 > 0)
        join.live()
        join.check()


@pytest.mark.parametrize("seed", seeds(15))
def test_with_wait_nothing_is_lost(seed: int) -> None:
    join = RandomJoin(1_000 + seed)
    outages(join)
    join.options = AppConfig.model_validate({**options(join), "idle": "wait"})
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        join.open(root)
        join.live()
        join.check_complete()


def options(join: RandomJoin) -> dict[str, object]:
    """The options of a join, as they are written."""
    seconds = {"slack": join.options.slack // 1_000_000, "idle_timeout": 5}
    return {"shards": join.shards, "batch_rows": join.options.batch_rows, **seconds}
