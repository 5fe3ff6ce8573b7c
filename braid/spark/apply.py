"""From stages to streaming queries: frames, sinks, checkpoints and pools of one application."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StringType, StructField, StructType

from braid.config import AppConfig
from braid.home import AppHome, read_json, write_json
from braid.kernels.emit import output_schema
from braid.kernels.side import Side
from braid.kernels.spec import HASH, TIME, JoinSpec
from braid.log.category import Category
from braid.log.log import Log
from braid.plan.stages import JoinStage, Plan, SlicerStage, Stage
from braid.spark import deadletter
from braid.spark.category import CategorySource
from braid.spark.inputs import Inputs
from braid.spark.join import RESULTS, JoinConfig, JoinProcessor, decode
from braid.spark.notes import NOTE
from braid.spark.pace import PaceConfig, PacedSource
from braid.spark.slicer import projected, sharding, slice_rows
from braid.spark.slots import slots
from braid.spark.tracing import carried_times, propagated_sides, time_origin
from braid.spark.types import arrow_schema, spark_schema
from braid.spark.writer import BlockSink, WriterConfig


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
    """

    session: SparkSession
    home: AppHome
    plan: Plan
    options: AppConfig

    @property
    def log(self) -> Log:
        """The log."""
        return self.home.home.log()

    def prepare(self) -> None:
        """Register sources and sinks, and make the category of dead letters."""
        for source in (CategorySource, PacedSource, BlockSink):
            self.session.dataSource.register(source)
        deadletter.create(self.log, self.home.dead_letter)

    def start(self, stage: Stage, *, available_now: bool = False) -> StreamingQuery:
        """Start a stage; with `available_now` it ends by itself once it has read what is there."""
        frame = self._join(stage) if isinstance(stage, JoinStage) else self._slice(stage)
        config = self._sink(stage, frame)
        query = (
            frame.writeStream.format(BlockSink.name())
            .queryName(f"{self.plan.application}.{stage.name}")
            .option("config", config.to_json())
            .option("checkpointLocation", str(self.home.checkpoint(stage.name)))
        )
        if available_now:
            query = query.trigger(availableNow=True)
        elif self.options.trigger:
            query = query.trigger(processingTime=f"{self.options.trigger} microseconds")
        # Every stage has a pool of its own, so that a long micro-batch of one does not hold up the others.
        context = self.session.sparkContext
        context.setLocalProperty("spark.scheduler.pool", stage.name)
        try:
            return query.start()
        finally:
            context.setLocalProperty("spark.scheduler.pool", "default")

    # -- frames -----------------------------------------------------------------------------------

    def _slice(self, stage: SlicerStage) -> DataFrame:
        inputs = Inputs(self.session, self.home.home.log_root, self.options.batch_rows)
        return slice_rows(stage, inputs, self.options)

    def _join(self, stage: JoinStage) -> DataFrame:
        root = self.home.home.log_root
        partitions = self._partitions(stage)
        spec = JoinSpec(
            type=stage.type,
            lower=stage.lower,
            upper=stage.upper,
            keys=stage.keys,
            output=stage.output,
            match=stage.match,
            residual=stage.residual,
            max_per_key=self.options.max_per_key,
            late_lookup=self.options.late_lookup,
        )
        pace = PaceConfig(
            root=root,
            left=stage.left,
            right=stage.right,
            upper=stage.upper,
            options=self.options.model_dump(),
            propagated=propagated_sides(self.plan, stage),
            slots=slots(self.options.shards, partitions),
            drain_file=str(self.home.control_file(stage.name, "drain")),
            status_file=str(self.home.control_file(stage.name, "pacing")),
        )
        config = JoinConfig(root, stage.left, stage.right, spec, self.options.shards, uuid.uuid4().hex)
        references = (
            self.session.readStream.format(PacedSource.name()).option("config", pace.to_json()).load()
        )
        self.session.conf.set("spark.sql.shuffle.partitions", partitions)
        # Workers are pooled by their environment: one of its own keeps a join's cache where its shards are.
        environment = self.session.sparkContext.environment
        environment["BRAID_JOIN"] = f"{self.plan.application}.{stage.name}"
        try:
            results = references.groupBy("slot").transformWithStateInPandas(
                JoinProcessor(config), RESULTS, "Append", "None"
            )
        finally:
            del environment["BRAID_JOIN"]
        schemas = {
            side: self.log.open(name).schema
            for side, name in ((Side.LEFT, stage.left), (Side.RIGHT, stage.right))
        }
        columns = spark_schema(output_schema(spec, schemas)).fields
        rows = results.mapInArrow(decode, StructType([*columns, StructField(NOTE, StringType())]))
        if stage.filter is not None:
            rows = rows.filter(F.col(NOTE).isNotNull() | F.expr(stage.filter))
        return rows.select(*(projected(c) for c in stage.columns), *sharding(stage.sink), F.col(NOTE))

    def _partitions(self, stage: JoinStage) -> int:
        """State partitions of a join: as at its first start, since state is found by them."""
        path = self.home.control_file(stage.name, "state")
        stored = read_json(path)
        if isinstance(stored, dict) and self.home.checkpoint(stage.name).exists():
            return int(stored["partitions"])
        executors = max(1, _executors(self.session))
        partitions = min(self.options.shards, executors)
        write_json(path, {"partitions": partitions})
        return partitions

    # -- sinks ------------------------------------------------------------------------------------

    def _sink(self, stage: Stage, frame: DataFrame) -> WriterConfig:
        category = self._category(stage, frame)
        origin = None
        marks: tuple[tuple[str, str], ...] = ()
        bounds = (0, 0)
        if isinstance(stage, JoinStage):
            marks = carried_times(self.plan, stage)
            bounds = (stage.lower, stage.upper)
        else:
            origin = time_origin(self.plan, stage)
        return WriterConfig(
            root=self.home.home.log_root,
            stage=stage.name,
            target=category.name,
            dead_letter=self.home.dead_letter,
            first_commit=self._first_commit(stage, category),
            chunk_rows=self.options.chunk_rows,
            metrics=str(self.home.metrics_file(stage.name).parent / ".counts"),
            watermarks=marks,
            bounds=bounds,
            upstream=origin,
            offsets=str(self.home.checkpoint(stage.name) / "offsets"),
        )

    def _category(self, stage: Stage, frame: DataFrame) -> Category:
        schema = arrow_schema(StructType([field for field in frame.schema.fields if field.name != NOTE]))
        joined = isinstance(stage, SlicerStage) and stage.join_input is not None
        times = (TIME,) if joined else tuple(f.name for f in frame.schema.fields if _is_time(f))
        shards = self.options.shards if HASH in schema.names else 1
        return self.log.create(stage.sink.name, schema, shards=shards, time_columns=times)

    def _first_commit(self, stage: Stage, category: Category) -> int:
        """The commit that micro-batch 0 of this checkpoint writes, or would have written."""
        path = self.home.control_file(stage.name, "sink")
        stored = read_json(path)
        checkpoint = self.home.checkpoint(stage.name)
        if isinstance(stored, dict) and stored["target"] == category.name and checkpoint.exists():
            return int(stored["first_commit"])
        first = category.latest() + 1 - _next_batch(checkpoint)
        write_json(path, {"target": category.name, "first_commit": first})
        return first


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
