"""The join kernel alone, in one process, beside DuckDB's batch join of the same rows.

Two streams of 2M rows with a string key uniform over 1M keys and event times over one hour arrive with
exponential delays of 2 s (left) and 20 s (right) on average; LEFT join, +-3 minutes, chunks of 65,536
rows, 8 shards. Run: `python bench/kernels.py [--rows N] [--runs K] [--json]`.

With `--zipf S` the keys of both sides follow Zipf's law, 30 rows per key on average, and the bounds are so
narrow that most rows of a hot key are out of reach: `python bench/kernels.py --rows 100000 --zipf 2`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import tracemalloc
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from braid.core.columns import HASH, TIME
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MAX_TIME, MIN_TIME, SECOND
from braid.kernels.arrays import Ints
from braid.kernels.join.interval import IntervalJoin
from braid.kernels.join.spec import JoinSpec, JoinType, OutputColumn
from braid.kernels.join.step import two_sided
from braid.kernels.step import Step
from braid.log.hashing import hash_rows
from braid.log.layout import shard_boundaries

HOUR = 3600 * SECOND


@dataclass(frozen=True)
class Stream:
    """Rows in order of arrival."""

    table: pa.Table
    times: np.ndarray


def make_stream(rows: int, keys: int, mean_delay: float, seed: int, exponent: float = 0.0) -> Stream:
    """A seeded stream of the workload; the exponent is that of Zipf's law, 0 for uniform keys."""
    rng = np.random.default_rng(seed)
    times = rng.integers(0, HOUR, rows)
    order = np.argsort(times + rng.exponential(mean_delay * SECOND, rows), kind="stable")
    times = times[order]
    number = rng.integers(0, keys, rows)
    if exponent:
        share = np.cumsum(1 / np.arange(1, keys + 1) ** exponent)
        number = np.searchsorted(share, rng.random(rows) * share[-1])
    key = pa.array(number).cast(pa.string())
    table = pa.table({TIME: times, "__key0": key, "payload": rng.random(rows)})
    return Stream(table.append_column(HASH, pa.array(hash_rows([key]))), times)


class Blocks:
    """Chunks split by shard, in memory."""

    def __init__(self, streams: dict[Side, Stream], shard: int, shards: int, chunk_rows: int) -> None:
        edges = shard_boundaries(shards)
        low = edges[shard]
        high = edges[shard + 1] if shard + 1 < shards else None
        self._blocks: dict[Side, list[pa.RecordBatch]] = {}
        self._ranges: dict[Side, list[tuple[int, int]]] = {}
        self._schemas = {side: stream.table.schema for side, stream in streams.items()}
        for side, stream in streams.items():
            self._blocks[side], self._ranges[side] = [], []
            for start in range(0, len(stream.times), chunk_rows):
                chunk = stream.table.slice(start, chunk_rows)
                hashes = chunk[HASH].to_numpy()
                mine = np.flatnonzero((hashes >= low) & ((hashes < high) if high is not None else True))
                mine = mine[np.argsort(hashes[mine], kind="stable")]
                found = chunk.take(pa.array(mine)).combine_chunks().to_batches()
                # A shard may have no row of a chunk.
                batch = found[0] if found else pa.RecordBatch.from_pylist([], schema=chunk.schema)
                self._blocks[side].append(batch)
                times = batch[TIME].to_numpy()
                self._ranges[side].append(
                    (int(times.min(initial=MAX_TIME)), int(times.max(initial=MIN_TIME)))
                )

    def schema(self, side: Side) -> pa.Schema:
        return self._schemas[side]

    def read(self, side: Side, block: Position) -> pa.RecordBatch:
        return self._blocks[side][block.chunk]

    def overlapping(self, side: Side, until: Position, low: int, high: int) -> list[Position]:
        ranges = self._ranges[side][: until.chunk + 1]
        return [Position(0, i) for i, (first, last) in enumerate(ranges) if first <= high and last >= low]

    def find(
        self, side: Side, until: Position, hashes: Ints, low: Ints, high: Ints
    ) -> list[tuple[Position, Ints | None]]:
        return [(block, None) for block in self.overlapping(side, until, int(low.min()), int(high.max()))]

    def forgotten(self, side: Side) -> int:
        return MIN_TIME


def schedule(times: dict[Side, list[int]], upper: int, slack: int) -> list[Step]:
    """Pace the two inputs chunk by chunk: left time + upper follows right time."""
    steps, at = [], {Side.LEFT: 0, Side.RIGHT: 0}
    now = {Side.LEFT: MIN_TIME, Side.RIGHT: MIN_TIME}
    while at[Side.LEFT] < len(times[Side.LEFT]) or at[Side.RIGHT] < len(times[Side.RIGHT]):
        admitted: dict[Side, list[Position]] = {Side.LEFT: [], Side.RIGHT: []}
        ahead = now[Side.LEFT] + upper - now[Side.RIGHT]
        for side, paused in ((Side.LEFT, ahead > slack), (Side.RIGHT, -ahead > slack)):
            blocked = paused and at[side.other] < len(times[side.other])
            if at[side] < len(times[side]) and not blocked:
                admitted[side].append(Position(0, at[side]))
                now[side] = times[side][at[side]]
                at[side] += 1
        steps.append(two_sided(admitted[Side.LEFT], admitted[Side.RIGHT], now[Side.LEFT], now[Side.RIGHT]))
    steps.append(two_sided([], [], MAX_TIME, MAX_TIME))
    return steps


@dataclass(frozen=True)
class Result:
    """One run of the kernel over all shards."""

    seconds: float
    rows: int
    matches: int
    peak_pending: int


def run_kernel(spec: JoinSpec, blocks: list[Blocks], steps: list[Step]) -> Result:
    """Time the steps of all shards, as one worker would run them."""
    joins = [IntervalJoin(spec, source) for source in blocks]
    out_rows = matches = peak_pending = 0
    start = time.perf_counter()
    for step in steps:
        pending = 0
        for join in joins:
            out = join.step(step)
            out_rows += out.rows.num_rows
            matches += out.counts.matches
            pending += out.counts.pending
        peak_pending = max(peak_pending, pending)
    seconds = time.perf_counter() - start
    return Result(seconds, out_rows, matches, peak_pending)


def measure_memory(spec: JoinSpec, blocks: list[Blocks], steps: list[Step]) -> float:
    """Most bytes held beyond the blocks, per row in the window at that moment or the fullest one so far."""
    joins = [IntervalJoin(spec, source) for source in blocks]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes()
    held = fullest = 0
    for step in steps:
        pending = sum(join.step(step).counts.pending for join in joins)
        fullest = max(fullest, pending)
        held = max(held, tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - before)
    tracemalloc.stop()
    return held / fullest


def run_duckdb(streams: dict[Side, Stream], spec: JoinSpec) -> tuple[float, int, int]:
    """DuckDB's time for the same join, its rows and matches."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("l", streams[Side.LEFT].table)
    connection.register("r", streams[Side.RIGHT].table)
    start = time.perf_counter()
    table = connection.sql(
        f"""SELECT l.__key0, l.payload, r.payload AS other FROM l LEFT JOIN r ON l.__key0 = r.__key0
        AND r.__time BETWEEN l.__time + {spec.lower} AND l.__time + {spec.upper}"""
    ).to_arrow_table()
    seconds = time.perf_counter() - start
    return seconds, table.num_rows, table.num_rows - table["other"].null_count


def count_matches(streams: dict[Side, Stream], spec: JoinSpec) -> int:
    """Matches, by binary search in order of key and time: DuckDB looks at all pairs of equal keys."""
    found = {
        side: stream.table["__key0"].to_numpy().astype(np.int64) * 4 * HOUR + stream.times
        for side, stream in streams.items()
    }
    right = np.sort(found[Side.RIGHT])
    end = np.searchsorted(right, found[Side.LEFT] + spec.upper, side="right")
    return int((end - np.searchsorted(right, found[Side.LEFT] + spec.lower)).sum())


def prepare(
    rows: int,
    minutes: float,
    keys: int,
    shards: int = 8,
    chunk_rows: int = 65_536,
    exponent: float = 0.0,
):
    """Streams, specification, blocks per shard and steps of the workload."""
    upper = round(minutes * 60 * SECOND)
    streams = {
        Side.LEFT: make_stream(rows, keys, 2, 1, exponent),
        Side.RIGHT: make_stream(rows, keys, 20, 2, exponent),
    }
    spec = JoinSpec(
        JoinType.LEFT,
        -upper,
        upper,
        1,
        (
            OutputColumn("key", Side.LEFT, "__key0"),
            OutputColumn("payload", Side.LEFT, "payload"),
            OutputColumn("other", Side.RIGHT, "payload"),
        ),
    )
    blocks = [Blocks(streams, shard, shards, chunk_rows) for shard in range(shards)]
    # Stream times here come from the workload's generator; estimating them is not the kernel's work.
    times = {}
    for side, stream in streams.items():
        rest = np.minimum.accumulate(stream.times[::-1])[::-1]
        ends = list(range(chunk_rows, rows, chunk_rows))
        times[side] = [int(rest[end]) for end in ends] + [int(stream.times.max())]
        times[side] = list(np.maximum.accumulate(times[side]))
    return streams, spec, blocks, schedule(times, upper, 60 * SECOND)


def run_zipf(rows: int, exponent: float, chunk_rows: int, runs: int) -> dict[str, object]:
    """Keys by Zipf's law on both sides; a row meets about a tenth of a row per unit of its key's share."""
    streams, spec, blocks, steps = prepare(
        rows, 5_000 / 60 / rows, max(1, rows // 30), chunk_rows=chunk_rows, exponent=exponent
    )
    found = [run_kernel(spec, blocks, steps) for _ in range(runs)]
    matches = count_matches(streams, spec)
    assert all(run.matches == matches for run in found), "the answer differs from a binary search's"
    seconds = statistics.median(run.seconds for run in found)
    return {
        "chunk_rows": chunk_rows,
        "seconds": round(seconds, 3),
        "rows_per_second": round(2 * rows / seconds),
        "matches": matches,
        "peak_pending_rows": max(run.peak_pending for run in found),
        "steps": len(steps),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows per side")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--zipf", type=float, help="exponent of Zipf's law, for skewed keys instead")
    options = parser.parse_args()
    report = {}
    if options.zipf is not None:
        for chunk_rows in (4_096, 65_536):
            print(run_zipf(options.rows, options.zipf, chunk_rows, options.runs), flush=True)
        return
    keys = options.rows // 2
    # A longer window also finds more matches; with more keys it finds as many as the short one.
    workloads = (
        ("window", 3.0, keys),
        ("window x20", 60.0, keys),
        ("window x20, as many matches", 60.0, keys * 10),
    )
    for name, minutes, keys in workloads:
        streams, spec, blocks, steps = prepare(options.rows, minutes, keys)
        duck_seconds, duck_rows, duck_matches = run_duckdb(streams, spec)
        runs = [run_kernel(spec, blocks, steps) for _ in range(options.runs)]
        for run in runs:
            assert (run.rows, run.matches) == (duck_rows, duck_matches), "the answer differs from DuckDB's"
        seconds = statistics.median(run.seconds for run in runs)
        total = 2 * options.rows
        report[name] = {
            "minutes": minutes,
            "seconds": round(seconds, 3),
            "rows_per_second": round(total / seconds),
            "duckdb_one_thread_rows_per_second": round(total / duck_seconds),
            "matches": duck_matches,
            "peak_pending_rows": max(run.peak_pending for run in runs),
            "bytes_per_row_in_window": round(measure_memory(spec, blocks, steps), 1),
            "steps": len(steps),
        }
    first, *longer = report.values()
    for figures in longer:
        figures["time_per_row_vs_short_window"] = round(figures["seconds"] / first["seconds"], 2)
    if options.json:
        print(json.dumps(report, indent=2))
        return
    for name, figures in report.items():
        print(f"{name}: {figures}")


if __name__ == "__main__":
    main()
