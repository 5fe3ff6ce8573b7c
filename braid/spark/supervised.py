"""A streaming query that is started again when something has failed in passing, not what it was to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.errors import PySparkException

from braid.core.logging import Log
from braid.spark.queries import Query, Report

_POLL_SECONDS = 0.25
_ASK_SECONDS = 1.0
_STALLED_SECONDS = 60.0
"""How long a micro-batch may run until the status says so."""


@dataclass(frozen=True)
class Cause:
    """Something that passes.

    Parameters
    ----------
    what
        In words.
    texts
        By which it is known in what Spark says.
    tries
        Failures in a row, without a micro-batch between them, after which the query has failed for good; None
        if it is tried for as long as it takes.
    least, most
        Seconds between tries: the first pause, which doubles, and the longest.
    """

    what: str
    texts: tuple[str, ...]
    tries: int | None
    least: float
    most: float


PROCESS = Cause(
    "a Python process was lost",
    (
        # A Python process took more than Spark's fixed ten seconds to start, on a busy machine.
        "failed to connect back",
        "CANNOT_OPEN_SOCKET",
        "Timed out while waiting for the Python worker",
        # It was killed. Spark tries tasks again, but not what it asks of a source or a sink on the driver.
        "Python worker exited unexpectedly",
        "Connection reset",
        "SocketException: Broken pipe",
        "IOException: Broken pipe",
        # The end of a stream, which Java has no words for.
        "java.io.EOFException",
        "terminated with exception:  SQLSTATE",
    ),
    tries=5,
    least=0.0,
    most=4.0,
)
EXECUTOR = Cause(
    "executors were lost",
    # Spark runs their tasks elsewhere, but gives up a micro-batch in which that happens a few times.
    ("ExecutorLostFailure", "FetchFailed", "MetadataFetchFailedException"),
    tries=5,
    least=1.0,
    most=10.0,
)
DISK_FULL = Cause(
    "the disk is full",
    # What is written is whole or not there: commits and control files are renamed into place, and so are the
    # files of checkpoints. The micro-batch is repeated with the same offset when there is room again.
    ("No space left on device", "Disk quota exceeded"),
    tries=None,
    least=1.0,
    most=10.0,
)
CAUSES = (PROCESS, EXECUTOR, DISK_FULL)
ENDED = "the query has ended, and the application has not stopped it: somebody else of its Spark session has"
HEALTHY_SECONDS = 600.0
"""After so long without a failure, those before are forgotten, whether there was anything to do or not."""


class Retries:
    """Decides whether, and after how long, what has failed is tried again.

    Parameters
    ----------
    clock
        Seconds, of any origin.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = clock()
        self._cause: Cause | None = None
        self.tries = 0
        """Failures in a row, of one cause."""

    def pause(self, cause: Cause) -> float | None:
        """Take note of a failure; the seconds to wait until the next try, None if it is final."""
        now = self._clock()
        if now - self._last >= HEALTHY_SECONDS or cause is not self._cause:
            self.tries = 0
        self._last, self._cause = now, cause
        if self.tries == cause.tries:
            return None
        self.tries += 1
        if self.tries == 1:
            return cause.least
        return min(cause.most, max(cause.least, 0.25) * 2.0 ** min(self.tries - 1, 30))

    def succeed(self) -> None:
        """Forget failures: it got ahead since."""
        self.tries = 0


class Numbered(NamedTuple):
    """A micro-batch, by its number in all generations, and what Spark tells of it."""

    batch: int
    report: Report


class Supervised:
    """One stage's query, whichever that is at the moment; a new one goes on from the same checkpoint.

    Parameters
    ----------
    start
        Starts the query.
    log
        For what is mended.
    stopping
        Set when nothing is to be started any more.
    clock
        Seconds, of any origin.
    bounded
        Whether the query is to end by itself.
    first_batch
        The number of what the query, when it is started, calls micro-batch 0.
    """

    def __init__(
        self,
        start: Callable[[], Query],
        log: Log,
        stopping: threading.Event,
        clock: Callable[[], float] = time.monotonic,
        *,
        bounded: bool = False,
        first_batch: Callable[[], int] = lambda: 0,
    ) -> None:
        self._start = start
        self._log = log
        self._stopping = stopping
        self._clock = clock
        self._may_end = bounded
        self._first_batch = first_batch
        self._first = 0
        self._retries = Retries(clock)
        self._reached = -1
        self._due: float | None = None
        self._cause: Cause | None = None
        self._heard = (clock(), "")
        self._told = -1
        self._asked = clock()
        self._lock = threading.RLock()
        self.query: Query
        self._begin()

    def process_available(self) -> None:
        """Wait until what is there has been processed."""
        self._retry(lambda query: query.processAllAvailable())

    def wait(self) -> None:
        """Wait until the query has ended by itself."""
        self._retry(lambda query: query.awaitTermination())

    def stop(self) -> None:
        """End the query after its micro-batch."""
        self._may_end = True
        self.query.stop()

    def switch(self, change: Callable[[], None]) -> None:
        """End the query, change what the next one starts from, and start it, even if changing has failed."""
        with self._lock:
            self._may_end = True
            self.query.stop()
            try:
                change()
            finally:
                self._told = self._reached = -1
                self._begin()
                self._may_end = False

    def progress(self, *, expected: bool) -> Sequence[Numbered]:
        """What Spark tells of the last micro-batches; nothing if it has told that before.

        Asking costs some milliseconds: unless something is `expected`, that is done once a second.
        """
        with self._lock:
            return [Numbered(self._first + one["batchId"], one) for one in self._progress(expected)]

    def _progress(self, expected: bool) -> Sequence[Report]:
        now = self._clock()
        if not expected and now - self._asked < _ASK_SECONDS:
            return []
        self._asked = now
        last = self.query.lastProgress
        at = "" if last is None else str(last["timestamp"])
        if at == self._heard[1]:
            return []
        self._heard = self._clock(), at
        # To be told of all that Spark keeps takes a hundred times as long as to be told of the last one.
        if last is not None and last["batchId"] == self._told + 1:
            self._told += "addBatch" in last["durationMs"]
            return [last]
        self._told = _last_batch(self.query)
        return self.query.recentProgress

    def trouble(self) -> str | None:
        """What keeps the query from getting ahead, as far as that is known."""
        if self._due is not None and self._cause is not None:
            wait = max(0.0, self._due - self._clock())
            return f"{self._cause.what}: waiting, next try in {wait:.0f} s ({self._retries.tries} so far)"
        silent = self._clock() - self._heard[0]
        if silent > _STALLED_SECONDS and self.query.isActive and self.query.status["isTriggerActive"]:
            return f"no progress for {silent:.0f} s, although there is something to do"
        return None

    def failure(self) -> PySparkException | None:
        """What the query has failed with for good; one that failed in passing is started again when due."""
        with self._lock:
            if self._stopping.is_set():
                return None
            if self._due is not None:
                return None if self._clock() < self._due else self._again()
            if self.query.isActive:
                return None
            error = self.query.exception()
            if error is None:
                return None if self._may_end else PySparkException(ENDED)
            done = _last_batch(self.query)
            if done > self._reached:
                # It got ahead since it failed last: these are not failures in a row.
                self._reached = done
                self._retries.succeed()
            return self._take(error)

    def _begin(self) -> None:
        """Start the query, as often as that may help."""
        error = self._again()
        while error is None and self._due is not None:
            if self._stopping.wait(max(0.0, self._due - self._clock())):
                raise PySparkException("stopped before the query was started")
            error = self._again()
        if error is not None:
            raise error

    def _retry(self, call: Callable[[Query], object]) -> None:
        while True:
            query = self.query
            try:
                call(query)
                if self.query is query:
                    return
            except PySparkException as error:
                while self.query is query:
                    failure = self.failure()
                    if failure is not None:
                        raise failure from None
                    if self.query is query and self._due is None and query.exception() is None:
                        raise
                    if self.query is query and self._stopping.wait(_POLL_SECONDS):
                        raise error from None

    def _again(self) -> PySparkException | None:
        """Start the query; what it has failed with for good."""
        self._due = None
        try:
            self._first = self._first_batch()
            self.query = self._start()
        except PySparkException as error:
            return self._take(error)
        self._heard = self._clock(), ""
        return None

    def _take(self, error: PySparkException) -> PySparkException | None:
        """Decide on a failure: it is final, or a new query is started, now or later."""
        said = str(error)
        cause = next((one for one in CAUSES if any(text in said for text in one.texts)), None)
        pause = None if cause is None else self._retries.pause(cause)
        if cause is None or pause is None:
            return error
        tries = self._retries.tries
        if tries & (tries - 1) == 0:
            # At the first failure, the second, the fourth, ...: a full disk may stay full for days.
            self._log.warning("query started again", cause=cause.what, tries=tries, seconds=round(pause, 1))
        self._cause, self._due = cause, self._clock() + pause
        return self._again() if pause == 0 else None


def _last_batch(query: Query) -> int:
    """The last micro-batch that a query is known to have done; -1 if there is none."""
    return max(
        (one["batchId"] for one in query.recentProgress if "addBatch" in one["durationMs"]), default=-1
    )
