"""Spark's own stream-stream join on the workload of `bench/kernels.py`, stored as Parquet files.

LEFT OUTER, +-3 minutes, with the watermark delays that this workload needs: files in, a sink that only counts
out. Run: `python bench/spark_native.py [--rows N] [--state hdfs|rocksdb]`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from kernels import make_stream
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from braid.core.columns import TIME

FILES = 16
"""Files per side, in the order of arrival."""
START = 1_700_000_000_000_000
"""Event times begin here, in microseconds."""
PROVIDERS = {
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}


def write_files(folder: Path, rows: int) -> None:
    """Both streams as Parquet files with columns `t`, `key` and `payload`, in the order of arrival."""
    for name, delay, seed in (("left", 2, 1), ("right", 20, 2)):
        stream = make_stream(rows, rows // 2, delay, seed).table
        times = pa.array(stream[TIME].to_numpy() + START).cast(pa.timestamp("us", tz="UTC"))
        table = pa.table({"t": times, "key": stream["__key0"], "payload": stream["payload"]})
        (folder / name).mkdir(parents=True)
        size = -(-rows // FILES)
        for number in range(FILES):
            path = folder / name / f"{number:03d}.parquet"
            pq.write_table(table.slice(number * size, size), path)


def cpu_seconds() -> float:
    """CPU time of this process and of all that it has started: what a busy machine cannot blur."""
    total = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def run_native(spark: SparkSession, folder: Path, state: str, minutes: float = 3.0) -> dict[str, object]:
    """Join all files, and say how long it took and how many rows came out."""
    spark = spark.newSession()
    spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDERS[state])
    spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")

    def stream(name: str, delay: str) -> DataFrame:
        schema = spark.read.parquet(str(folder / name)).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2)
        frame = reader.parquet(str(folder / name))
        return frame.select(*(F.col(c).alias(f"{name}_{c}") for c in frame.columns)).withWatermark(
            f"{name}_t", delay
        )

    window = f"interval {round(minutes * 60)} seconds"
    joined = stream("left", "30 seconds").join(
        stream("right", "4 minutes"),
        F.expr(f"left_key = right_key AND right_t BETWEEN left_t - {window} AND left_t + {window}"),
        "leftOuter",
    )
    counted = [0]

    def count(batch: DataFrame, number: int) -> None:
        counted[0] += batch.select("left_key", "left_payload", "right_payload").count()

    with tempfile.TemporaryDirectory() as checkpoint:
        started, used = time.perf_counter(), cpu_seconds()
        query = (
            joined.writeStream.foreachBatch(count)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        seconds = time.perf_counter() - started
        used = cpu_seconds() - used
    return {"seconds": seconds, "cpu_seconds": round(used, 1), "rows_out": counted[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows per side")
    parser.add_argument("--state", choices=PROVIDERS, default="hdfs")
    options = parser.parse_args()
    from braid.spark.processes.session import open_session

    spark = open_session(master="local[2]", settings={"spark.driver.memory": "6g"})
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), options.rows)
        result = run_native(spark, Path(folder), options.state)
    result["rows_per_second"] = round(2 * options.rows / float(str(result["seconds"])))
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
