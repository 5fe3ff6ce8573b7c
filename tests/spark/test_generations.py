"""Generations of a join change while it is killed at any step: nothing is lost, and nothing comes out twice.

The source, the shards, the sink and what changes generations are the real ones; a few lines stand for Spark,
which writes the offset of a micro-batch before it, and that it is done after it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from braid.home.control import Seal
from tests.engine.random_joins import RandomJoin
from tests.home.killed import Killed, Mortal
from tests.seeds import seeds
from tests.spark.life import LAYOUTS, STAGE, Life


@pytest.mark.parametrize("seed", seeds(25))
def test_generations_change_and_processes_are_killed(
    memory_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mortal, rng = Mortal(monkeypatch), random.Random(seed)
    life = Life(memory_path, RandomJoin(seed, span=120))
    kills = 0
    life.start()
    while life.publish():
        try:
            with mortal.within(rng.randrange(1, 60)):
                for _ in range(rng.randrange(4)):
                    life.query.trigger()
                if rng.random() < 0.4:
                    life.rescale(rng.choice(LAYOUTS))
        except Killed:
            kills += 1
            life.start()
    life.finish()
    life.join.check_complete()
    life.start()
    assert len(list((life.app.root / "checkpoints").iterdir())) == 1
    assert len(list(life.app.savepoints.glob("j.*"))) <= 1


def test_a_generation_changes_killed_before_any_step(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every single step of a change, one after the other, until one change is over without a kill."""
    mortal = Mortal(monkeypatch)
    life = Life(memory_path, RandomJoin(7))
    life.start()
    for steps in range(1000):
        life.publish()
        try:
            with mortal.within(steps):
                life.query.trigger()
                life.rescale(LAYOUTS[steps % len(LAYOUTS)])
        except Killed:
            life.start()
            continue
        break
    assert 10 < steps < 500
    while life.publish():
        life.query.trigger()
    life.finish()
    life.join.check_complete()


def test_a_drained_join_gets_other_shards_though_nothing_comes(memory_path: Path) -> None:
    life = Life(memory_path, RandomJoin(7))
    life.start()
    while life.publish():
        life.query.trigger()
    life.drain()
    for shards in (3, 2):
        life.rescale(shards)
        assert not life.query.trigger()
    life.finish()
    life.join.check_complete()


def test_a_savepoint_that_nobody_waits_for_holds_up_nobody(memory_path: Path) -> None:
    life = Life(memory_path, RandomJoin(3))
    life.start()
    life.publish()
    while life.query.trigger():
        continue
    Seal(id="one").write(life.app.control_file(STAGE, "seal"))
    assert life.query.trigger()
    assert not life.query.trigger()
    assert (life.app.savepoints / "j.one.json").exists()
    life.start()
    while life.publish():
        life.query.trigger()
    life.finish()
    life.join.check_complete()
