"""A whole application on Spark, FILES in and SCRIBE out, beside Spark's own join of the same files.

The workload is that of `bench/kernels.py`.
Run: `python bench/engine.py [--rows N] [--runs K] [--native hdfs,rocksdb]`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import duckdb
from spark_native import cpu_seconds, run_native, write_files

from braid import api
from braid.home.metrics import read_metrics
from braid.home.paths import Home
from braid.spark.app import Application
from braid.spark.processes.session import open_session

PROGRAM = """
CREATE APPLICATION bench;
CREATE INPUT TABLE l (t timestamp, key string, payload double)
  FROM FILES("{folder}/left", format = "parquet") TIME t;
CREATE INPUT TABLE r (t timestamp, key string, payload double)
  FROM FILES("{folder}/right", format = "parquet") TIME t;
CREATE VIEW joined AS SELECT l.key AS key, l.payload AS payload, r.payload AS other
  FROM l LEFT JOIN r ON l.key = r.key
  AND r.t BETWEEN l.t - INTERVAL '3 minutes' AND l.t + INTERVAL '3 minutes';
CREATE TABLE result AS SELECT * FROM joined STORAGE SCRIBE(category = "result");
"""


def run_braid(spark: object, folder: Path, rows: int) -> dict[str, object]:
    """Drain the application, and say how long it took, what came out, and where the time went."""
    with tempfile.TemporaryDirectory() as root:
        home = Home.at(root)
        plan = api.compile_text(PROGRAM.format(folder=folder)).plan
        started, used = time.perf_counter(), cpu_seconds()
        Application(plan, home, spark=spark, drain=True).start().wait()
        seconds = time.perf_counter() - started
        return {
            "seconds": seconds,
            "cpu_seconds": round(cpu_seconds() - used, 1),
            "rows_per_second": round(2 * rows / seconds),
            "rows_out": sum(info.rows for info in _categories(home) if info.name == "result"),
            "lost": _lost_matches(home, "joined"),
            "phases": {stage: _phases(home, stage) for stage in ("joined.left", "joined.right", "joined")},
        }


def _categories(home: Home):
    from braid.api.data import categories

    return categories(home)


def _lost_matches(home: Home, stage: str) -> int:
    batches = read_metrics(home.application("bench").metrics_file(stage))
    return sum(batch.counters.lost_matches for batch in batches)


def _phases(home: Home, stage: str) -> dict[str, float]:
    """Seconds by phase, over all micro-batches of a stage."""
    total: dict[str, float] = {}
    batches = read_metrics(home.application("bench").metrics_file(stage))
    for batch in batches:
        counted = batch.counters
        phases = dict(batch.duration_ms)
        if batch.kind == "join":
            phases |= {"open_ms": counted.open_ms, "join_ms": counted.join_ms, "save_ms": counted.save_ms}
        for name, milliseconds in {**phases, "task_s": sum(counted.task_ms)}.items():
            total[name] = total.get(name, 0) + milliseconds / 1000
    return {"micro-batches": len(batches), **{name: round(value, 2) for name, value in total.items()}}


def expected(folder: Path) -> int:
    """Rows of the batch join, by DuckDB."""
    return duckdb.execute(f"""
      SELECT count(*) FROM '{folder}/left/*.parquet' l LEFT JOIN '{folder}/right/*.parquet' r
      ON l.key = r.key AND r.t BETWEEN l.t - INTERVAL '3 minutes' AND l.t + INTERVAL '3 minutes'
    """).fetchone()[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows per side")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument(
        "--native", default="hdfs", help="state stores of Spark's join, comma-separated; empty for none"
    )
    options = parser.parse_args()
    spark = open_session(master="local[2]", settings={"spark.driver.memory": "6g"})
    report: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as base:
        small, folder = Path(base) / "small", Path(base) / "full"
        write_files(small, 20_000)
        write_files(folder, options.rows)
        report["duckdb_rows_out"] = expected(folder)
        run_braid(spark, small, 20_000)
        runs = [run_braid(spark, folder, options.rows) for _ in range(options.runs)]
        report["braid"] = runs[-1]
        print(json.dumps(report["braid"]), flush=True)
        report["braid_rows_per_second"] = round(
            statistics.median(int(str(r["rows_per_second"])) for r in runs)
        )
        for state in filter(None, options.native.split(",")):
            run_native(spark, small, state)
            native = run_native(spark, folder, state)
            native["rows_per_second"] = round(2 * options.rows / float(str(native["seconds"])))
            report[f"native_{state}"] = native
    print(json.dumps(report, indent=2))
    spark.sparkContext.stop()


if __name__ == "__main__":
    main()
