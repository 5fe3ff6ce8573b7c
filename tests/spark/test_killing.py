"""A few kills in every run of the tests; `python -m tests.spark.killing --kills 30` is the whole trial."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.spark.killing import Trial

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """One application, which the tests kill in turn: each of them takes its own time."""
    with closing(Trial(tmp_path_factory.mktemp("killed"), seed=20)) as found:
        yield found


@pytest.mark.parametrize("number", range(3))
def test_an_application_is_killed(trial: Trial, number: int) -> None:
    assert trial.kill(rescaling=number == 1) >= 0


def test_an_application_is_rescaled(trial: Trial) -> None:
    assert trial.rescale(3, seconds=2)


def test_killed_applications_lose_and_repeat_nothing(trial: Trial) -> None:
    trial.drain(150)
    different = trial.differences()
    assert different
    assert all(not rows for rows in different.values()), different
