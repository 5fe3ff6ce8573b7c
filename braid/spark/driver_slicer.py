"""A slicer of files that the driver runs itself while its micro-batches are small.

A micro-batch of Spark costs as much CPU time as slicing a hundred thousand rows. So where files need no
Catalyst, and Spark runs on this machine alone, small micro-batches are done in a thread of the driver: from
the same checkpoint, by the same code, into the same commits. A backlog is left to Spark, which slices it on
all cores.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from braid.core.columns import FILE_CLOCK, FILE_PATH
from braid.core.times import iso_millis
from braid.engine.cadence import Due
from braid.spark.checkpoints import begin_batch, end_batch, read_checkpoint, read_offset
from braid.spark.paths import is_pattern
from braid.spark.queries import Report
from braid.spark.sinks.blocks import BlocksConfig, BlockWriter
from braid.spark.sources.seen_files import Found, Seen, SeenFiles, is_hidden
from braid.spark.sources.waiting import Waiting

MOST_BYTES = 32 * 2**20
"""Files of a micro-batch that the driver slices."""
_LIST_SECONDS = 1.0
"""How long a folder is believed to be unchanged when its time of change says so."""
_REPORTS = 32
"""Micro-batches that are told of."""


class StartSpark(Protocol):
    """Starts Spark on a checkpoint."""

    def __call__(self, *, available_now: bool) -> StreamingQuery:
        """With `available_now`, the query ends by itself once it has read what is there."""


def is_plain_folder(path: str) -> bool:
    """Whether a path names a folder of files, as Spark writes it: no pattern, no scheme, no `..`."""
    plain = path.rstrip("/")
    written = os.path.normpath(plain) == plain and ":" not in path and not is_pattern(path)
    if not written or not Path(plain).is_dir():
        return False
    return not any(entry.is_dir() and not is_hidden(entry.name) for entry in Path(plain).iterdir())


class DriverSlicer:
    """Slices the files of a folder; asked and stopped as a `StreamingQuery` is.

    Parameters
    ----------
    folder
        The folder that is read.
    checkpoint
        The checkpoint of the query.
    config
        Of its sink.
    cadence_file
        Where the driver tells how often to run.
    by_spark
        Starts Spark on the same checkpoint.
    """

    def __init__(
        self,
        folder: str,
        checkpoint: Path,
        config: BlocksConfig,
        cadence_file: str,
        by_spark: StartSpark,
    ) -> None:
        self._folder = Path(folder).absolute()
        self._checkpoint = checkpoint
        self._writer = BlockWriter(config)
        self._by_spark = by_spark
        self._stopping = threading.Event()
        self._waiting = Waiting(cadence_file, sleep=self._stopping.wait)
        self._state = threading.Condition()
        self._asked = self._answered = 0
        self._busy = False
        self._spark: StreamingQuery | None = None
        self._handed_over = False
        self._reports: deque[Report] = deque(maxlen=_REPORTS)
        self._error: PySparkException | None = None
        self._ended = False
        self._found: list[Found] | None = []
        self._listed: tuple[int | None, float] = (-1, 0.0)
        self._thread = threading.Thread(target=self._run, name=f"slice {checkpoint.name}", daemon=True)
        self._thread.start()

    # -- as a query -------------------------------------------------------------------------------

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Whether it runs."""
        return not self._ended

    @property
    def status(self) -> dict[str, object]:
        """Whether a micro-batch is running."""
        return {"isTriggerActive": self._busy}

    @property
    def recentProgress(self) -> list[Report]:  # noqa: N802
        """The last micro-batches."""
        spark = self._spark
        return [*self._reports, *(spark.recentProgress if spark is not None else ())]

    @property
    def lastProgress(self) -> Report | None:  # noqa: N802
        """The last micro-batch."""
        spark = self._spark
        last = None if spark is None else spark.lastProgress
        return last or (self._reports[-1] if self._reports else None)

    def exception(self) -> PySparkException | None:
        """What it has failed with."""
        return self._error if self._ended else None

    def processAllAvailable(self) -> None:  # noqa: N802
        """Wait until what is there has been sliced."""
        with self._state:
            self._asked += 1
            mine = self._asked
            self._state.wait_for(lambda: self._answered >= mine or self._handed_over or self._ended)
        if self._handed_over and self._spark is not None:
            self._spark.processAllAvailable()
        self._raise()

    def awaitTermination(self) -> None:  # noqa: N802
        """Wait until it has ended."""
        self._thread.join()
        self._raise()

    def stop(self) -> None:
        """End after the micro-batch that is running."""
        self._stopping.set()
        spark = self._spark
        if spark is not None:
            spark.stop()
        self._thread.join()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    # -- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._resume()
            while not self._stopping.is_set():
                self._turn()
        except BaseException as error:  # noqa: BLE001  whoever watches the query looks at it
            self._error = _as_sparks(error)
        finally:
            self._busy = False
            with self._state:
                self._ended = True
                self._state.notify_all()

    def _resume(self) -> None:
        """Take up the checkpoint, and repeat a micro-batch that was begun."""
        found = read_checkpoint(self._checkpoint)
        self._seen = SeenFiles(self._checkpoint / "sources" / "0", self._folder)
        self._batch, self._offset = found.done + 1, -1
        if found.done >= 0:
            self._offset = self._offset_of(found.done)[1]
            self._seen.check(self._offset)
        if found.in_flight:
            clock, last = self._offset_of(found.begun)
            self._slice(clock, last, time.monotonic())

    def _turn(self) -> None:
        """Wait for files, and slice them."""
        with self._state:
            asked = self._asked
        due = Due.NOW if asked > self._answered else self._waiting.input(self._fresh)
        if due is not Due.NOW or self._stopping.is_set():
            return
        self._waiting.began()
        started = time.monotonic()
        self._list()
        if self._found is None:
            self._leave_to_spark(available_now=False)
        elif sum(file.size for file in self._found) > MOST_BYTES:
            self._leave_to_spark(available_now=True)
        elif self._found or self._seen.last > self._offset:
            if self._found:
                self._seen.add(self._found)
            clock = time.time_ns() // 1_000_000
            offset = json.dumps({"logOffset": self._seen.last}, separators=(",", ":"))
            begin_batch(self._checkpoint, self._batch, clock, offset)
            self._slice(clock, self._seen.last, started)
        else:
            with self._state:
                self._answered = asked
                self._state.notify_all()

    def _slice(self, clock: int, last: int, started: float) -> None:
        """The rest of a micro-batch that has begun."""
        self._busy = True
        began = time.monotonic()
        # Spark notes files that it then passes over.
        files = [file for file in self._seen.between(self._offset, last) if not is_hidden(file.name)]
        message = self._writer.write(iter([_named(files, clock)]))
        if self._stopping.is_set():
            return
        self._writer.commit([message], self._batch)
        sliced = time.monotonic()
        end_batch(self._checkpoint, self._batch)
        self._reports.append(
            {
                "batchId": self._batch,
                "timestamp": iso_millis(clock * 1000),
                "numInputRows": len(files),
                "durationMs": {
                    "addBatch": _millis(began, sliced),
                    "triggerExecution": _millis(started, time.monotonic()),
                },
                "sources": [{"startOffset": None}],
            }
        )
        self._batch, self._offset = self._batch + 1, last
        self._busy = False

    def _leave_to_spark(self, *, available_now: bool) -> None:
        """Let Spark read what is there and go on from where it stops; or let it go on for good."""
        self._busy = True
        self._spark = self._by_spark(available_now=available_now)
        with self._state:
            self._handed_over = not available_now
            self._state.notify_all()
        if self._stopping.is_set():
            self._spark.stop()
        try:
            self._spark.awaitTermination()
        finally:
            self._reports.extend(self._spark.recentProgress)
            self._spark = None
        if available_now and not self._stopping.is_set():
            self._resume()
        self._busy = False

    def _fresh(self) -> bool:
        """Whether there is something to read."""
        at, when = self._listed
        if self._changed() != at or time.monotonic() - when >= _LIST_SECONDS:
            self._list()
        return self._found is None or bool(self._found) or self._seen.last > self._offset

    def _list(self) -> None:
        self._listed = self._changed(), time.monotonic()
        self._found = [] if self._listed[0] is None else self._seen.new()

    def _changed(self) -> int | None:
        """When files last came or went; None while the folder is not there, its disk not mounted perhaps."""
        try:
            return self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def _offset_of(self, batch: int) -> tuple[int, int]:
        clock, offset = read_offset(self._checkpoint, batch)
        return clock, int(json.loads(offset)["logOffset"])


def _named(files: list[Seen], clock: int) -> pa.RecordBatch:
    """What Spark hands to a task: the names of files, each with the clock of its micro-batch."""
    clocks = pa.array([clock * 1000] * len(files), pa.int64())
    return pa.RecordBatch.from_pydict({FILE_PATH: [file.plain_path for file in files], FILE_CLOCK: clocks})


def _as_sparks(error: BaseException) -> PySparkException:
    """An error as Spark would tell of one in a task: what it is, and what it says."""
    if isinstance(error, PySparkException):
        return error
    kind = type(error)
    return PySparkException(f"{kind.__module__}.{kind.__qualname__}: {error}")


def _millis(since: float, until: float) -> int:
    return round((until - since) * 1000)
