"""A streaming query that is started again when only a Python process has failed, not what it was to do."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from braid.core.logging import Log

_TRANSIENT = (
    # A Python process took more than Spark's fixed ten seconds to start, on a busy machine.
    "failed to connect back",
    "CANNOT_OPEN_SOCKET",
    "Timed out while waiting for the Python worker",
    # It was killed. Spark tries tasks again, but not what it asks of a source or a sink on the driver.
    "Python worker exited unexpectedly",
)
"""What Spark says when a query may just as well be tried again."""
_TRIES = 5
"""Failures in a row, without a micro-batch between them, after which the query has failed for good."""


class Supervised:
    """One stage's query, whichever that is at the moment; a new one goes on from the same checkpoint."""

    def __init__(self, start: Callable[[], StreamingQuery], log: Log) -> None:
        self._start = start
        self._log = log
        self._tries = 0
        self._reached = -1
        self._lock = threading.Lock()
        self.query = self._begin()

    def process_available(self) -> None:
        """Wait until what is there has been processed."""
        self._retry(lambda query: query.processAllAvailable())

    def wait(self) -> None:
        """Wait until the query has ended by itself."""
        self._retry(lambda query: query.awaitTermination())

    def stop(self) -> None:
        """End the query after its micro-batch."""
        self.query.stop()

    def failure(self) -> PySparkException | None:
        """What the query has failed with for good."""
        error = self.query.exception()
        return None if error is None or self._again(error) else error

    def _begin(self) -> StreamingQuery:
        """Start the query, as often as that may help."""
        while True:
            try:
                return self._start()
            except PySparkException as error:
                if not self._may_retry(error):
                    raise

    def _retry(self, call: Callable[[StreamingQuery], object]) -> None:
        while True:
            try:
                call(self.query)
                return
            except PySparkException as error:
                if not self._again(error):
                    raise

    def _again(self, error: PySparkException) -> bool:
        """Start the query again if it has ended with something that passes."""
        with self._lock:
            if self.query.isActive:
                return True
            done = _last_batch(self.query)
            if done > self._reached:
                # It got ahead since it failed last: these are not failures in a row.
                self._reached, self._tries = done, 0
            if not self._may_retry(error):
                return False
            try:
                self.query = self._begin()
            except PySparkException:
                return False
            return True

    def _may_retry(self, error: PySparkException) -> bool:
        cause = _transient(error)
        if cause is None or self._tries == _TRIES:
            return False
        self._tries += 1
        self._log.warning("query started again", cause=cause, tries=self._tries)
        return True


def _last_batch(query: StreamingQuery) -> int:
    """The last micro-batch that a query is known to have done; -1 if there is none."""
    return max(
        (one["batchId"] for one in query.recentProgress if "addBatch" in one["durationMs"]), default=-1
    )


def _transient(error: PySparkException) -> str | None:
    """Which of the passing troubles a query has failed with; None if it is another one."""
    return next((text for text in _TRANSIENT if text in str(error)), None)
