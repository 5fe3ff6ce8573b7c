"""A join on a cluster loses and gains executors; `python -m tests.spark.losing` is the whole trial."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest

from tests.spark.cluster import CannotStartError, Cluster, running, until
from tests.spark.killing import Place, Trial
from tests.spark.losing import WAIT, Losing

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


def test_a_join_survives_lost_executors_and_workers(scene: Scene) -> None:
    """Which executor has which shards is Spark's to decide; the trial tells how many were rebuilt."""
    until(scene.trial.home.application("killed").is_running, WAIT, "it does not start")
    scene.losing.settle(0.0)
    assert scene.losing.layout() == (3, 2)
    assert scene.losing.lose(scene.cluster.kill_executor, 1).rebuilt <= 3
    assert scene.losing.lose(scene.cluster.kill_worker, 1).rebuilt <= 3


def test_a_worker_that_comes_is_taken_and_nothing_is_lost_or_doubled(scene: Scene) -> None:
    scene.losing.spread(scene.cluster.add_worker())
    assert scene.losing.layout() == (3, 2)
    scene.runs.close()
    scene.trial.drain(150)
    different = scene.trial.differences()
    assert different
    assert all(not rows for rows in different.values()), different
