"""The sink of every query: stores rows, once per micro-batch, and with them letters and metrics."""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from braid.core.columns import TIME
from braid.core.counters import Counters, merge
from braid.core.errors import LogError
from braid.engine import dead_letters as deadletter
from braid.engine.counters import Counted
from braid.engine.notes import Notes
from braid.engine.output_watermarks import Marks, read_marks
from braid.eventtime.arrival import by_bounds, by_median
from braid.home.buffered import write_buffered
from braid.log.log import Log
from braid.log.records import FileEntry
from braid.log.shared import fresh
from braid.log.writer import write_file
from braid.spark.slicers.arrow_files import ArrowSlicer


@dataclass(frozen=True)
class WriterConfig:
    """What a writer needs to know; travels as JSON in one option.

    Parameters
    ----------
    root
        Root of the log.
    stage
        Name of the stage that writes.
    target
        Category, or folder of the table.
    dead_letter
        Category for letters.
    first_commit
        Commit that micro-batch 0 writes: a category may hold commits of an earlier checkpoint.
    chunk_rows
        Most rows per chunk.
    metrics
        Folder for what each micro-batch has counted.
    time
        Column that a table is partitioned by.
    watermarks
        Where the watermarks of what is written come from; None if there are none.
    slicer
        What an `ArrowSlicer` does with the files whose names come instead of rows.
    copies
        Columns that are the same as another one, and are added to the rows before they are stored.
    buffered_file
        Where to say how many rows a join buffers, if that has a limit.
    home, writer, staging
        Of a lookup table: the home, the name by which the table knows the writer, and a folder for files.
    offsets
        Where Spark writes down what each micro-batch reads.
    bounded
        Whether it is declared how far the rows are out of order.
    """

    root: str
    stage: str
    target: str
    dead_letter: str
    first_commit: int
    chunk_rows: int
    metrics: str
    time: str | None = None
    watermarks: Marks | None = None
    buffered_file: str | None = None
    home: str = ""
    writer: str = ""
    staging: str = ""
    copies: dict[str, str] = field(default_factory=dict)
    slicer: dict[str, object] | None = None
    offsets: str = ""
    bounded: bool = False

    def to_json(self) -> str:
        """The configuration as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WriterConfig:
        """Read back what `to_json` gave."""
        value = json.loads(text)
        value["watermarks"] = read_marks(value["watermarks"])
        return cls(**value)


@dataclass
class Written(WriterCommitMessage):
    """What a task has stored, as JSON of its files and its letters, and what it has counted."""

    stored: list[str]
    letters: str | None
    counts: Counters


class NotedWriter(DataSourceStreamArrowWriter):
    """Stores rows, letters and counters; subclasses say where rows go."""

    def __init__(self, config: WriterConfig) -> None:
        self._config = config

    @abstractmethod
    def store(self, batches: Iterator[pa.RecordBatch]) -> str:
        """Store a task's rows where nobody sees them yet; JSON for `publish`. Runs on an executor."""

    @abstractmethod
    def publish(self, stored: Sequence[str], commit: int, counts: Counters) -> None:
        """Make a micro-batch's rows visible, once, and add to its counters. Runs on the driver."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Run one task; the message is never None, which Spark cannot stand."""
        started = time.perf_counter()
        notes = Notes()
        slicer = self._config.slicer
        parts = [iterator] if slicer is None else ArrowSlicer.from_dict(slicer).files(iterator)
        stored = [self.store(notes.strip(part)) for part in parts]
        letters = None
        if notes.letters:
            category = fresh(self._config.root, self._config.dead_letter)
            batch = deadletter.letters(self._config.stage, *notes.columns())
            letters = deadletter.write(category, batch).to_json()
        counts = merge(notes.counts)
        counts.dead = notes.reasons()
        if slicer is not None:
            counts.rows_in, counts.files_in = notes.rows, len(stored)
        counts.task_ms = [round((time.perf_counter() - started) * 1000)]
        return Written([*stored, *notes.files], letters, counts)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish a micro-batch: letters, rows, metrics. A replay finds what is there and adds nothing."""
        config = self._config
        tasks = [message for message in messages if isinstance(message, Written)]
        commit = config.first_commit + batchId
        entries = [FileEntry.from_json(task.letters) for task in tasks if task.letters]
        if entries:
            _dead_letters(config.root, config.dead_letter, config.stage).publish(commit, entries)
        counts = merge(task.counts for task in tasks)
        self.publish([text for task in tasks for text in task.stored], commit, counts)
        if config.buffered_file is not None:
            write_buffered(Path(config.buffered_file), counts.pending)
        Counted(batchId, commit, time.time(), counts).write(Path(config.metrics), config.stage)


@lru_cache(64)
def _dead_letters(root: str, category: str, stage: str) -> deadletter.DeadLetters:
    return deadletter.DeadLetters(fresh(root, category), stage)


class BlockSink(DataSource):
    """Writes to a category. Option: `config`."""

    @classmethod
    def name(cls) -> str:
        """Name for `writeStream.format`."""
        return "braid_blocks"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """The writer of one streaming query."""
        return BlockWriter(WriterConfig.from_json(self.options["config"]))


class BlockWriter(NotedWriter):
    """Stores rows as blocks of a category."""

    def store(self, batches: Iterator[pa.RecordBatch]) -> str:
        """Write one data file."""
        config = self._config
        category = fresh(config.root, config.target)
        copied = (_with_copies(batch, config.copies) for batch in batches)
        return write_file(category, config.stage, copied, config.chunk_rows).to_json()

    def publish(self, stored: Sequence[str], commit: int, counts: Counters) -> None:
        """Publish one commit; one that exists must be our own."""
        config = self._config
        entries = [FileEntry.from_json(text) for text in stored]
        category = Log(config.root).open(config.target)
        marks = self._watermarks(commit, counts)
        won = category.publish(commit, entries, marks, order=_by_time(entries, bounded=config.bounded))
        if not won and commit >= category.first:
            there = category.reader().commit(commit)
            if not all(name.startswith(f"{config.stage}-") for name in there.files):
                raise LogError(
                    f"commit {commit} was written by somebody else",
                    where=f"category {config.target}",
                    hint="a category has one writer: give this table a category of its own",
                )
        counts.rows_out = sum(entry.rows for entry in entries)
        counts.bytes_out = sum(entry.size for entry in entries)
        counts.shard_rows = _shard_rows(entries, category.shards)

    def _watermarks(self, commit: int, counts: Counters) -> dict[str, int]:
        """Below which nothing more comes, per time column."""
        config = self._config
        if config.watermarks is None:
            return {}
        batch = Path(config.offsets) / str(commit - config.first_commit)
        offset = json.loads(batch.read_text().splitlines()[-1])
        return config.watermarks.of(config.root, offset, counts)


def _with_copies(batch: pa.RecordBatch, copies: Mapping[str, str]) -> pa.RecordBatch:
    """A batch with columns that are the same as others, which the JVM therefore has not sent."""
    for name, original in copies.items():
        batch = batch.append_column(name, batch.column(original))
    return batch


def _by_time(entries: Sequence[FileEntry], *, bounded: bool) -> list[int] | None:
    """The order of chunks by their event times; None for rows that no join reads.

    Spark packs files into tasks by size, and tasks run side by side, so that within a micro-batch the order
    of arrival is lost anyway. By time, a backlog comes to the join as a stream would, not as late rows.
    """
    chunks = [chunk for entry in entries for chunk in entry.chunks]
    if not all(TIME in chunk.times for chunk in chunks):
        return None
    times = [chunk.times[TIME] for chunk in chunks]
    return by_bounds(times) if bounded else by_median(times)


def _shard_rows(entries: Sequence[FileEntry], shards: int) -> list[int]:
    rows = [0] * shards
    for entry in entries:
        for chunk in entry.chunks:
            for block in chunk.blocks:
                rows[block.shard] += block.rows
    return rows
