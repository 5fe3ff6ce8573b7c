"""From stages to streaming queries: frames, sinks, checkpoints and pools of one application."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypedDict

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StringType, StructField, StructType

from braid.core.columns import NOTE
from braid.core.config import AppConfig
from braid.core.connectors import SourceKind
from braid.core.errors import ConfigError
from braid.core.owner import Owner
from braid.core.times import SECOND
from braid.engine import dead_letters
from braid.engine.admission import AdmissionConfig
from braid.engine.expressions import compile_columns
from braid.engine.notes import MISSING_FIELD
from braid.engine.output_watermarks import OperatorWatermarks, OutputWatermarks, SlicerWatermarks
from braid.engine.ownership import claim
from braid.engine.stepper import OperatorConfig
from braid.eventtime.validity import INVALID_TIME
from braid.home.control import Generation
from braid.home.paths import AppHome
from braid.log.log import Log
from braid.plan.dependencies import writers
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.physical.layout import Layout, layout
from braid.plan.physical.operation import Facts
from braid.plan.physical.slicing import Listed, may_read_whole_files
from braid.plan.physical.stepping import Stepping
from braid.plan.physical.targets import (
    CategoryTarget,
    LookupTarget,
    TableTarget,
    Target,
    category_of,
    relay_name,
    target_of,
)
from braid.plan.stages.base import Plan, Stage
from braid.spark.blobs import BLOBS, decode
from braid.spark.driver_slicer import DriverSlicer, is_plain_folder
from braid.spark.operators.processor import StepProcessor
from braid.spark.operators.state_keys import state_keys
from braid.spark.placement import Register, executors
from braid.spark.processes.session import activated, cloned, interpreted, is_local
from braid.spark.queries import Query
from braid.spark.resuming import Resuming, writer_name
from braid.spark.schemas import arrow_schema, spark_schema
from braid.spark.sinks.base import SinkConfig
from braid.spark.sinks.blocks import BlocksConfig, BlockSink
from braid.spark.sinks.lookup_table import LookupConfig, LookupTableSink, create_table
from braid.spark.sinks.relay import relay
from braid.spark.sinks.table import TableConfig, TableSink
from braid.spark.slicers.arrow_files import ArrowSlicer
from braid.spark.slicers.catalyst import slice_rows
from braid.spark.slicers.lookups import check_tables
from braid.spark.slicers.post_join import direct, slice_results
from braid.spark.sources.category import CategorySource
from braid.spark.sources.inputs import Inputs
from braid.spark.sources.steps import Fed, StepSource, StepSourceConfig

_SINKS: dict[type[Target], type[DataSource]] = {
    CategoryTarget: BlockSink,
    TableTarget: TableSink,
    LookupTarget: LookupTableSink,
}
LONGEST_INTERVAL = 10 * SECOND
"""Between micro-batches over inputs that Spark reads itself, whatever the objective is."""
_environment = threading.Lock()
"""Applications of one process share the environment that workers get."""


class _Common(TypedDict):
    """What the configurations of all sinks have in common."""

    root: str
    stage: str
    dead_letter: str
    lease_file: str
    lease: str
    first_commit: int
    letter_writer: str | None
    metrics: str
    first_batch: int
    savepoints: str | None
    read_file: str | None
    published_file: str | None
    buffered_file: str | None


@dataclass(frozen=True)
class Launcher:
    """Starts the stages of a plan as streaming queries.

    Parameters
    ----------
    session
        A session made by `open_session`.
    home
        The application's folder.
    plan
        What to run.
    options
        The application's options.
    lease
        Who this process is for the application's lease.
    cadence_file
        Where sources learn how often to run; None if they are not to wait.
    built
        Stages that are ready to start.
    """

    session: SparkSession
    home: AppHome
    plan: Plan
    options: AppConfig
    lease: str
    cadence_file: str | None = None
    built: dict[str, tuple[DataFrame, SinkConfig]] = field(default_factory=dict)

    @property
    def log(self) -> Log:
        """The log."""
        return self.home.home.log()

    @cached_property
    def interpreted(self) -> SparkSession:
        """The session of queries whose rows do not pass through Java."""
        return interpreted(self.session)

    def prepare(self) -> None:
        """Register sources and sinks, and make the category of dead letters."""
        for session in (self.session, self.interpreted):
            for source in (CategorySource, StepSource, BlockSink, TableSink, LookupTableSink):
                session.dataSource.register(source)
            if self.cadence_file is not None:
                # Sources wait before they say that there is nothing; Spark need not wait as well.
                session.conf.set("spark.sql.streaming.pollingDelay", "10ms")
        dead_letters.create(self.log, self.home.dead_letter)

    def start(self, stage: Stage, *, available_now: bool = False) -> Query:
        """Start a stage; with `available_now` it ends by itself once it has read what is there."""
        frame, config = self.built.pop(stage.name) if stage.name in self.built else self._built(stage)
        if not available_now and self._is_for_driver(stage, config):
            assert isinstance(config, BlocksConfig)
            assert isinstance(stage, SlicerStage)
            assert self.cadence_file is not None
            by_spark = partial(self._start, stage, frame, config)
            checkpoint = self.home.checkpoint(stage.name)
            return DriverSlicer(stage.source.name, checkpoint, config, self.cadence_file, by_spark)
        return self._start(stage, frame, config, available_now=available_now)

    def build(self, stage: Stage) -> None:
        """Make a stage ready to start, with its category, which those that read it need."""
        self.built[stage.name] = self._built(stage)

    def _built(self, stage: Stage) -> tuple[DataFrame, SinkConfig]:
        check_tables(self.home.home, self.plan, stage)
        with activated(self.session):
            return self._slice(stage) if isinstance(stage, SlicerStage) else self._operate(stage)

    def _start(
        self, stage: Stage, frame: DataFrame, config: SinkConfig, *, available_now: bool
    ) -> StreamingQuery:
        target = self._target(stage)
        with activated(frame.sparkSession):
            if isinstance(target, LookupTarget):
                frame = frame.select(*(f"`{name}`" for name in (*target.columns, NOTE)))
            writer = frame.writeStream.format(_SINKS[type(target)].name()).option("config", config.to_json())
            return self._run(writer, stage.name, None if available_now else self._interval(stage))

    def _is_for_driver(self, stage: Stage, config: SinkConfig) -> bool:
        """Whether the driver itself slices what comes, unless that is much."""
        return (
            self.cadence_file is not None
            and isinstance(stage, SlicerStage)
            and isinstance(config, BlocksConfig)
            and config.slicer is not None
            and not stage.source.options
            and is_plain_folder(stage.source.name)
            and is_local(str(self.session.sparkContext.master))
        )

    def relayed(self, stage: Stage) -> bool:
        """Whether a stage's sink has no commits, so that its rows are relayed from a category."""
        return stage.sink.kind.connector.relayed

    def relay(self, stage: Stage, show: Callable[[str], None]) -> StreamingQuery:
        """Start what passes a stage's rows on to its sink."""
        with activated(self.session):
            category = self.log.open(category_of(self.plan.application, stage))
            inputs = Inputs(
                self.session,
                self.home.home.log_root,
                self.options.batch_rows,
                cadence_file=self.cadence_file,
            )
            frame = inputs.category(category, category.schema.names, internal=True)
            return self._run(relay(frame, stage.sink, show), relay_name(stage), self.options.trigger)

    def _interval(self, stage: Stage) -> int:
        """Least microseconds between micro-batches of a stage, as far as its source does not decide that."""
        decides = not isinstance(stage, SlicerStage) or stage.source.kind is SourceKind.SCRIBE
        if self.cadence_file is None or decides:
            return self.options.trigger
        # Spark's own sources do not wait, and cannot learn how long what follows takes. Nor do they go on at
        # once where a micro-batch has left something: an interval bounds what they read in a given time.
        return min(LONGEST_INTERVAL, max(self.options.latency // 2, self.options.latency - SECOND))

    def _run(self, writer: DataStreamWriter, name: str, interval: int | None) -> StreamingQuery:
        """Start a query; without an interval it ends by itself once it has read what is there."""
        writer = writer.queryName(f"{self.plan.application}.{name}")
        writer = writer.option("checkpointLocation", str(self.home.checkpoint(name)))
        if interval is None:
            writer = writer.trigger(availableNow=True)
        elif interval:
            writer = writer.trigger(processingTime=f"{interval} microseconds")
        # Every query has a pool of its own, so that a long micro-batch of one does not hold up the others.
        context = self.session.sparkContext
        context.setLocalProperty("spark.scheduler.pool", f"{self.plan.application}.{name}")
        try:
            return writer.start()
        finally:
            context.setLocalProperty("spark.scheduler.pool", "default")

    # -- frames -----------------------------------------------------------------------------------

    def _slice(self, stage: SlicerStage) -> tuple[DataFrame, SinkConfig]:
        inputs = Inputs(
            self.session,
            self.home.home.log_root,
            self.options.batch_rows,
            self._read_file(stage),
            self.cadence_file,
        )
        return self.sliced(stage, inputs, lambda schema: self._sink(stage, schema, slicer_watermarks(stage)))

    def sliced(
        self, stage: SlicerStage, inputs: Inputs, sink: Callable[[StructType], SinkConfig]
    ) -> tuple[DataFrame, SinkConfig]:
        """What a slicer makes of its inputs: rows or names of files, and how its sink stores them.

        Parameters
        ----------
        stage, inputs
            The slicer, and what it reads.
        sink
            How its sink stores rows with a schema.
        """
        plan = stage.operation(self.plan, self.options, Facts())
        frame = slice_rows(stage, inputs, plan.required, self.options, str(self.home.home.root))
        config = sink(frame.schema)
        slicer = self._arrow_slicer(stage, inputs, config, stored_schema(frame.schema))
        plan = stage.operation(self.plan, self.options, Facts(expressible=slicer is not None))
        config = replace(config, lists=None if plan.lists is None else _faults(plan.lists))
        if isinstance(config, BlocksConfig):
            how = None if slicer is None else slicer.to_dict()
            config = replace(config, slicer=how, copies=dict(plan.copies))
        if slicer is not None:
            return replace(inputs, session=self.interpreted).paths(stage.source), config
        return frame.drop(*dict(plan.copies)), config

    def _arrow_slicer(
        self, stage: SlicerStage, inputs: Inputs, config: SinkConfig, target: pa.Schema
    ) -> ArrowSlicer | None:
        """What slices whole files, if their types allow it."""
        if not isinstance(config, BlocksConfig) or not may_read_whole_files(stage):
            return None
        stored = inputs.parquet_schema(stage.source)
        return None if stored is None else ArrowSlicer.plan(stage, stored, target, self.options.max_future)

    def _operate(self, stage: Stage) -> tuple[DataFrame, SinkConfig]:
        home, facts = str(self.home.home.root), self._facts(stage)
        plan = self._stepping(stage, facts)
        emitted = plan.operator.output_schema(
            {name: self.log.open(one).schema for name, one in stage.reads().items()}
        )
        schema = StructType([*spark_schema(emitted).fields, StructField(NOTE, StringType())])
        stored = slice_results(stage, self.session.createDataFrame([], schema), home).schema
        sink = self._sink(stage, stored, _watermarks(stage, plan), self._buffered_file(stage, plan))
        plan = self._stepping(stage, replace(facts, expressible=self._expressible(stage, emitted, sink)))
        config = OperatorConfig(
            self.home.home.log_root,
            stage.reads(),
            plan.operator,
            plan.layout.ranges,
            uuid.uuid4().hex,
            direct(stage, category_of(self.plan.application, stage), self.options.chunk_rows)
            if plan.direct
            else None,
            self._savepoint(stage),
        )
        results = self._steps(stage, plan, config)
        if isinstance(sink, BlocksConfig) and plan.direct:
            return results, replace(sink, encoded=True)
        return slice_results(stage, results.mapInArrow(decode, schema), home), sink

    def _steps(self, stage: Stage, plan: Stepping, config: OperatorConfig) -> DataFrame:
        """What the shards of an operator emit, step by step."""
        source = self._step_source(stage, plan).to_json()
        # A query takes the settings of its session when it starts, and those of other stages may be others.
        session = cloned(self.interpreted if plan.direct else self.session)
        session.conf.set("spark.sql.shuffle.partitions", plan.layout.partitions)
        references = session.readStream.format(StepSource.name()).option("config", source).load()
        if plan.layout.partitions == 1:
            # One task has all references: they need no shuffle, and the micro-batch one stage less.
            references = references.coalesce(1)
        # Workers are pooled by their environment: one of its own keeps a stage's cache where its shards are.
        # It is replaced, never changed: other threads may be handing it to the JVM at this moment.
        context = self.session.sparkContext
        with _environment:
            shared = context.environment
            context.environment = {**shared, "BRAID_STAGE": f"{self.plan.application}.{stage.name}"}
            try:
                return references.groupBy("slot").transformWithStateInPandas(
                    StepProcessor(config), BLOBS, "Append", "None"
                )
            finally:
                context.environment = shared

    def _step_source(self, stage: Stage, plan: Stepping) -> StepSourceConfig:
        admission = AdmissionConfig(
            stage.reads(),
            plan.upper,
            self.options,
            plan.propagated,
            dict(plan.disorder),
            plan.rescued,
            plan.pad_after,
        )
        return StepSourceConfig(
            root=self.home.home.log_root,
            admission=admission,
            state_keys=state_keys(plan.layout.shards, plan.layout.partitions),
            drain_file=str(self.home.control_file(stage.name, "drain")),
            status_file=str(self.home.control_file(stage.name, "pacing")),
            read_file=self._read_file(stage),
            fed=self._fed(stage),
            held_files={
                name: tuple(str(self.home.control_file(holder, "buffered")) for holder in holders)
                for name, holders in plan.held_by.items()
            },
            buffered_file=self._buffered_file(stage, plan),
            cadence_file=self.cadence_file,
            seal_file=str(self.home.control_file(stage.name, "seal")),
            savepoint=self._savepoint(stage),
        )

    def _fed(self, stage: Stage) -> dict[str, Fed]:
        """What the inputs of a stage are sliced from, of those that are sliced from categories."""
        found = {}
        for name, slicer in writers(self.plan, stage).items():
            published, read = self._published_file(slicer), self._read_file(slicer)
            if published is not None and read is not None:
                ((category, _),) = slicer.categories().values()
                found[name] = Fed(category, published, read)
        return found

    def _savepoint(self, stage: Stage) -> str | None:
        """What the generation of a stage has begun from."""
        found = self.home.generation(stage.name)
        return (
            None if found is None or found.savepoint is None else str(self.home.savepoints / found.savepoint)
        )

    def _buffered_file(self, stage: Stage, plan: Stepping) -> str | None:
        return str(self.home.control_file(stage.name, "buffered")) if plan.tells_buffered else None

    def _expressible(self, stage: Stage, emitted: pa.Schema, sink: SinkConfig) -> bool:
        """Whether Arrow can compute what is stored of what an operator emits."""
        if not isinstance(sink, BlocksConfig):
            return False
        return compile_columns(stage.columns, emitted, self.log.open(sink.category).schema) is not None

    def _stepping(self, stage: Stage, facts: Facts, options: AppConfig | None = None) -> Stepping:
        operation = stage.operation(self.plan, options or self.options, facts)
        if not isinstance(operation, Stepping):
            raise ConfigError(f"Spark cannot run stage {stage.name!r}, a {stage.kind}")
        return operation

    def _facts(self, stage: Stage) -> Facts:
        """What an operator's plan depends on: its layout is that of its generation, as its state is.

        Blocks may be sharded otherwise: it reads ranges of hashes, whatever they were cut by.
        """
        stored = self._resuming.generation(stage)
        if stored is not None:
            return Facts(layout=layout(stored.shards, stored.partitions))
        first = self.wanted(stage)
        path = self.home.control_file(stage.name, "state")
        Generation(shards=first.shards, partitions=first.partitions).write(path)
        return Facts(layout=first)

    def wanted(self, stage: Stage, shards: int | None = None, partitions: int | None = None) -> Layout:
        """How the state of an operator would be cut if it began now: by options and executors, or as asked.

        Some joins have to have a single shard, whatever is asked for.
        """
        options = self.options if shards is None else self.options.model_copy(update={"shards": shards})
        facts = Facts(executors=partitions or len(self.executors()))
        return self._stepping(stage, facts, options).layout

    def executors(self) -> list[str]:
        """Executors besides the driver, oldest first: none where it does their work itself."""
        return [] if is_local(str(self.session.sparkContext.master)) else list(executors(self.session))

    def register(self, stage: str, query: Query) -> Register | None:
        """What says where the state partitions of a query are; None if there is one, or one place for it."""
        generation = self.home.generation(stage)
        if generation is None or generation.partitions == 1 or not self.executors():
            return None
        assert isinstance(query, StreamingQuery)
        return Register(self.session, query, generation.partitions)

    # -- sinks ------------------------------------------------------------------------------------

    def _target(self, stage: Stage) -> Target:
        return target_of(self.plan.application, stage, self.options)

    def _sink(
        self,
        stage: Stage,
        schema: StructType,
        marks: OutputWatermarks | None,
        buffered_file: str | None = None,
    ) -> SinkConfig:
        """Make the target of a stage, if it is new, and say how its sink writes there."""
        target, owner = self._target(stage), Owner(self.plan.application, stage.name)
        claim(self.home.home, target, owner)
        start = self._resuming.keep_start(stage)
        common: _Common = {
            "root": self.home.home.log_root,
            "stage": stage.name,
            "dead_letter": self.home.dead_letter,
            "lease_file": str(self.home.lease_file),
            "lease": self.lease,
            "first_commit": start.first_commit,
            "letter_writer": start.writer,
            "metrics": str(self.home.counts_folder),
            "first_batch": self.first_batch(stage.name),
            "savepoints": str(self.home.savepoints) if stage.stateful else None,
            "read_file": self._read_file(stage),
            "published_file": self._published_file(stage),
            "buffered_file": buffered_file,
        }
        if isinstance(target, TableTarget):
            folder = target.folder(self.home.home.root)
            return TableConfig(**common, folder=str(folder), time=target.time)
        if isinstance(target, LookupTarget):
            create_table(str(self.home.home.root), target, schema)
            return LookupConfig(
                **common,
                home=str(self.home.home.root),
                table=target.name,
                writer=writer_name(self.plan, stage),
                staging=str(self.home.root / "staging" / stage.name),
                time=target.time,
            )
        category = self.log.create(
            target.name,
            stored_schema(schema),
            shards=target.shards,
            time_columns=target.time_columns,
            owner=owner,
        )
        return BlocksConfig(
            **common,
            category=category.name,
            chunk_rows=self.options.chunk_rows,
            watermarks=marks,
            order=target.order,
        )

    def first_batch(self, query: str) -> int:
        """The number of the micro-batch that Spark calls 0."""
        found = self.home.generation(query)
        return 0 if found is None else found.first_batch

    def _read_file(self, stage: Stage) -> str | None:
        """Where the source of a stage tells how far it reads; None if it is one of Spark's own."""
        return str(self.home.control_file(stage.name, "read")) if stage.categories() else None

    def _published_file(self, stage: Stage) -> str | None:
        """Where the sink of a slicer tells up to where it is published; None if others need not know."""
        feeds = not stage.stateful and stage.sink.internal and stage.categories()
        return str(self.home.control_file(stage.name, "published")) if feeds else None

    @property
    def _resuming(self) -> Resuming:
        return Resuming(self.home, self.plan, self.options)


def slicer_watermarks(stage: SlicerStage) -> SlicerWatermarks | None:
    """Watermarks that a slicer passes on, if its source has any."""
    return SlicerWatermarks(stage.source.name, stage.watermarks) if stage.watermarks else None


def stored_schema(schema: StructType) -> pa.Schema:
    """The columns that a category has for rows of a query."""
    return arrow_schema(StructType([field for field in schema.fields if field.name != NOTE]))


def _faults(lists: Listed) -> list[tuple[str, str | None]]:
    """What a slicer lists, as its sink reads it."""
    missing: list[tuple[str, str | None]] = [(MISSING_FIELD, name) for name in lists.missing]
    return [*missing, (INVALID_TIME, None)] if lists.times else missing


def _watermarks(stage: Stage, plan: Stepping) -> OperatorWatermarks | None:
    if not plan.times:
        return None
    columns = tuple((c.column, str(c.side), c.input, c.lag) for c in plan.times)
    return OperatorWatermarks(stage.reads(), plan.bounds, columns)
