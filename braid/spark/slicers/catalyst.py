"""Slicers: read, filter, project, hash; in Catalyst, up to the rows that the sink stores."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from braid.core.columns import HASH, KEY, LIVE, NOTE, RAW, TIME
from braid.core.config import AppConfig
from braid.engine.notes import KEEP, SEPARATOR
from braid.eventtime.validity import INVALID_TIME, invalid_sql
from braid.plan.kinds.slicer import JoinInput, SlicerStage
from braid.plan.stages.base import Projection, Sink
from braid.spark.slicers.lookups import looked_up
from braid.spark.sources.inputs import Inputs


def slice_rows(
    stage: SlicerStage, inputs: Inputs, required: Sequence[str], options: AppConfig, home: str
) -> DataFrame:
    """The rows that a slicer writes, with `__note`; for a join also hash, time, keys and live flag."""
    frame = looked_up(inputs.open(stage.source, required), stage.lookups, home)
    if stage.filter is not None:
        only_note = ~F.col(NOTE).startswith(KEEP + SEPARATOR)
        frame = frame.filter(F.coalesce(only_note, F.lit(False)) | F.expr(stage.filter))
    columns = [projected(column) for column in stage.columns]
    if stage.join_input is None:
        return sharded(frame.select(*columns, F.col(NOTE)), stage.sink)
    return join_rows(frame, columns, stage.join_input, options, report=not stage.source.internal)


def projected(column: Projection) -> SparkColumn:
    """A column of the plan as Spark computes it."""
    return F.expr(column.sql).cast(column.type).alias(column.name)


def sharded(frame: DataFrame, sink: Sink) -> DataFrame:
    """Rows with a hash, if their category is sharded by an expression over its columns."""
    return frame.withColumn(HASH, F.xxhash64(F.expr(sink.shard_by))) if sink.shard_by else frame


def join_rows(
    frame: DataFrame, columns: list[SparkColumn], extra: JoinInput, options: AppConfig, *, report: bool
) -> DataFrame:
    """What a join reads of rows: hash, keys, event time, and notes on those whose time is not valid.

    With `report` these notes are dead letters; between joins, rows without a time have been reported.
    """
    keys = [F.expr(key.sql).cast(key.type) for key in extra.keys]
    # Without keys, rows are spread by time: every shard of a join reads the other side whole.
    hashed = F.xxhash64(*keys) if keys else F.xxhash64(_micros(extra.time))
    special = [hashed.alias(HASH), _micros(extra.time).alias("__when")]
    special += [key.alias(f"{KEY}{position}") for position, key in enumerate(keys)]
    if extra.live is not None:
        special.append(F.coalesce(F.expr(extra.live), F.lit(False)).alias(LIVE))
    sliced = frame.select(*columns, *special, F.col(RAW), F.col(NOTE))
    when = F.col("__when")
    # The clock is that of the micro-batch, which Spark replays with it.
    why = F.expr(invalid_sql("__when", "unix_micros(current_timestamp())", options.max_future))
    note = F.col(NOTE)
    if report:
        raw = F.coalesce(F.col(RAW), F.lit(""))
        letter = F.concat_ws(SEPARATOR, F.lit(KEEP), F.lit(INVALID_TIME), why, raw)
        note = F.when(note.isNull() & why.isNotNull(), letter).otherwise(note)
    return sliced.withColumns({TIME: F.when(why.isNull(), when), NOTE: note}).drop("__when", RAW)


def _micros(time: Projection) -> SparkColumn:
    """Microseconds of a time expression, whatever its type."""
    value = F.expr(time.sql)
    if time.type in ("bigint", "int", "long"):
        return value.cast("bigint")
    return F.unix_micros(value.cast("timestamp"))
