"""Time-series and ASOF joins: the kernel on one core beside DuckDB and Polars, and the whole engine on Spark.

Two series of 1M records each, of 100 machines, published on change: gaps are exponential, 1 s on average.
The time-series join pairs neighbours in both directions within 10 s; the ASOF join takes the previous record
within 10 s. Every answer is compared with DuckDB's. Polars gets an environment of its own on the first run.
Run: `python bench/timeseries.py [--rows N] [--machines M] [--spark] [--json]`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from suite import environments

from braid.core.columns import HASH, TIME
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MAX_TIME, MIN_TIME, SECOND
from braid.kernels.arrays import Ints
from braid.kernels.join.series import SeriesJoin
from braid.kernels.join.spec import JoinType, OutputColumn, SeriesMode, SeriesSpec
from braid.kernels.join.step import two_sided
from braid.log.hashing import hash_rows

START = 1_700_000_000 * SECOND
WITHIN = 10 * SECOND
PRIME = 1_000_000_007
OUTPUT = (
    OutputColumn("lt", Side.LEFT, TIME),
    OutputColumn("lx", Side.LEFT, "x"),
    OutputColumn("rt", Side.RIGHT, TIME),
    OutputColumn("rx", Side.RIGHT, "x"),
)
POLARS = environments.BENCH / "suite" / "programs" / "polars_asof.py"
SPARK_FILES = 16
PROGRAM = """
CREATE APPLICATION bench;
CREATE INPUT TABLE l (t timestamp, machine bigint, x double)
  FROM FILES("{folder}/left", format = "parquet") TIME t ORDERED;
CREATE INPUT TABLE r (t timestamp, machine bigint, x double)
  FROM FILES("{folder}/right", format = "parquet") TIME t ORDERED;
CREATE TABLE result AS SELECT l.t AS lt, l.x AS lx, r.t AS rt, r.x AS rx
  FROM l TIMESERIES JOIN r ON l.machine = r.machine WITHIN INTERVAL '10 seconds'
  STORAGE SCRIBE(category = "result");
"""

Series = dict[Side, pa.Table]
Answer = tuple[int, int]
"""Pairs, and a checksum that does not depend on their order."""


def make_series(rows: int, machines: int, seed: int) -> pa.Table:
    """One series of all machines, in order of time."""
    rng = np.random.default_rng(seed)
    times = START + np.cumsum(rng.exponential(SECOND / machines, rows)).astype(np.int64)
    machine = pa.array(rng.integers(0, machines, rows))
    return pa.table(
        {TIME: times, "__key0": machine, "x": rng.random(rows), HASH: pa.array(hash_rows([machine]))}
    )


class Blocks:
    """Chunks in memory, each sorted by hash, as slicers write them."""

    def __init__(self, series: Series, chunk_rows: int) -> None:
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

    def read(self, side: Side, block: Position) -> pa.RecordBatch:
        return self._blocks[side][block.chunk]

    def overlapping(self, side: Side, until: Position, low: int, high: int) -> list[Position]:
        return []

    def find(
        self, side: Side, until: Position, hashes: Ints, low: Ints, high: Ints
    ) -> list[tuple[Position, Ints | None]]:
        return [(block, None) for block in self.overlapping(side, until, int(low.min()), int(high.max()))]

    def arrived(self, side: Side, block: Position) -> int:
        return 0

    def forgotten(self, side: Side) -> int:
        return MIN_TIME


def run_kernel(blocks: Blocks, series: Series, mode: SeriesMode, chunk_rows: int) -> pa.Table:
    """Join chunk by chunk, as streams that are declared ordered."""
    join = SeriesJoin(SeriesSpec(JoinType.INNER, mode, 1, OUTPUT, WITHIN), blocks)
    chunks = -(-max(table.num_rows for table in series.values()) // chunk_rows)
    ends = {side: table[TIME].to_numpy()[chunk_rows - 1 :: chunk_rows] for side, table in series.items()}
    found = []
    for number in range(chunks):
        times = [int(ends[side][number]) if number < len(ends[side]) else MAX_TIME for side in Side]
        step = [[Position(0, number)] if number * chunk_rows < series[side].num_rows else [] for side in Side]
        found.append(join.step(two_sided(*step, *times)).rows)
    found.append(join.step(two_sided([], [], MAX_TIME, MAX_TIME)).rows)
    return pa.concat_tables(found)


def run_duckdb(series: Series, mode: SeriesMode) -> pa.Table:
    """DuckDB's ASOF join; for pairs in both directions it needs four, and a UNION."""
    duck = duckdb.connect(config={"threads": 1})
    duck.register("l", series[Side.LEFT])
    duck.register("r", series[Side.RIGHT])
    wanted = "l.__key0 AS k, l.__time AS lt, l.x AS lx, r.__time AS rt, r.x AS rx"
    orders = [("l", "r", ">=")]
    if mode is SeriesMode.PAIRS:
        orders += [("l", "r", "<"), ("r", "l", ">="), ("r", "l", "<")]
    parts = [
        f"SELECT {wanted} FROM {a} ASOF JOIN {b} ON l.__key0 = r.__key0 AND {a}.__time {sign} {b}.__time"
        for a, b, sign in orders
    ]
    return duck.sql(
        f"SELECT lt, lx, rt, rx FROM ({' UNION '.join(parts)}) WHERE abs(lt - rt) <= {WITHIN}"
    ).to_arrow_table()


def run_polars(python: Path, folder: Path, mode: SeriesMode) -> tuple[float, Answer]:
    """Polars' ASOF join in a process of its own, on one core; for pairs it needs four, too."""
    job = {
        **{side.value: str(folder / f"{side.value}.arrow") for side in Side},
        "mode": mode.value,
        "within": WITHIN,
        "origin": START,
        "prime": PRIME,
    }
    done = subprocess.run(
        [str(python), str(POLARS), json.dumps(job)],
        env={**os.environ, "POLARS_MAX_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"Polars failed: {done.stderr.strip()}")
    said = json.loads(done.stdout)
    return said["seconds"], (said["pairs"], said["checksum"])


def run_spark(series: Series) -> tuple[float, Answer]:
    """The whole application, Parquet files in and a category out, in a session that has run it once."""
    from braid import api
    from braid.api.data import read_batches
    from braid.home.paths import Home
    from braid.spark.app import Application
    from braid.spark.processes.session import open_session

    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        spark = open_session(master="local[2]", log=Path(log.name))
    seconds, found = 0.0, pa.table({})
    for rows in (min(10_000, len(series[Side.LEFT])), None):
        with tempfile.TemporaryDirectory() as folder:
            write_files({side: table.slice(0, rows) for side, table in series.items()}, Path(folder))
            home = Home.at(Path(folder) / "home")
            plan = api.compile_text(PROGRAM.format(folder=folder)).plan
            started = time.perf_counter()
            Application(plan, home, spark=spark, drain=True).start().wait()
            seconds = time.perf_counter() - started
            found = pa.Table.from_batches(read_batches("result", home))
    spark.sparkContext.stop()
    micros = {name: found[name].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()) for name in ("lt", "rt")}
    return seconds, answer(pa.table(micros))


def write_files(series: Series, folder: Path) -> None:
    """Both series as Parquet files, in order of time."""
    for side, table in series.items():
        (folder / side.value).mkdir()
        columns = {"t": table[TIME].cast(pa.timestamp("us", tz="UTC")), "machine": table["__key0"]}
        rows = pa.table({**columns, "x": table["x"]})
        part = -(-rows.num_rows // SPARK_FILES)
        for number in range(SPARK_FILES):
            pq.write_table(rows.slice(number * part, part), folder / side.value / f"{number:04d}.parquet")


def answer(joined: pa.Table) -> Answer:
    """What a result says, to compare it with others."""
    left, right = ((joined[name].to_numpy() - START) % PRIME for name in ("lt", "rt"))
    return joined.num_rows, int((left * right % PRIME).sum())


@dataclass
class Line:
    """The runs of one system."""

    run: Callable[[], tuple[float, Answer]]
    seconds: list[float] = field(default_factory=list)
    answers: set[Answer] = field(default_factory=set)

    def once(self) -> None:
        """One more run."""
        seconds, found = self.run()
        self.seconds.append(seconds)
        self.answers.add(found)

    def report(self, right: set[Answer]) -> dict[str, object]:
        """Pairs, and pairs per second (median, least, greatest), provided that they are right."""
        if self.answers != right:
            return {"wrong": sorted(self.answers), "expected": sorted(right)}
        ((pairs, _),) = right
        rates = [round(pairs / second) for second in self.seconds]
        return {
            "pairs": pairs,
            "seconds": round(statistics.median(self.seconds), 3),
            "pairs_per_second": round(statistics.median(rates)),
            "from": min(rates),
            "to": max(rates),
        }


def timed(run: Callable[[], pa.Table]) -> Callable[[], tuple[float, Answer]]:
    """The seconds that a run takes, and its answer, which is found after the clock has stopped."""

    def once() -> tuple[float, Answer]:
        started = time.perf_counter()
        joined = run()
        return time.perf_counter() - started, answer(joined)

    return once


def compare(series: Series, chunk_rows: int, runs: int, folder: Path) -> dict[str, dict[str, object]]:
    """All systems on one core, interleaved."""
    started = time.perf_counter()
    blocks = Blocks(series, chunk_rows)
    found: dict[str, dict[str, object]] = {
        "sort by hash": {"seconds": round(time.perf_counter() - started, 3), "note": "the slicers' part"}
    }
    try:
        python: Path | None = environments.polars().python
        for side, table in series.items():
            with pa.ipc.new_file(folder / f"{side.value}.arrow", table.schema) as file:
                file.write_table(table)
    except environments.UnavailableError as error:
        python = None
        found["polars"] = {"skipped": str(error)}
    lines: dict[tuple[str, SeriesMode], Line] = {}
    for mode in (SeriesMode.PAIRS, SeriesMode.PREVIOUS):
        lines["braid kernel", mode] = Line(timed(lambda m=mode: run_kernel(blocks, series, m, chunk_rows)))
        lines["duckdb", mode] = Line(timed(lambda m=mode: run_duckdb(series, m)))
        if python is not None:
            lines["polars", mode] = Line(lambda m=mode: run_polars(python, folder, m))
    for _ in range(runs):
        for line in lines.values():
            line.once()
    for (name, mode), line in lines.items():
        found[f"{name}, {mode.value}"] = line.report(lines["duckdb", mode].answers)
    return found


def main() -> None:
    """Measure, and print a line per system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--machines", type=int, default=100)
    parser.add_argument("--chunk-rows", type=int, default=65_536)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--spark", action="store_true", help="also the whole application, on all cores")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    series = {
        Side.LEFT: make_series(options.rows, options.machines, 1),
        Side.RIGHT: make_series(options.rows, options.machines, 2),
    }
    cores = os.sched_getaffinity(0)
    # Children inherit the core: Polars has the same one.
    os.sched_setaffinity(0, {max(cores)})
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        found = compare(series, options.chunk_rows, options.runs, Path(folder))
    os.sched_setaffinity(0, cores)
    if options.spark:
        line = Line(lambda: run_spark(series))
        line.once()
        found["braid on spark, pairs"] = line.report({answer(run_duckdb(series, SeriesMode.PAIRS))})
    for name, values in found.items():
        print(json.dumps({"system": name, **values}) if options.json else f"{name:24} {values}")


if __name__ == "__main__":
    main()
