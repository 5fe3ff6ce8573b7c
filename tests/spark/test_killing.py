"""A few kills in every run of the tests; `python -m tests.spark.killing --kills 30` is the whole trial."""

from __future__ import annotations

import pytest

from tests.spark.killing import run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_killed_applications_lose_and_repeat_nothing() -> None:
    different = run(kills=3, seed=20, victim="interval")
    assert different
    assert all(not rows for rows in different.values()), different
