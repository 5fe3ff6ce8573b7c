"""Queries that fail in passing are started again, until they fail without getting ahead."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import structlog
from pyspark.errors import PySparkException

from braid.spark.supervised import _TRIES, Supervised

PASSING = PySparkException("Python worker exited unexpectedly (crashed)")


@dataclass
class Query:
    """What is asked of a query that has ended."""

    error: PySparkException | None
    batches: int = 0
    isActive: bool = False  # noqa: N815  Spark's name
    recentProgress: list[dict[str, object]] = field(default_factory=list)  # noqa: N815  Spark's name

    def __post_init__(self) -> None:
        done = {"addBatch": 5}
        self.recentProgress = [{"batchId": n, "durationMs": done} for n in range(self.batches)]
        self.recentProgress.append({"batchId": self.batches, "durationMs": {"latestOffset": 1}})

    def exception(self) -> PySparkException | None:
        return self.error


def supervised(starts: list[Query | PySparkException]) -> Supervised:
    left = iter(starts)

    def start() -> Query:
        found = next(left)
        if isinstance(found, PySparkException):
            raise found
        return found

    return Supervised(start, structlog.get_logger())


def test_a_query_that_gets_ahead_between_failures_goes_on() -> None:
    found = supervised([Query(PASSING, batches=number) for number in range(1, 20)])
    assert all(found.failure() is None for _ in range(15))


def test_a_query_that_fails_in_a_row_has_failed() -> None:
    found = supervised([Query(PASSING) for _ in range(20)])
    for _ in range(_TRIES):
        assert found.failure() is None
    assert found.failure() is PASSING


def test_a_start_that_fails_in_passing_is_tried_again() -> None:
    found = supervised([PASSING, Query(PASSING), PASSING, PASSING, Query(None, isActive=True)])
    assert found.failure() is None
    assert found.query.isActive


def test_other_failures_are_final() -> None:
    wrong = PySparkException("a bug")
    assert supervised([Query(wrong)]).failure() is wrong
    with pytest.raises(PySparkException, match="a bug"):
        supervised([wrong])
    assert supervised([Query(PASSING), wrong]).failure() is PASSING
