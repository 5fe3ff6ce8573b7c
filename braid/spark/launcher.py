"""From stages to streaming queries: frames, sinks, checkpoints and pools of one application."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StringType, StructField, StructType

from braid.core.columns import HASH, KEY, NOTE, TIME
from braid.core.config import AppConfig
from braid.core.connectors import SinkKind
from braid.core.errors import ConfigError
from braid.core.side import Side
from braid.engine import dead_letters as deadletter
from braid.engine.admission import AdmissionConfig
from braid.engine.expressions import compile_columns
from braid.engine.operator import JoinOperator
from braid.engine.output_watermarks import JoinMarks, Marks, SlicerMarks
from braid.engine.stepper import Direct, OperatorConfig
from braid.home.control import SinkStart, StateLayout
from braid.home.paths import AppHome
from braid.kernels.join.spec import AnySpec, JoinSpec
from braid.log.category import Category
from braid.log.layout import shard_range
from braid.log.log import Log
from braid.plan.dependencies import (
    declared_disorder,
    paced_upper,
    propagated_sides,
    rescued_sides,
    upstream_joins,
)
from braid.plan.kinds.join import JoinStage
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.physical.kernel_spec import join_spec
from braid.plan.stages.base import Plan, Sink, Stage
from braid.spark.operators.processor import RESULTS, StepProcessor, decode
from braid.spark.operators.state_keys import state_keys
from braid.spark.processes.session import activated
from braid.spark.schemas import arrow_schema, spark_schema
from braid.spark.sinks.blocks import BlockSink, WriterConfig
from braid.spark.sinks.lookup_table import LaserSink, create_table, next_upsert
from braid.spark.sinks.relay import relay
from braid.spark.sinks.table import TableSink
from braid.spark.slicers.arrow_files import ArrowSlicer
from braid.spark.slicers.catalyst import projected, sharded, slice_rows
from braid.spark.slicers.lookups import check_tables, looked_up
from braid.spark.sources.category import CategorySource
from braid.spark.sources.inputs import Inputs
from braid.spark.sources.steps import StepSource, StepSourceConfig

_SINKS = {SinkKind.HIVE: TableSink, SinkKind.LASER: LaserSink}
"""Sinks that are no categories; all others are, or are relayed from one."""
_environment = threading.Lock()
"""Applications of one process share the environment that workers get."""


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
    built
        Stages that are ready to start.
    """

    session: SparkSession
    home: AppHome
    plan: Plan
    options: AppConfig
    built: dict[str, tuple[DataFrame, WriterConfig]] = field(default_factory=dict)

    @property
    def log(self) -> Log:
        """The log."""
        return self.home.home.log()

    def prepare(self) -> None:
        """Register sources and sinks, and make the category of dead letters."""
        for source in (CategorySource, StepSource, BlockSink, TableSink, LaserSink):
            self.session.dataSource.register(source)
        deadletter.create(self.log, self.home.dead_letter)

    def start(self, stage: Stage, *, available_now: bool = False) -> StreamingQuery:
        """Start a stage; with `available_now` it ends by itself once it has read what is there."""
        with activated(self.session):
            return self._start(stage, available_now)

    def build(self, stage: Stage) -> None:
        """Make a stage ready to start, with its category, which those that read it need."""
        with activated(self.session):
            self.built[stage.name] = self._build(stage)

    def _build(self, stage: Stage) -> tuple[DataFrame, WriterConfig]:
        if isinstance(stage, JoinStage):
            return self._join(stage)
        assert isinstance(stage, SlicerStage)
        return self._slice(stage)

    def _start(self, stage: Stage, available_now: bool) -> StreamingQuery:
        frame, config = self.built.pop(stage.name) if stage.name in self.built else self._build(stage)
        if stage.sink.kind.connector.keyed:
            kept = dict.fromkeys((*stage.sink.keys, *stage.sink.values, *filter(None, (config.time,)), NOTE))
            frame = frame.select(*(f"`{name}`" for name in kept))
        sink = _SINKS.get(stage.sink.kind, BlockSink)
        writer = frame.writeStream.format(sink.name()).option("config", config.to_json())
        return self._run(writer, stage.name, available_now)

    def relayed(self, stage: Stage) -> bool:
        """Whether a stage's sink has no commits, so that its rows are relayed from a category."""
        return stage.sink.kind.connector.relayed

    def relay(self, stage: Stage, show: Callable[[str], None]) -> StreamingQuery:
        """Start what passes a stage's rows on to its sink."""
        with activated(self.session):
            category = self.log.open(self._target(stage))
            inputs = Inputs(self.session, self.home.home.log_root, self.options.batch_rows)
            frame = inputs.category(category, category.schema.names)
            return self._run(relay(frame, stage.sink, show), relay_name(stage), available_now=False)

    def _run(self, writer: DataStreamWriter, name: str, available_now: bool) -> StreamingQuery:
        writer = writer.queryName(f"{self.plan.application}.{name}")
        writer = writer.option("checkpointLocation", str(self.home.checkpoint(name)))
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif self.options.trigger:
            writer = writer.trigger(processingTime=f"{self.options.trigger} microseconds")
        # Every query has a pool of its own, so that a long micro-batch of one does not hold up the others.
        context = self.session.sparkContext
        context.setLocalProperty("spark.scheduler.pool", name)
        try:
            return writer.start()
        finally:
            context.setLocalProperty("spark.scheduler.pool", "default")

    # -- frames -----------------------------------------------------------------------------------

    def _slice(self, stage: SlicerStage) -> tuple[DataFrame, WriterConfig]:
        inputs = Inputs(self.session, self.home.home.log_root, self.options.batch_rows)
        check_tables(self.home.home, self.plan, stage)
        frame = slice_rows(stage, inputs, self.options, str(self.home.home.root))
        config = self._sink(stage, frame.schema)
        stored = inputs.parquet_schema(stage.source)
        if stored is not None:
            target = self.log.open(config.target).schema
            slicer = ArrowSlicer.plan(stage, stored, target, self.options.max_future)
            if slicer is not None:
                return inputs.paths(stage.source), replace(config, slicer=slicer.to_dict(), copies={})
        return frame.drop(*config.copies), config

    def _join(self, stage: JoinStage) -> tuple[DataFrame, WriterConfig]:
        root = self.home.home.log_root
        check_tables(self.home.home, self.plan, stage)
        shards, partitions = self._layout(stage)
        spec = replace(join_spec(stage, self.options), carried=_carried(stage))
        inputs = {Side.LEFT.value: stage.left, Side.RIGHT.value: stage.right}
        admission = AdmissionConfig(
            inputs,
            paced_upper(stage),
            self.options,
            propagated_sides(self.plan, stage),
            declared_disorder(self.plan, stage),
            rescued_sides(stage, spec),
            stage.pad_after,
        )
        source = StepSourceConfig(
            root=root,
            admission=admission,
            state_keys=state_keys(shards, partitions),
            drain_file=str(self.home.control_file(stage.name, "drain")),
            status_file=str(self.home.control_file(stage.name, "pacing")),
            held_files=self._held_files(stage, spec),
            buffered_file=self._buffered_file(stage),
        )
        references = (
            self.session.readStream.format(StepSource.name()).option("config", source.to_json()).load()
        )
        self.session.conf.set("spark.sql.shuffle.partitions", partitions)
        operator = JoinOperator(spec, stage.broadcast)
        joined = operator.output_schema({name: self.log.open(one).schema for name, one in inputs.items()})
        schema = StructType([*spark_schema(joined).fields, StructField(NOTE, StringType())])
        sink = self._sink(stage, self._after(stage, self.session.createDataFrame([], schema)).schema)
        config = OperatorConfig(
            root,
            inputs,
            operator,
            tuple(shard_range(shard, shards) for shard in range(shards)),
            uuid.uuid4().hex,
            self._direct(stage, sink, joined),
        )
        # Workers are pooled by their environment: one of its own keeps a join's cache where its shards are.
        # It is replaced, never changed: other threads may be handing it to the JVM at this moment.
        context = self.session.sparkContext
        with _environment:
            shared = context.environment
            context.environment = {**shared, "BRAID_JOIN": f"{self.plan.application}.{stage.name}"}
            try:
                results = references.groupBy("slot").transformWithStateInPandas(
                    StepProcessor(config), RESULTS, "Append", "None"
                )
            finally:
                context.environment = shared
        return self._after(stage, results.mapInArrow(decode, schema)), sink

    def _after(self, stage: JoinStage, rows: DataFrame) -> DataFrame:
        """The post-join slicer."""
        rows = looked_up(rows, stage.lookups, str(self.home.home.root))
        if stage.filter is not None:
            rows = rows.filter(F.col(NOTE).isNotNull() | F.expr(stage.filter))
        return sharded(rows.select(*(projected(c) for c in stage.columns), F.col(NOTE)), stage.sink)

    def _direct(self, stage: JoinStage, sink: WriterConfig, joined: pa.Schema) -> Direct | None:
        """How workers store the join's results themselves, if they need nothing of Catalyst."""
        if stage.filter is not None or stage.sink.shard_by is not None or stage.sink.kind in _SINKS:
            return None
        if stage.lookups:
            return None
        if compile_columns(stage.columns, joined, self.log.open(sink.target).schema) is None:
            return None
        return Direct(sink.target, stage.name, stage.columns, self.options.chunk_rows)

    def _layout(self, stage: JoinStage) -> tuple[int, int]:
        """Shards and state partitions of a join: as at its first start, since its state belongs to them.

        Blocks may be sharded otherwise since then: a join reads ranges of hashes, whatever they were cut by.
        """
        path = self.home.control_file(stage.name, "state")
        stored = StateLayout.read(path)
        if stored is not None and self.home.checkpoint(stage.name).exists():
            return stored.shards, stored.partitions
        shards = 1 if stage.single_shard else self.options.shards
        partitions = min(shards, max(1, _executors(self.session)))
        StateLayout(shards=shards, partitions=partitions).write(path)
        return shards, partitions

    # -- sinks ------------------------------------------------------------------------------------

    def _sink(self, stage: Stage, schema: StructType) -> WriterConfig:
        if stage.sink.kind.connector.filed:
            target, first = str(self._table(stage.sink)), 0
        elif stage.sink.kind.connector.keyed:
            create_table(str(self.home.home.root), stage.sink, schema)
            target, first = stage.sink.name, self._first_upsert(stage)
        else:
            category = self._category(stage, schema)
            target, first = category.name, self._first_commit(stage, category)
        return WriterConfig(
            root=self.home.home.log_root,
            stage=stage.name,
            target=target,
            dead_letter=self.home.dead_letter,
            first_commit=first,
            chunk_rows=self.options.chunk_rows,
            metrics=str(self.home.counts_folder),
            time=_table_time(stage, schema),
            copies=_copies(stage) if isinstance(stage, SlicerStage) else {},
            watermarks=_marks(stage),
            buffered_file=self._buffered_file(stage),
            home=str(self.home.home.root),
            writer=self._writer_name(stage),
            staging=str(self.home.root / "staging" / stage.name),
            offsets=str(self.home.checkpoint(stage.name) / "offsets"),
            bounded=isinstance(stage, SlicerStage) and stage.source.disorder is not None,
        )

    def _held_files(self, stage: JoinStage, spec: AnySpec) -> dict[str, tuple[str, ...]]:
        """Where to see what upstream joins hold, of sides for which it must not come late."""
        saved = spec.rescued if isinstance(spec, JoinSpec) else ()
        return {
            name: tuple(str(self.home.control_file(join.name, "buffered")) for join in joins)
            for name, joins in upstream_joins(self.plan, stage).items()
            if joins and name not in saved
        }

    def _buffered_file(self, stage: Stage) -> str | None:
        """Where the sink of a join tells sources how many rows are buffered, if one wants to know."""
        if not isinstance(stage, JoinStage):
            return None
        if self.options.max_buffered_rows is None and not stage.sink.internal:
            return None
        return str(self.home.control_file(stage.name, "buffered"))

    def _category(self, stage: Stage, fields: StructType) -> Category:
        schema = arrow_schema(StructType([field for field in fields.fields if field.name != NOTE]))
        joined = isinstance(stage, SlicerStage) and stage.join_input is not None
        times = (TIME,) if joined else tuple(f.name for f in fields.fields if _is_time(f))
        shards = self.options.shards if HASH in schema.names else 1
        return self.log.create(self._target(stage), schema, shards=shards, time_columns=times)

    def _target(self, stage: Stage) -> str:
        """The category that a stage writes: its sink's, or one to relay from."""
        if stage.sink.kind.connector.relayed:
            return f"{self.plan.application}.{relay_name(stage)}"
        return stage.sink.name

    def _table(self, sink: Sink) -> Path:
        """The folder of a table."""
        path = dict(sink.options).get("path")
        return Path(path).absolute() if path else self.home.home.root / "warehouse" / sink.name

    def _first_commit(self, stage: Stage, category: Category) -> int:
        """The commit that micro-batch 0 of this checkpoint writes, or would have written."""
        return self._first(stage, category.name, lambda: category.latest() + 1)

    def _first_upsert(self, stage: Stage) -> int:
        """The number under which a lookup table gets micro-batch 0 of this checkpoint."""
        home, writer = str(self.home.home.root), self._writer_name(stage)
        return self._first(stage, stage.sink.name, lambda: next_upsert(home, stage.sink.name, writer))

    def _first(self, stage: Stage, target: str, following: Callable[[], int]) -> int:
        path = self.home.control_file(stage.name, "sink")
        stored = SinkStart.read(path)
        checkpoint = self.home.checkpoint(stage.name)
        if stored is not None and stored.target == target and checkpoint.exists():
            return stored.first_commit
        first = following() - _next_batch(checkpoint)
        SinkStart(target=target, first_commit=first).write(path)
        return first

    def _writer_name(self, stage: Stage) -> str:
        return f"{self.plan.application}.{stage.name}"


def relay_name(stage: Stage) -> str:
    """Name of the query that relays a stage's rows."""
    return f"{stage.name}.relay"


def _marks(stage: Stage) -> Marks | None:
    """Where the watermarks of a stage come from."""
    if isinstance(stage, SlicerStage):
        return SlicerMarks(stage.source.name, stage.watermarks) if stage.watermarks else None
    assert isinstance(stage, JoinStage)
    if not stage.watermarks:
        return None
    columns = tuple((c.column, c.side.value, c.input, c.lag) for c in stage.watermarks)
    return JoinMarks(stage.left, stage.right, (stage.lower, stage.upper), columns)


def _carried(stage: JoinStage) -> tuple[tuple[Side, str], ...]:
    """Time columns, besides those joined by, that hold back watermarks while they wait in a join."""
    return tuple(dict.fromkeys((c.side, c.input) for c in stage.watermarks if c.input != TIME))


def _copies(stage: SlicerStage) -> dict[str, str]:
    """Columns of a slicer that are the same as one of its keys: they leave the JVM once."""
    if stage.join_input is None:
        return {}
    keys = {(key.sql, key.type): f"{KEY}{number}" for number, key in enumerate(stage.join_input.keys)}
    return {c.name: keys[c.sql, c.type] for c in stage.columns if (c.sql, c.type) in keys}


def _table_time(stage: Stage, schema: StructType) -> str | None:
    """The time column that a table is partitioned by, or that says which row of a key is newest.

    It is the one that the table names, or the first one it has.
    """
    if stage.sink.kind not in _SINKS:
        return None
    times = [field.name for field in schema.fields if _is_time(field)]
    named = dict(stage.sink.options).get("time")
    if named is not None and named not in times:
        raise ConfigError(
            f"table {stage.sink.name!r} is partitioned by {named!r}, which is no timestamp of it",
            hint=f"timestamps are: {', '.join(times) or 'none'}",
        )
    return named or next(iter(times), None)


def _next_batch(checkpoint: Path) -> int:
    """The micro-batch that a query will run next, by its checkpoint."""
    folder = checkpoint / "commits"
    done = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    return max(done, default=-1) + 1


def _executors(session: SparkSession) -> int:
    """Executors besides the driver."""
    context = session.sparkContext._jsc.sc()
    return int(context.getExecutorMemoryStatus().size()) - 1


def _is_time(field: StructField) -> bool:
    return field.dataType.typeName() in ("timestamp", "timestamp_ntz")
