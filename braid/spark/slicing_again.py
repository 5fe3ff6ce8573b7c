"""Slicing again what a slicer has read, by another plan: an update has changed what its blocks must hold.

What was written down when, and how one goes on that was killed, is in `braid.engine.slicing_again`. Here is
what Spark does: read what was read, slice it as the streaming slicer would, and write data files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from braid.core.columns import TIME
from braid.core.counters import Counters
from braid.core.errors import BraidError, RunError
from braid.core.owner import Owner
from braid.engine.offsets import ReadOffset
from braid.engine.ownership import claim
from braid.engine.slicing_again import Outcome, Part, Progress, ReadBefore, SlicingAgain, outcome_of
from braid.home.sliced_again import SlicedPart
from braid.log.category import Category
from braid.log.records import FileEntry
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.physical.targets import CategoryTarget, target_of
from braid.spark.checkpoints import read_checkpoint
from braid.spark.failures import explained
from braid.spark.launcher import Launcher, slicer_watermarks, stored_schema
from braid.spark.processes.session import activated
from braid.spark.sinks.base import SinkConfig, Written
from braid.spark.sinks.blocks import BlocksConfig, BlockWriter
from braid.spark.slicers.lookups import check_tables
from braid.spark.sources.inputs import Inputs
from braid.spark.sources.read_before import read_before

_STORED = "stored string"
"""What tasks hand over: entries of data files, as JSON."""


def slice_again(
    launcher: Launcher,
    stage: SlicerStage,
    update: str,
    *,
    since: int | None = None,
    progress: Callable[[Progress], None] = lambda now: None,
) -> Outcome:
    """Slice again, by the launcher's plan, what a slicer has read; put that in place of what it has written.

    The slicer then goes on with its checkpoint, behind the new commits. No query of the application may run,
    and the application's lock must be held. Whoever is killed calls it again with the same arguments; a call
    for an update that is over returns what it came to. Until it returns, no query may be started that reads
    or writes the category.

    Parameters
    ----------
    launcher
        Of the new plan, prepared.
    stage
        The slicer in the new plan; its sink is an input of a stateful stage.
    update
        A name of the update.
    since
        Rows with an earlier event time, in microseconds, are left out, and those without one.
    progress
        Is told after every part.
    """
    over = outcome_of(launcher.home, stage.name, update)
    if over is not None:
        return over
    target = target_of(launcher.plan.application, stage, launcher.options)
    assert isinstance(target, CategoryTarget)
    checkpoint = read_checkpoint(launcher.home.checkpoint(stage.name))
    if checkpoint.in_flight:
        raise RunError(
            f"stage {stage.name!r} has begun a micro-batch that is not done",
            where=str(checkpoint.folder),
            hint="let the program that ran last end it: start that one, and stop it",
        )
    check_tables(launcher.home.home, launcher.plan, stage)
    claim(launcher.home.home, target, Owner(launcher.plan.application, stage.name))
    with activated(launcher.session):
        slices = _Slices(launcher, stage, target, since)
        settings = slices.draft.settings
        again = SlicingAgain(
            launcher.home,
            stage.name,
            update,
            checkpoint.done,
            slices.category(),
            settings,
            target.order,
            since,
        )
        source = read_before(stage.source, checkpoint, launcher.log, launcher.options.batch_rows)
        try:
            return again.run(source, lambda part: slices.store(source, part), progress)
        except PySparkException as error:
            raise explained(stage.name, error) from error


@dataclass(frozen=True)
class _Slices:
    """Slices parts of a source as jobs of Spark.

    Parameters
    ----------
    launcher, stage, target, since
        See `slice_again`.
    tables
        Folders of Parquet files that have been looked at.
    """

    launcher: Launcher
    stage: SlicerStage
    target: CategoryTarget
    since: int | None
    tables: dict[str, DataFrame] = field(default_factory=dict)

    @cached_property
    def draft(self) -> Category:
        """The category as it is to be. For its columns the plan is tried, as it will be when it runs."""
        schemas: list[StructType] = []

        def sink(schema: StructType) -> SinkConfig:
            schemas.append(schema)
            return self._config()

        self.launcher.sliced(self.stage, self._inputs(None), sink)
        columns, target = stored_schema(schemas[0]), self.target
        return self.launcher.log.draft(
            target.name, columns, shards=target.shards, time_columns=target.time_columns
        )

    def category(self) -> Category:
        """The category as it is; a new one is made as it is to be."""
        log, draft = self.launcher.log, self.draft
        if not log.has(draft.name):
            owner = Owner(self.launcher.plan.application, self.stage.name)
            times = draft.time_columns
            log.create(draft.name, draft.schema, shards=draft.shards, time_columns=times, owner=owner)
        return log.open(draft.name)

    def store(self, source: ReadBefore, part: Part) -> SlicedPart:
        """Slice a part of a source, and write its rows; less of it if some goes meanwhile."""
        while True:
            try:
                files = self._write(part) if part.is_left else []
                break
            except (PySparkException, BraidError):
                now = source.part(part.start, part.end)
                if now == part:
                    raise
                part = now
        rows = sum(FileEntry.from_json(text).rows for text in files)
        marks = slicer_watermarks(self.stage)
        root, offset = self.launcher.home.home.log_root, ReadOffset(part.end).to_json()
        return SlicedPart(
            start=part.start,
            end=part.end,
            rows=rows,
            gone=part.gone,
            files=tuple(files),
            watermarks={} if marks is None else marks.of(root, offset, Counters()),
        )

    def _write(self, part: Part) -> list[str]:
        """Entries of the data files of a part, as JSON."""
        frame, config = self.launcher.sliced(self.stage, self._inputs(part), lambda schema: self._config())
        # What is wrong with records has been listed when they were first read.
        task = _Task(replace(config, lists=[]).to_json(), self.draft, self.since)
        found = [row.stored for row in frame.mapInArrow(task, _STORED).collect()]
        return [text for text in found if FileEntry.from_json(text).file is not None]

    def _inputs(self, part: Part | None) -> Inputs:
        root, rows = self.launcher.home.home.log_root, self.launcher.options.batch_rows
        return Inputs(self.launcher.session, root, rows, tables=self.tables, part=part)

    def _config(self) -> BlocksConfig:
        """How rows are stored. Nothing is published by it, and no letters are written."""
        return BlocksConfig(
            root=self.launcher.home.home.log_root,
            stage=self.stage.name,
            dead_letter=self.launcher.home.dead_letter,
            first_commit=0,
            metrics="",
            category=self.target.name,
            chunk_rows=self.launcher.options.chunk_rows,
        )


@dataclass(frozen=True)
class _Task:
    """What a worker does, for `mapInArrow`: writes rows as the sink of the slicer would."""

    config: str
    category: Category
    since: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = _Writer(BlocksConfig.from_json(self.config), self.category, self.since)
        written = writer.write(batches)
        assert isinstance(written, Written)
        yield pa.RecordBatch.from_pydict({"stored": pa.array(written.stored, pa.string())})


class _Writer(BlockWriter):
    """Stores rows as blocks that a category will have, if their event time is late enough."""

    def __init__(self, config: BlocksConfig, category: Category, since: int | None) -> None:
        super().__init__(config)
        self._category = category
        self._since = since

    def store(self, batches: Iterator[pa.RecordBatch]) -> str:
        """Write one data file."""
        since = self._since
        if since is None:
            return super().store(batches)
        # NULL is not late enough either.
        return super().store(batch.filter(pc.greater_equal(batch.column(TIME), since)) for batch in batches)

    def category(self) -> Category:
        """The category as it will be."""
        return self._category
