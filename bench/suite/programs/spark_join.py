"""Spark's own stream-stream join, with in-memory or RocksDB state."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from common import PRIME, Job, emit, finish, job
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

PROVIDERS = {
    "memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
NEVER = 4_102_444_800_000_000
"""1 January 2100, in microseconds: the event time of the row that closes all windows."""


def session(given: Job) -> SparkSession:
    """Spark on two cores, with as many state partitions."""
    settings = {
        "spark.driver.memory": given.heap,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": PROVIDERS[given.state],
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": given.work,
        "spark.sql.warehouse.dir": f"{given.work}/warehouse",
    }
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def joined(spark: SparkSession, given: Job, folders: dict[str, str], files: int) -> DataFrame:
    """The join as a streaming frame with the columns of the answer."""
    query = given.query
    sides = {}
    for side, delay in (("l", query.left_delay), ("r", query.right_delay)):
        schema = spark.read.parquet(folders[side]).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
        frame = reader.parquet(folders[side])
        sides[side] = frame.select(
            *(F.col(name).alias(f"{side}_{name}") for name in query.columns)
        ).withWatermark(f"{side}_t", f"{delay} milliseconds")
    bounds = (
        f"l_key = r_key AND r_t BETWEEN l_t + interval '{query.lower / 1000:.3f}' second "
        f"AND l_t + interval '{query.upper / 1000:.3f}' second"
    )
    frame = sides["l"].join(sides["r"], F.expr(bounds), "leftOuter" if query.type == "left" else "inner")
    names = [f"{side}_{name}" for name in ("id", "payload", *query.texts) for side in "lr"]
    return frame.select(F.col("l_key").alias("key"), *names)


def with_end(given: Job, side: str, folder: str) -> str:
    """A glob over a folder and a last file with one row far in the future.

    Spark cannot drain: without that row, it would never give the unmatched rows of the last windows.
    """
    last = Path(given.work) / f"end-{Path(folder).parent.name}-{side}"
    last.mkdir(exist_ok=True)
    schema = pq.read_schema(sorted(Path(folder).glob("*.parquet"))[0])
    row = {"id": 0, "t": NEVER, "key": f"end-{side}", "payload": 0.0}
    columns = [
        pa.array([row.get(field.name, "")], pa.int64() if field.name == "t" else field.type)
        for field in schema
    ]
    table = pa.table(
        [column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
    pq.write_table(table, last / "9999.parquet", store_schema=False)
    return "/{" + ",".join(path.lstrip("/") for path in (folder, str(last))) + "}"


def drain(spark: SparkSession, given: Job, left: str, right: str, name: str) -> dict[str, int]:
    """Join all files, and say what came out."""
    folders = {"l": with_end(given, "left", left), "r": with_end(given, "right", right)}
    frame = joined(spark, given, folders, files=2)
    frame = frame.observe(
        "answer",
        F.count(F.lit(1)).alias("rows"),
        F.count("r_id").alias("matches"),
        F.sum(F.expr(f"((l_id + 1) * coalesce(r_id + 2, 1)) % {PRIME}")).alias("checksum"),
    )
    writer = frame.writeStream.format("noop").option("checkpointLocation", f"{given.work}/{name}")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    found: dict[str, int] = {"rows": 0, "matches": 0, "checksum": 0, "state_rows": 0, "state_memory": 0}
    for progress in query.recentProgress:
        observed = progress.observedMetrics.get("answer")
        for number in ("rows", "matches", "checksum") if observed is not None else ():
            found[number] += observed[number] or 0
        for operator in progress.stateOperators:
            found["state_rows"] = max(found["state_rows"], operator.numRowsTotal)
            found["state_memory"] = max(found["state_memory"], operator.memoryUsedBytes)
    found["micro_batches"] = len(query.recentProgress)
    return found


def follow(spark: SparkSession, given: Job) -> None:
    """Join what comes, and report every micro-batch with the rows that it gave by publication."""
    frame = joined(spark, given, {"l": given.left, "r": given.right}, files=1000)
    number = F.floor(F.greatest("l_id", "r_id") / F.lit(given.period)).alias("number")

    def report(batch: DataFrame, batch_id: int) -> None:
        counts = batch.where("r_id IS NOT NULL").groupBy(number).count().collect()
        emit("results", moments=[[row["number"], time.time(), row["count"]] for row in counts])

    query = (
        frame.writeStream.foreachBatch(report)
        .option("checkpointLocation", f"{given.work}/checkpoint")
        .start()
    )
    emit("start", state=[f"{given.work}/checkpoint"])
    query.awaitTermination()


def main() -> None:
    """Run the join as the job says."""
    given = job()
    emit("phase", name="Python and packages")
    spark = session(given)
    emit("phase", name="JVM and session")
    if given.mode != "drain":
        follow(spark, given)
    drain(spark, given, given.warm_left, given.warm_right, "warm")
    emit("start", state=[f"{given.work}/checkpoint"])
    started = time.perf_counter()
    found = drain(spark, given, given.left, given.right, "checkpoint")
    emit("done", seconds=time.perf_counter() - started, **found)
    finish()


main()
