"""The time-series paper's figures, by the kernel on one core: its estimate of section III-B, and its bounds.

"Deterministic Time-Series Joins for Asynchronous High-Throughput Data Streams" (Schranz and Jeremias) has no
measured throughput, and announces it; its authors give one with their implementation.
Run: `python bench/paper/time_series.py [--seconds S] [--rows N]`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from common import save

sys.path.insert(0, str(Path(__file__).parents[1]))

from timeseries import OUTPUT, Blocks, Series, answer, make_series, run_duckdb, run_kernel

from braid.core.columns import TIME
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MAX_TIME, SECOND
from braid.kernels.join.series import SeriesJoin
from braid.kernels.join.spec import JoinType, SeriesMode, SeriesSpec
from braid.kernels.join.step import two_sided

RATE = 1000
"""Records per second of either stream, as in the paper's estimate."""
LATENCY = 0.05
"""Seconds that a pair may wait, as in the paper's estimate."""
PUBLISHED = {
    "candidates_per_second": 20_000_000,
    "pairs_per_second_at_most": 4_000,
    "repository_records_per_second": {"from a list": 100_000, "from Kafka": 15_000, "Flink": 5_000},
}


def estimate(seconds: int) -> dict[str, object]:
    """Two streams of one machine, joined every 50 ms: what a second of them costs, and gives."""
    chunk = round(RATE * LATENCY)
    rng = np.random.default_rng
    series = {
        side: make_series(seconds * RATE, 1, seed).set_column(0, TIME, pa.array(_times(rng(seed), seconds)))
        for side, seed in ((Side.LEFT, 1), (Side.RIGHT, 2))
    }
    blocks = Blocks(series, chunk)
    join = SeriesJoin(SeriesSpec(JoinType.INNER, SeriesMode.PAIRS, 1, OUTPUT, SECOND), blocks)
    ends = {side: table[TIME].to_numpy()[chunk - 1 :: chunk] for side, table in series.items()}
    took, pairs = [], 0
    for number in range(len(ends[Side.LEFT])):
        started = time.perf_counter()
        both = [[Position(0, number)], [Position(0, number)]]
        out = join.step(two_sided(*both, *(int(ends[side][number]) for side in Side)))
        took.append(time.perf_counter() - started)
        pairs += out.rows.num_rows
    pairs += join.step(two_sided([], [], MAX_TIME, MAX_TIME)).rows.num_rows
    return {
        "pairs_per_second_of_stream": round(pairs / seconds),
        "busy": round(sum(took) / seconds, 4),
        "step_ms_median": round(1000 * statistics.median(took), 3),
        "step_ms_p99": round(1000 * float(np.quantile(took, 0.99)), 3),
    }


def bounds(rows: int) -> dict[str, object]:
    """Pairs and throughput of the dense and of the sparse join, for 100 machines."""
    series: Series = {Side.LEFT: make_series(rows, 100, 1), Side.RIGHT: make_series(rows, 100, 2)}
    blocks = Blocks(series, 65_536)
    found: dict[str, object] = {"records": 2 * rows}
    for mode, limit in ((SeriesMode.PAIRS, 4 * rows), (SeriesMode.SPARSE, 2 * rows)):
        seconds = []
        for _ in range(3):
            started = time.perf_counter()
            joined = run_kernel(blocks, series, mode, 65_536)
            seconds.append(time.perf_counter() - started)
        if mode is SeriesMode.PAIRS and answer(joined) != answer(run_duckdb(series, mode)):
            raise SystemExit("the answer differs from DuckDB's")
        middle = statistics.median(seconds)
        found[mode.value] = {
            "pairs": joined.num_rows,
            "pairs_at_most": limit,
            "pairs_per_second": round(joined.num_rows / middle),
            "records_per_second": round(2 * rows / middle),
        }
    return found


def _times(rng: np.random.Generator, seconds: int) -> np.ndarray:
    """Distinct times at the paper's rate, in order."""
    return 1_700_000_000 * SECOND + np.sort(
        rng.choice(seconds * SECOND, seconds * RATE, replace=False, shuffle=False)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="length of the streams of the estimate")
    parser.add_argument("--rows", type=int, default=1_000_000, help="records per side for the bounds")
    chosen = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    found = {"estimate": estimate(chosen.seconds), "bounds": bounds(chosen.rows), "published": PUBLISHED}
    save("time_series", found)
    print(found)


if __name__ == "__main__":
    main()
