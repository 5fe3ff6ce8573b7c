"""The slicer after a join or operator: what is looked up, kept and evaluated there, in the same query."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from braid.core.columns import NOTE
from braid.engine.stepper import Direct
from braid.plan.stages.base import Stage
from braid.spark.slicers.catalyst import projected, sharded
from braid.spark.slicers.lookups import looked_up


def slice_results(stage: Stage, rows: DataFrame, home: str) -> DataFrame:
    """Results of an operator to what is stored, in Catalyst; rows with a note pass every filter."""
    rows = looked_up(rows, stage.lookups, home)
    if stage.filter is not None:
        rows = rows.filter(F.col(NOTE).isNotNull() | F.expr(stage.filter))
    return sharded(rows.select(*(projected(c) for c in stage.columns), F.col(NOTE)), stage.sink)


def direct(stage: Stage, category: str, chunk_rows: int) -> Direct:
    """How workers of an operator slice and store its results themselves."""
    return Direct(category, stage.name, stage.columns, chunk_rows)
