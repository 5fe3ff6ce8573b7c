"""A streaming source over a category of the log: raw JSON lines or typed columns, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from braid.log.reader import Reader
from braid.log.records import Commit
from braid.log.shared import reader

COMMITS_AT_ONCE = 1000
"""Most commits that a micro-batch looks at, however small they are."""

Offset = dict[str, int]


class CategorySource(DataSource):
    """Reads a category.

    Options: `root` of the log, `category`, `max_rows` per micro-batch, `tasks` to read with. The schema that
    the caller gives names the columns to read.
    """

    @classmethod
    def name(cls) -> str:
        """Name for `spark.readStream.format`."""
        return "braid_category"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The reader of one streaming query."""
        return CategoryStreamReader(
            self.options["root"],
            self.options["category"],
            tuple(schema.fieldNames()),
            int(self.options["max_rows"]),
            int(self.options["tasks"]),
        )


@dataclass
class Piece(InputPartition):
    """Chunks that one task reads: `(commit, first chunk, last chunk)`, ascending."""

    ranges: list[tuple[int, int, int]]


class CategoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are the next chunk to read: `{"commit": c, "chunk": k}`."""

    def __init__(self, root: str, category: str, columns: tuple[str, ...], max_rows: int, tasks: int) -> None:
        self._root = root
        self._category = category
        self._columns = columns
        self._max_rows = max_rows
        self._tasks = tasks
        self._end: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """The oldest chunk that is left."""
        return {"commit": self._reader().first, "chunk": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no further than what is there now."""
        self._end = self._reader().latest()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """As far as the row budget goes, but at least one chunk."""
        log = self._reader()
        commit, chunk, rows = start["commit"], start["chunk"], 0
        for record in log.poll(commit - 1, COMMITS_AT_ONCE):
            if self._end is not None and record.id > self._end:
                break
            for part in record.chunks[chunk:]:
                if rows and rows + part.rows > self._max_rows:
                    return {"commit": record.id, "chunk": part.index}
                rows += part.rows
            commit, chunk = record.id + 1, 0
        return {"commit": commit, "chunk": chunk}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Split the chunks between two offsets into tasks of about equal size, in order."""
        log = self._reader()
        pieces = [
            (record.id, part.index, part.rows)
            for record in _between(log, start, end)
            for part in record.chunks[
                start["chunk"] if record.id == start["commit"] else 0 : end["chunk"]
                if record.id == end["commit"]
                else None
            ]
        ]
        share = max(1, -(-sum(rows for _, _, rows in pieces) // self._tasks))
        tasks: list[list[tuple[int, int, int]]] = []
        filled = share
        for commit, chunk, rows in pieces:
            if filled >= share:
                tasks.append([])
                filled = 0
            ranges = tasks[-1]
            if ranges and ranges[-1][0] == commit:
                ranges[-1] = (commit, ranges[-1][1], chunk)
            else:
                ranges.append((commit, chunk, chunk))
            filled += rows
        return [Piece(ranges) for ranges in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The chunks of a task, as they are stored."""
        assert isinstance(partition, Piece)
        log = reader(self._root, self._category)
        for commit, low, high in partition.ranges:
            for chunk in range(low, high + 1):
                yield log.read(commit, chunk, columns=self._columns)

    def _reader(self) -> Reader:
        return reader(self._root, self._category)


def _between(log: Reader, start: Offset, end: Offset) -> Iterator[Commit]:
    """The commits from `start` up to `end`, which is counted in only if some of its chunks are."""
    last = end["commit"] if end["chunk"] else end["commit"] - 1
    return (log.commit(number) for number in range(start["commit"], last + 1))
