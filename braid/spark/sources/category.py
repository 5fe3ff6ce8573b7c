"""A source over a category of the log, streaming or once: raw JSON lines or typed columns, chunk by chunk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from braid.core.json_values import Json
from braid.core.positions import ChunkRange, Position, positions_in, ranges_of
from braid.engine.cadence import Due
from braid.engine.offsets import ReadOffset
from braid.home.control import ReadUpTo
from braid.log.reader import Reader
from braid.log.shared import reader
from braid.spark.sources.waiting import Waiting

SOURCE = "source"
"""What the one input of a slicer is called."""
COMMITS_AT_ONCE = 1000
"""Most commits that a micro-batch looks at, however small they are."""


class CategorySource(DataSource):
    """Reads a category.

    Options: `root` of the log, `category`, `max_rows` per micro-batch, `tasks` to read with; `read_file`,
    where to say how far a micro-batch reads, if its sink needs it; `cadence_file`, where the driver says how
    often to run, if it does; `internal`, whether another stage of the application writes the category. To
    read once, `start` and `end` say what, as offsets in JSON. The schema that the caller gives names the
    columns to read.
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
            self.options.get("read_file"),
            Waiting(self.options.get("cadence_file")),
            paced=self.options.get("internal") != "true",
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of what is between two offsets."""
        return CategoryReader(
            self.options["root"],
            self.options["category"],
            tuple(schema.fieldNames()),
            ReadOffset.from_json(json.loads(self.options["start"])).next,
            ReadOffset.from_json(json.loads(self.options["end"])).next,
            int(self.options["tasks"]),
        )


@dataclass
class Piece(InputPartition):
    """Chunks that one task reads, ascending."""

    ranges: list[ChunkRange]


@dataclass(frozen=True)
class Stretch:
    """Chunks from `start` up to, but not including `end`.

    Parameters
    ----------
    end
        The first chunk after them.
    limited
        Whether it ends where it does because it would be too long.
    """

    end: Position
    limited: bool


def stretch_from(
    log: Reader, start: Position, max_rows: int, last: int | None = None, commits: int | None = None
) -> Stretch:
    """What to read from `start` on: as far as the row budget goes, but at least one chunk.

    Parameters
    ----------
    log, start
        Where to begin.
    max_rows
        The budget.
    last
        The last commit to read; None for what is there.
    commits
        Most commits to look at; as many as a micro-batch does if None.
    """
    rows, following, commits = 0, start, commits or COMMITS_AT_ONCE
    records = log.poll(start.commit - 1, commits)
    for record in records:
        if last is not None and record.id > last:
            break
        for part in record.chunks[following.chunk :]:
            if rows and rows + part.rows > max_rows:
                return Stretch(Position(record.id, part.index), limited=True)
            rows += part.rows
        following = Position(record.id + 1, 0)
    return Stretch(following, limited=len(records) == commits)


def chunks_between(log: Reader, start: Position, end: Position) -> list[tuple[Position, int]]:
    """Chunks from `start` up to, but not including `end`, with their rows."""
    last = end.commit if end.chunk else end.commit - 1
    chunks = (
        (Position(number, part.index), part.rows)
        for number in range(start.commit, last + 1)
        for part in log.commit(number).chunks
    )
    return [(position, rows) for position, rows in chunks if start <= position < end]


def split(chunks: Sequence[tuple[Position, int]], tasks: int) -> list[Piece]:
    """Chunks in tasks of about equal size, in order."""
    share = max(1, -(-sum(rows for _, rows in chunks) // tasks))
    found: list[list[Position]] = []
    filled = share
    for position, rows in chunks:
        if filled >= share:
            found.append([])
            filled = 0
        found[-1].append(position)
        filled += rows
    return [Piece(ranges_of(positions)) for positions in found]


def read_piece(log: Reader, partition: InputPartition, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The chunks of a task, as they are stored."""
    assert isinstance(partition, Piece)
    for commit, chunk in positions_in(partition.ranges):
        yield log.read(commit, chunk, columns=columns)


@dataclass(frozen=True)
class CategoryReader(DataSourceReader):
    """Reads chunks of a category once, from `start` up to, but not including `end`."""

    root: str
    category: str
    columns: tuple[str, ...]
    start: Position
    end: Position
    tasks: int

    def partitions(self) -> Sequence[InputPartition]:
        """Tasks of about equal size."""
        return split(chunks_between(reader(self.root, self.category), self.start, self.end), self.tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The chunks of a task, as they are stored."""
        return read_piece(reader(self.root, self.category), partition, self.columns)


class CategoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are those of `braid.engine.offsets.ReadOffset`."""

    def __init__(
        self,
        root: str,
        category: str,
        columns: tuple[str, ...],
        max_rows: int,
        tasks: int,
        read_file: str | None = None,
        waiting: Waiting | None = None,
        *,
        paced: bool = True,
    ) -> None:
        self._root = root
        self._category = category
        self._columns = columns
        self._max_rows = max_rows
        self._tasks = tasks
        self._read_file = read_file
        self._waiting = waiting or Waiting(None)
        self._paced = paced
        self._limited = False
        self._end: int | None = None

    def initialOffset(self) -> dict[str, Json]:  # noqa: N802
        """The oldest chunk that is left."""
        return ReadOffset(Position(self._reader().first, 0)).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no further than what is there now."""
        self._end = self._reader().latest()

    def latestOffset(self, start: dict[str, Json], limit: ReadLimit) -> dict[str, Json]:  # noqa: N802
        """As far as the row budget goes, but at least one chunk; `start` itself if there is nothing new."""
        before = ReadOffset.from_json(start).next
        if self._wait(before) is Due.LATER:
            return start
        found = stretch_from(self._reader(), before, self._max_rows, self._end)
        self._limited = found.limited
        if found.end == before:
            return start
        self._waiting.began()
        return ReadOffset(found.end).to_json()

    def _wait(self, start: Position) -> Due:
        """Wait until it is time to read, unless the last micro-batch has left something."""
        if self._limited:
            return Due.NOW

        def fresh() -> bool:
            return self._reader().grown(start.commit - 1)

        return self._waiting.input(fresh) if self._paced else self._waiting.operator(lambda: [fresh()])

    def partitions(self, start: dict[str, Json], end: dict[str, Json]) -> Sequence[InputPartition]:
        """Split the chunks between two offsets into tasks of about equal size, in order."""
        following = ReadOffset.from_json(end).next
        chunks = chunks_between(self._reader(), ReadOffset.from_json(start).next, following)
        if self._read_file is not None:
            total = sum(rows for _, rows in chunks)
            told = ReadUpTo(offset=end, following={SOURCE: following}, rows=total)
            told.write(Path(self._read_file), durable=False)
        return split(chunks, self._tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The chunks of a task, as they are stored."""
        return read_piece(self._reader(), partition, self._columns)

    def _reader(self) -> Reader:
        return reader(self._root, self._category)
