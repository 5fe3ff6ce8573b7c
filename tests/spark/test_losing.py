"""A join on a cluster loses and gains executors; `python -m tests.spark.losing` is the whole trial."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest

from tests.spark.cluster import CannotStartError, Cluster, running
from tests.spark.killing import Place, Trial
from tests.spark.losing import Losing

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@dataclass(frozen=True)
class Scene:
    """A join that runs until the last test; the others take something from it, one after the other."""

    cluster: Cluster
    trial: Trial
    losing: Losing
    runs: ExitStack


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("lost")
    with ExitStack() as held:
        try:
            cluster = held.enter_context(running(folder / "cluster"))
        except CannotStartError as error:
            pytest.skip(f"there can be no cluster here: {error}")
        settings = {"spark_cores_max": "2"}
        place = Place.on(cluster, tmp_path_factory.getbasetemp() / "cache", **settings)
        trial = held.enter_context(closing(Trial(folder / "home", 21, "left", place)))
        runs = held.enter_context(ExitStack())
        runs.enter_context(trial.running())
        yield Scene(cluster, trial, Losing(cluster, trial), runs)


def test_every_worker_has_shards(scene: Scene) -> None:
    scene.losing.spread_at_start()
    assert scene.losing.layout() == (3, 2)


@pytest.mark.parametrize("what", ["executor", "worker"])
def test_only_what_was_lost_is_rebuilt_and_what_comes_gets_its_share(scene: Scene, what: str) -> None:
    cluster, losing = scene.cluster, scene.losing
    victim = max(cluster.workers)
    held = losing.where()[victim]
    kill = cluster.kill_executor if what == "executor" else cluster.kill_worker
    assert losing.lose(kill, victim).rebuilt == held
    other = victim if victim in cluster.workers else cluster.add_worker()
    moved = losing.spread(other).moved
    assert moved in (1, 2)
    assert losing.where() == {other: moved, min(cluster.workers): 3 - moved}
    assert losing.layout() == (3, 2)


def test_nothing_was_lost_or_doubled(scene: Scene) -> None:
    scene.runs.close()
    scene.trial.drain(150)
    different = scene.trial.differences()
    assert different
    assert all(not rows for rows in different.values()), different
