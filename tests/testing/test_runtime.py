from __future__ import annotations

from pathlib import Path

from braid.engine import stepper
from tests.engine.updated_joins import UpdatedJoin


def test_nothing_is_kept_of_runs_that_are_over(memory_path: Path) -> None:
    before = set(stepper._cache)
    join = UpdatedJoin(1, span=30)
    join.open(str(memory_path))
    join.run(100, draining=True)
    assert set(stepper._cache) - before
    del join
    assert set(stepper._cache) == before
