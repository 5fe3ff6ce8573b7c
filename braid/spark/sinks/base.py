"""What all sinks do: store rows, once per micro-batch, and with them letters and counters."""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Generic, Self, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from braid.core.counters import Counters, merge
from braid.core.errors import RunError
from braid.engine import dead_letters
from braid.engine.notes import Notes
from braid.engine.offsets import OperatorOffset
from braid.engine.savepoints import SavedShard, Savepoint
from braid.home.buffered import write_buffered
from braid.home.control import ReadUpTo
from braid.home.counted import Counted
from braid.home.lease import check_lease
from braid.log.records import FileEntry
from braid.log.shared import fresh


@dataclass(frozen=True, kw_only=True)
class SinkConfig:
    """What every sink needs to know; travels as JSON in one option.

    Parameters
    ----------
    root
        Root of the log.
    stage
        Name of the stage that writes.
    dead_letter
        Category for letters.
    lease_file, lease
        Where it says who may write, and who the driver is; None if nobody else can.
    first_commit
        Commit that micro-batch 0 writes: a target may hold commits of an earlier checkpoint.
    first_batch
        What Spark calls micro-batch 0: there may be earlier generations.
    metrics
        Folder for what each micro-batch has counted.
    savepoints
        Folder for savepoints; None if the stage has no state.
    read_file
        Where the source says how far the micro-batch reads, and how many rows that are; None if Spark's own
        sources are read.
    published_file
        Where to say up to where what was read is published, if others want to know.
    letter_writer
        By what name its letters are known; None is that of the stage. See `SinkStart`.
    buffered_file
        Where to say how many rows an operator buffers, if others want to know.
    lists
        Faults of records that the stage lists, as reasons with a detail or None for any; None lists all.
    """

    root: str
    stage: str
    dead_letter: str
    first_commit: int
    metrics: str
    lease_file: str | None = None
    lease: str = ""
    first_batch: int = 0
    savepoints: str | None = None
    read_file: str | None = None
    published_file: str | None = None
    letter_writer: str | None = None
    buffered_file: str | None = None
    lists: list[tuple[str, str | None]] | None = None

    def to_json(self) -> str:
        """The configuration as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read back what `to_json` gave."""
        return cls(**json.loads(text))


Config = TypeVar("Config", bound=SinkConfig)


@dataclass
class Written(WriterCommitMessage):
    """What a task has stored, as JSON of its files and its letters, has counted, and was handed of states."""

    stored: list[str]
    letters: str | None
    counts: Counters
    states: list[str]


class NotedWriter(DataSourceStreamArrowWriter, Generic[Config]):
    """Stores rows, letters and counters; subclasses say where rows go."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @abstractmethod
    def store(self, batches: Iterator[pa.RecordBatch]) -> str:
        """Store a task's rows where nobody sees them yet; JSON for `publish`. Runs on an executor."""

    @abstractmethod
    def publish(self, stored: Sequence[str], commit: int, counts: Counters) -> None:
        """Make a micro-batch's rows visible, once, and add to its counters. Runs on the driver."""

    def parts(self, batches: Iterator[pa.RecordBatch]) -> Iterable[Iterator[pa.RecordBatch]]:
        """The rows of a task, in parts that are stored apart."""
        return [batches]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Run one task; the message is never None, which Spark cannot stand."""
        started = time.perf_counter()
        notes = Notes(self._config.lists)
        stored = [self.store(notes.strip(part)) for part in self.parts(iterator)]
        letters = None
        if notes.letters:
            category = fresh(self._config.root, self._config.dead_letter)
            batch = dead_letters.letters(self._config.stage, *notes.columns())
            letters = dead_letters.write(category, batch).to_json()
        counts = merge(notes.counts)
        counts.dead = notes.reasons()
        counts.refused = notes.dropped
        if counts.files_in:
            # Who read the files has counted, in a row per file; a filter may have left rows out since.
            counts.filtered = counts.rows_in - (notes.rows - counts.files_in)
        else:
            counts.rows_in = notes.rows
        counts.task_ms = [round((time.perf_counter() - started) * 1000)]
        return Written([*stored, *notes.files], letters, counts, notes.states)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish a micro-batch: letters, rows, metrics. A replay finds what is there and adds nothing."""
        config = self._config
        if config.lease_file is not None:
            check_lease(Path(config.lease_file), config.lease)
        tasks = [message for message in messages if isinstance(message, Written)]
        batch = config.first_batch + batchId
        commit = config.first_commit + batch
        self._save([SavedShard.from_json(text) for task in tasks for text in task.states], batch)
        entries = [FileEntry.from_json(task.letters) for task in tasks if task.letters]
        if entries:
            writer = config.letter_writer or config.stage
            _dead_letters(config.root, config.dead_letter, writer).publish(commit, entries)
        counts = merge(task.counts for task in tasks)
        self._count_read(counts)
        self.publish([text for task in tasks for text in task.stored], commit, counts)
        if config.published_file is not None:
            self.read_up_to().write(Path(config.published_file), durable=False)
        if config.buffered_file is not None:
            write_buffered(Path(config.buffered_file), counts.pending)
        Counted(batch, commit, time.time(), counts).write(Path(config.metrics), config.stage)

    def _save(self, shards: Sequence[SavedShard], batch: int) -> None:
        """Write the savepoint that shards have handed their states over for, if they have."""
        if not shards:
            return
        config, offset = self._config, OperatorOffset.from_json(self.read_up_to().offset)
        assert config.savepoints is not None
        saved = Savepoint.of(config.stage, batch, offset, shards)
        saved.write(Path(config.savepoints) / saved.name)

    def read_up_to(self) -> ReadUpTo:
        """What the source has said of this micro-batch."""
        path = self._config.read_file
        read = None if path is None else ReadUpTo.read(Path(path))
        if read is None:
            raise RunError(
                "the source has not said how far this micro-batch reads",
                where=path,
                hint="start the application again: the micro-batch is then repeated",
            )
        return read

    def _count_read(self, counts: Counters) -> None:
        """Rows that were read, of which those that a filter leaves out have not come here."""
        if counts.inputs:
            # What comes to the sink of an operator are results, and notes on rows of their own.
            counts.rows_in, counts.refused = sum(one.rows for one in counts.inputs.values()), 0
        elif self._config.read_file is not None:
            read = self.read_up_to().rows
            if read is not None:
                counts.rows_in, counts.filtered = read, read - counts.rows_in


@lru_cache(64)
def _dead_letters(root: str, category: str, writer: str) -> dead_letters.DeadLetters:
    return dead_letters.DeadLetters(fresh(root, category), writer)
