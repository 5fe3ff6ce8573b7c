"""The dead-letter category: what could not be used, why, and where; each record once."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from braid.core.times import now_micros
from braid.log.category import Category
from braid.log.log import Log
from braid.log.records import FileEntry, Origin
from braid.log.writer import write_file

SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        ("stage", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("raw", pa.string()),
    ]
)


def create(log: Log, category: str) -> Category:
    """The category, made on first use."""
    return log.create(category, SCHEMA, shards=1, time_columns=("time",))


def letters(stage: str, reasons: pa.Array, details: pa.Array, raw: pa.Array) -> pa.RecordBatch:
    """A batch of dead letters, dated now."""
    size = len(reasons)
    now = pa.scalar(now_micros(), pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays(
        [pa.repeat(now, size), pa.repeat(pa.scalar(stage), size), reasons, details, raw], schema=SCHEMA
    )


def write(category: Category, batch: pa.RecordBatch) -> FileEntry:
    """Write letters to a file of their own, which `DeadLetters.publish` will make part of the log."""
    return write_file(category, "letters", [batch])


class DeadLetters:
    """Publishes the letters of one stage, once per micro-batch.

    Many stages write to one category, so commits cannot be numbered by a stage's micro-batches. Instead the
    origin of each commit is who writes and the number of the stage's own commit, by which a replay is known.
    """

    def __init__(self, category: Category, writer: str) -> None:
        self._category = category
        self._reader = category.reader()
        self._writer = writer
        self._seen = category.first - 1
        self._last = -1

    def publish(self, number: int, entries: Sequence[FileEntry]) -> bool:
        """Append the letters that belong to a stage's commit; False if they are there already."""
        if not any(entry.rows for entry in entries):
            return False
        while True:
            latest = self._catch_up()
            if number <= self._last:
                return False
            if self._category.publish(latest + 1, entries, origin=Origin(self._writer, number)):
                return True

    def _catch_up(self) -> int:
        latest = self._category.latest()
        for number in range(max(self._seen + 1, self._category.first), latest + 1):
            origin = self._reader.commit(number).origin
            if origin is not None and origin.writer == self._writer:
                self._last = max(self._last, origin.number)
        self._seen = latest
        return latest
