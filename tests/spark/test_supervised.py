"""Queries that fail in passing are started again, until they fail without getting ahead."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest
import structlog
from pyspark.errors import PySparkException

from braid.spark.supervised import DISK_FULL, ENDED, EXECUTOR, HEALTHY_SECONDS, PROCESS, Retries, Supervised

PASSING = PySparkException("Python worker exited unexpectedly (crashed)")


@dataclass(eq=False)
class Query:
    """What is asked of a query that has ended."""

    error: PySparkException | None
    batches: int = 0
    isActive: bool = False  # noqa: N815  Spark's name
    recentProgress: list[dict[str, object]] = field(default_factory=list)  # noqa: N815  Spark's name
    status: dict[str, object] = field(default_factory=lambda: {"isTriggerActive": False})

    def __post_init__(self) -> None:
        done = {"addBatch": 5}
        self.recentProgress = [
            {"batchId": n, "timestamp": str(n), "durationMs": done} for n in range(self.batches)
        ]
        self.recentProgress.append(
            {"batchId": self.batches, "timestamp": "", "durationMs": {"latestOffset": 1}}
        )

    @property
    def lastProgress(self) -> dict[str, object]:  # noqa: N802  Spark's name
        return self.recentProgress[-1]

    def exception(self) -> PySparkException | None:
        return self.error


@dataclass
class Clock:
    """Seconds that pass when a test says so."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def supervised(starts: list[Query | PySparkException], clock: Clock | None = None) -> Supervised:
    left = iter(starts)

    def start() -> Query:
        found = next(left)
        if isinstance(found, PySparkException):
            raise found
        return found

    return Supervised(start, structlog.get_logger(), threading.Event(), clock or Clock())


def failures(found: Supervised, clock: Clock, seconds: float = 60.0) -> PySparkException | None:
    """What comes of looking for failures for some time."""
    for _ in range(int(seconds / 0.25)):
        failure = found.failure()
        if failure is not None:
            return failure
        clock.now += 0.25
    return None


def test_a_query_that_gets_ahead_between_failures_goes_on() -> None:
    found = supervised([Query(PASSING, batches=number) for number in range(1, 20)])
    assert all(found.failure() is None for _ in range(15))
    assert found.trouble() is None


def test_a_query_that_fails_in_a_row_has_failed() -> None:
    clock = Clock()
    started: list[float] = []
    queries = [Query(PASSING) for _ in range(20)]
    found = supervised(queries, clock)
    while found.failure() is None:
        if len(started) < queries.index(found.query):
            started.append(clock.now)
        clock.now += 0.25
    assert found.failure() is PASSING
    assert found.query is queries[PROCESS.tries or 0]
    # It is tried again at once, then after ever longer pauses.
    assert started == [0.0, 0.75, 2.0, 4.25, 8.5]


def test_failures_are_forgotten_after_a_healthy_while() -> None:
    clock = Clock()
    found = supervised([Query(PASSING) for _ in range(100)], clock)
    for _ in range(15):
        # As often as it may fail in a row; then it is idle for a while.
        for _ in range(PROCESS.tries - 1):
            assert found.failure() is None
            clock.now += PROCESS.most
        clock.now += HEALTHY_SECONDS
    assert failures(found, clock) is PASSING


def test_a_full_disk_is_waited_for() -> None:
    clock = Clock()
    full = PySparkException("... OSError: [Errno 28] No space left on device: '/x' ...")
    starts = [Query(full), *[full] * 200, Query(None, isActive=True)]
    found = supervised(starts, clock)
    assert found.failure() is None
    assert found.trouble() == "the disk is full: waiting, next try in 1 s (1 so far)"
    assert failures(found, clock, seconds=200 * DISK_FULL.most + 60) is None
    assert found.query.isActive
    assert found.trouble() is None


def test_failures_of_another_cause_are_counted_anew() -> None:
    retries = Retries(Clock())
    assert all(retries.pause(DISK_FULL) is not None for _ in range(20))
    assert all(retries.pause(PROCESS) is not None for _ in range(PROCESS.tries or 0))
    assert retries.pause(PROCESS) is None


def test_a_start_that_fails_in_passing_is_tried_again() -> None:
    clock = Clock()
    found = supervised([PASSING, Query(PASSING), PASSING, PASSING, Query(None, isActive=True)], clock)
    assert failures(found, clock) is None
    assert found.query.isActive


@pytest.mark.parametrize("text", PROCESS.texts)
def test_lost_processes_are_known_by_what_spark_says(text: str) -> None:
    found = supervised(
        [Query(PySparkException(f"[STREAM_FAILED] ...: {text}\n\tat ...")), Query(None, isActive=True)]
    )
    assert found.failure() is None
    assert found.query.isActive


@pytest.mark.parametrize("text", EXECUTOR.texts)
def test_lost_executors_are_known_by_what_spark_says(text: str) -> None:
    clock = Clock()
    error = PySparkException(f"Job aborted: Task 0 failed 4 times, most recent failure: {text} (executor 3)")
    queries = [Query(error), Query(None, isActive=True)]
    found = supervised([*queries], clock)
    assert failures(found, clock) is None
    assert found.query is queries[1]


def test_other_failures_are_final() -> None:
    wrong = PySparkException("a bug")
    assert supervised([Query(wrong)]).failure() is wrong
    with pytest.raises(PySparkException, match="a bug"):
        supervised([wrong])
    assert supervised([Query(PASSING), wrong]).failure() is wrong


def test_a_query_that_somebody_else_has_stopped_has_failed() -> None:
    query = Query(None, isActive=True)
    found = supervised([query])
    assert found.failure() is None
    query.isActive = False
    assert str(found.failure()) == ENDED


def test_a_query_may_end_when_it_was_to() -> None:
    class Stopped(Query):
        def stop(self) -> None:
            self.isActive = False

    found = supervised([Stopped(None, isActive=True)])
    found.stop()
    assert not found.query.isActive
    assert found.failure() is None
    drained = Supervised(
        lambda: Query(None), structlog.get_logger(), threading.Event(), Clock(), bounded=True
    )
    assert drained.failure() is None


def test_whoever_waits_for_a_query_waits_for_the_next_one() -> None:
    class Waiting(Query):
        def awaitTermination(self) -> None:  # noqa: N802  Spark's name
            if self.error is not None:
                raise self.error

    supervised([Waiting(PASSING), Waiting(None)]).wait()
    wrong = PySparkException("a bug")
    with pytest.raises(PySparkException, match="a bug"):
        supervised([Waiting(PASSING), Waiting(wrong)]).wait()


def test_a_micro_batch_that_takes_too_long_is_told() -> None:
    clock = Clock()
    query = Query(None, isActive=True)
    found = supervised([query], clock)
    found.progress(expected=True)
    clock.now += 90
    assert found.trouble() is None
    query.status["isTriggerActive"] = True
    assert found.trouble() == "no progress for 90 s, although there is something to do"
    query.recentProgress.append({"batchId": 1, "timestamp": "later", "durationMs": {}})
    found.progress(expected=True)
    assert found.trouble() is None


def test_spark_is_asked_once_a_second_or_when_something_is_expected() -> None:
    clock = Clock()
    query = Query(None, batches=1, isActive=True)
    found = supervised([query], clock)

    def told(*, expected: bool) -> int:
        query.recentProgress.append({"batchId": 1, "timestamp": str(clock.now), "durationMs": {}})
        return len(found.progress(expected=expected))

    clock.now += 0.5
    assert not told(expected=False)
    assert told(expected=True)
    clock.now += 0.9
    assert not told(expected=False)
    clock.now += 0.2
    assert told(expected=False)


def test_all_is_asked_for_only_when_a_micro_batch_was_missed() -> None:
    done, waited = {"addBatch": 5}, {"latestOffset": 1}
    query = Query(None, isActive=True)
    found = supervised([query])

    def told(*added: tuple[int, dict[str, int]]) -> list[int]:
        for number, phases in added:
            at = str(len(query.recentProgress))
            query.recentProgress.append({"batchId": number, "timestamp": at, "durationMs": phases})
        return [one.batch for one in found.progress(expected=True)]

    query.recentProgress.clear()
    assert told((0, done)) == [0]
    assert told((1, done)) == [1]
    assert told((2, done), (3, done)) == [0, 1, 2, 3]
    assert told((4, waited)) == [4]
    assert told((4, done)) == [4]
    assert told((5, done), (6, waited)) == [0, 1, 2, 3, 4, 4, 5, 6]
    assert told((6, done)) == [6]


def test_another_query_takes_over_and_micro_batches_are_numbered_on() -> None:
    done = {"addBatch": 5}
    queries = [Query(None, isActive=True), Query(PASSING), Query(None, isActive=True)]
    firsts = iter([0, 7, 7])
    steps: list[str] = []
    left = iter(queries)
    found = Supervised(
        lambda: next(left),
        structlog.get_logger(),
        threading.Event(),
        Clock(),
        first_batch=lambda: next(firsts),
    )
    queries[0].stop = lambda: steps.append("stop")  # type: ignore[attr-defined]
    found.switch(lambda: steps.append("change"))
    assert steps == ["stop", "change"]
    assert found.query is queries[1]
    assert found.failure() is None  # it has failed in passing, and is started once more
    assert found.query is queries[2]
    queries[2].recentProgress[:] = [{"batchId": 0, "timestamp": "1", "durationMs": done}]
    assert [one.batch for one in found.progress(expected=True)] == [7]
    queries[2].isActive = False
    ended = found.failure()
    assert ended is not None
    assert ENDED in str(ended)
