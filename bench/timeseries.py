"""Time-series and ASOF joins: the kernel on one core beside DuckDB and Polars, and the whole engine on Spark.

Two series of 1M records each, of 100 machines, published on change: gaps are exponential, 1 s on average.
The time-series join pairs neighbours in both directions within 10 s; the ASOF join takes the previous record.
Run: `python bench/timeseries.py [--rows N] [--machines M] [--spark] [--json]`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from braid.kernels.blocks import BlockId
from braid.kernels.series import SeriesJoin
from braid.kernels.side import Side
from braid.kernels.spec import (
    HASH,
    MAX_TIME,
    MICROS,
    MIN_TIME,
    TIME,
    JoinType,
    OutputColumn,
    SeriesMode,
    SeriesSpec,
)
from braid.kernels.step import Step
from braid.log.hashing import hash_rows

START = 1_700_000_000 * MICROS
WITHIN = 10 * MICROS
OUTPUT = (
    OutputColumn("lt", Side.LEFT, TIME),
    OutputColumn("lx", Side.LEFT, "x"),
    OutputColumn("rt", Side.RIGHT, TIME),
    OutputColumn("rx", Side.RIGHT, "x"),
)


def make_series(rows: int, machines: int, seed: int) -> pa.Table:
    """One series of all machines, in order of time."""
    rng = np.random.default_rng(seed)
    times = START + np.cumsum(rng.exponential(MICROS / machines, rows)).astype(np.int64)
    machine = pa.array(rng.integers(0, machines, rows))
    return pa.table(
        {TIME: times, "__key0": machine, "x": rng.random(rows), HASH: pa.array(hash_rows([machine]))}
    )


class Blocks:
    """Chunks in memory, each sorted by hash."""

    def __init__(self, series: dict[Side, pa.Table], chunk_rows: int) -> None:
        self._blocks: dict[Side, list[pa.RecordBatch]] = {}
        self._schemas = {side: table.schema for side, table in series.items()}
        for side, table in series.items():
            chunks = (table.slice(start, chunk_rows) for start in range(0, table.num_rows, chunk_rows))
            self._blocks[side] = [
                chunk.take(np.argsort(chunk[HASH].to_numpy(), kind="stable")).combine_chunks().to_batches()[0]
                for chunk in chunks
            ]

    def schema(self, side: Side) -> pa.Schema:
        return self._schemas[side]

    def read(self, side: Side, block: BlockId) -> pa.RecordBatch:
        return self._blocks[side][block.chunk]

    def overlapping(self, side: Side, until: BlockId, low: int, high: int) -> list[BlockId]:
        return []

    def arrived(self, side: Side, block: BlockId) -> int:
        return 0

    def forgotten(self, side: Side) -> int:
        return MIN_TIME


def run_kernel(
    blocks: Blocks, series: dict[Side, pa.Table], mode: SeriesMode, within: int | None, chunk_rows: int
) -> int:
    """Join chunk by chunk, as streams that are declared ordered; the number of pairs."""
    join = SeriesJoin(SeriesSpec(JoinType.INNER, mode, 1, OUTPUT, within), blocks)
    chunks = -(-max(table.num_rows for table in series.values()) // chunk_rows)
    ends = {side: table[TIME].to_numpy()[chunk_rows - 1 :: chunk_rows] for side, table in series.items()}
    pairs = 0
    for number in range(chunks):
        times = [int(ends[side][number]) if number < len(ends[side]) else MAX_TIME for side in Side]
        step = [[BlockId(0, number)] if number * chunk_rows < series[side].num_rows else [] for side in Side]
        pairs += join.step(Step(*step, *times)).rows.num_rows
    return pairs + join.step(Step([], [], MAX_TIME, MAX_TIME)).rows.num_rows


def run_duckdb(series: dict[Side, pa.Table], mode: SeriesMode) -> int:
    """DuckDB's ASOF join; for pairs in both directions it needs four, and a UNION."""
    duck = duckdb.connect(config={"threads": 1})
    duck.register("l", series[Side.LEFT])
    duck.register("r", series[Side.RIGHT])
    if mode is SeriesMode.PREVIOUS:
        query = (
            "SELECT l.__time AS lt, l.x AS lx, r.__time AS rt, r.x AS rx "
            "FROM l ASOF JOIN r ON l.__key0 = r.__key0 AND l.__time >= r.__time"
        )
    else:
        parts = [
            f"SELECT l.__key0 AS k, l.__time AS lt, l.x AS lx, r.__time AS rt, r.x AS rx "
            f"FROM {a} ASOF JOIN {b} ON l.__key0 = r.__key0 AND {a}.__time {sign} {b}.__time"
            for a, b in (("l", "r"), ("r", "l"))
            for sign in (">=", "<")
        ]
        query = f"SELECT * FROM ({' UNION '.join(parts)}) WHERE abs(lt - rt) <= {WITHIN}"
    duck.execute(f"CREATE TABLE joined AS {query}")
    return int(duck.execute("SELECT count(*) FROM joined").fetchall()[0][0])


def run_polars(series: dict[Side, pa.Table]) -> int:
    """Polars' ASOF join of the previous record."""
    import polars

    left, right = (polars.from_arrow(series[side]).sort(TIME) for side in Side)
    joined = left.join_asof(right, on=TIME, by="__key0", strategy="backward", coalesce=False)
    return int(joined.drop_nulls(f"{TIME}_right").height)


def run_spark(series: dict[Side, pa.Table]) -> tuple[int, float]:
    """The whole application, Parquet files in and a category out; pairs and seconds, in a warm session."""
    from braid import api
    from braid.home import Home
    from braid.spark.app import Application
    from braid.spark.session import open_session

    program = """
    CREATE APPLICATION bench;
    CREATE INPUT TABLE l (t timestamp, machine bigint, x double)
      FROM FILES("{folder}/left", format = "parquet") TIME t ORDERED;
    CREATE INPUT TABLE r (t timestamp, machine bigint, x double)
      FROM FILES("{folder}/right", format = "parquet") TIME t ORDERED;
    CREATE TABLE result AS SELECT l.t AS lt, l.x AS lx, r.t AS rt, r.x AS rx
      FROM l TIMESERIES JOIN r ON l.machine = r.machine WITHIN INTERVAL '10 seconds'
      STORAGE SCRIBE(category = "result");
    """
    spark = open_session(master="local[2]")
    seconds, pairs = 0.0, 0
    for rows in (min(10_000, len(series[Side.LEFT])), None):
        with tempfile.TemporaryDirectory() as folder:
            for side, table in series.items():
                (Path(folder) / side.value).mkdir()
                part = table.slice(0, rows)
                files = pa.table(
                    {
                        "t": part[TIME].cast(pa.timestamp("us", tz="UTC")),
                        "machine": part["__key0"],
                        "x": part["x"],
                    }
                )
                pq.write_table(files, Path(folder) / side.value / "a.parquet")
            home = Home.at(Path(folder) / "home")
            plan = api.compile_text(program.format(folder=folder)).plan
            started = time.perf_counter()
            Application(plan, home, spark=spark, drain=True).start().wait()
            seconds = time.perf_counter() - started
            log = home.log().open("result").reader()
            pairs = sum(log.commit(number).rows for number in range(log.first, log.latest() + 1))
    spark.sparkContext.stop()
    return pairs, seconds


def measure(run: Callable[[], int], runs: int) -> dict[str, object]:
    """Pairs, and the median of pairs per second."""
    seconds, pairs = [], 0
    for _ in range(runs):
        started = time.perf_counter()
        pairs = run()
        seconds.append(time.perf_counter() - started)
    middle = statistics.median(seconds)
    return {"pairs": pairs, "seconds": round(middle, 3), "pairs_per_second": round(pairs / middle)}


def main() -> None:
    """Measure, and print a line per system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--machines", type=int, default=100)
    parser.add_argument("--chunk-rows", type=int, default=65_536)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--spark", action="store_true", help="also the whole application")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    series = {
        Side.LEFT: make_series(options.rows, options.machines, 1),
        Side.RIGHT: make_series(options.rows, options.machines, 2),
    }
    if hasattr(os, "sched_setaffinity") and not options.spark:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    chunk = options.chunk_rows
    blocks = Blocks(series, chunk)
    found: dict[str, dict[str, object]] = {
        "braid kernel, pairs": measure(
            lambda: run_kernel(blocks, series, SeriesMode.PAIRS, WITHIN, chunk), options.runs
        ),
        "duckdb, pairs": measure(lambda: run_duckdb(series, SeriesMode.PAIRS), options.runs),
        "braid kernel, asof": measure(
            lambda: run_kernel(blocks, series, SeriesMode.PREVIOUS, None, chunk), options.runs
        ),
        "duckdb, asof": measure(lambda: run_duckdb(series, SeriesMode.PREVIOUS), options.runs),
    }
    if importlib.util.find_spec("polars") is None:
        found["polars, asof"] = {"skipped": "polars is not installed"}
    else:
        found["polars, asof"] = measure(lambda: run_polars(series), options.runs)
    if options.spark:
        pairs, seconds = run_spark(series)
        found["braid on spark, pairs"] = {
            "pairs": pairs,
            "seconds": round(seconds, 1),
            "pairs_per_second": round(pairs / seconds),
        }
    for name, line in found.items():
        print(json.dumps({"system": name, **line}) if options.json else f"{name:24} {line}")


if __name__ == "__main__":
    main()
