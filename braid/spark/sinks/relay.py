"""Relays: sinks without commits get their rows from a category, by a query of their own, at least once."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from braid.core.columns import HASH
from braid.core.connectors import SinkKind
from braid.plan.stages.base import Sink
from braid.spark.sources.inputs import kafka_options, require_kafka


def relay(frame: DataFrame, sink: Sink, show: Callable[[str], None]) -> DataStreamWriter:
    """A query, yet to be started, that passes the rows of a category on.

    Parameters
    ----------
    frame
        The category's rows.
    sink
        Where they go.
    show
        What takes a line for the console.
    """
    rows = frame.select(F.to_json(F.struct(*(c for c in frame.columns if c != HASH))).alias("value"))
    if sink.kind is SinkKind.CONSOLE:

        def print_rows(batch: DataFrame, number: int) -> None:
            for row in batch.toLocalIterator():
                show(row["value"])

        return rows.writeStream.foreachBatch(print_rows)
    require_kafka(frame.sparkSession, sink.name)
    writer = rows.writeStream.format("kafka").option("topic", sink.name)
    for name, value in kafka_options(dict(sink.options)).items():
        writer = writer.option(name, value)
    return writer
