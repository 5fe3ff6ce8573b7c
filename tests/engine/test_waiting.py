"""Rows that wait for a match by the wall clock: each comes out either padded or matched, whatever happens."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from braid.kernels.join.spec import MatchMode
from tests.engine.random_joins import RandomJoin
from tests.engine.test_silence import outages
from tests.seeds import seeds

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


@pytest.mark.parametrize("seed", seeds(25))
def test_every_row_comes_out_once_and_every_match_is_emitted_or_counted(seed: int) -> None:
    modes = (MatchMode.FIRST, MatchMode.FIRST, *MatchMode)
    join = RandomJoin(2_000 + seed, modes=modes, waits=True)
    outages(join)
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        join.open(root, declared=seed % 4 > 0)
        join.live()
        join.check()
