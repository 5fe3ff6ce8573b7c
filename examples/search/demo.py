"""An hour of search sessions, joined on Spark and compared with DuckDB's batch join: `make demo`."""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time
from pathlib import Path

import duckdb
import numpy as np
import psutil
import pyarrow as pa

from braid import api
from braid.api.data import read
from braid.core.counters import merge
from braid.core.json_rows import json_rows
from braid.core.times import HOUR, MINUTE
from braid.home.metrics import read_metrics
from braid.home.paths import Home
from braid.testing.streams import ClientLike, ServerLike, Stream

PROGRAM = Path(__file__).with_name("app.sql")
COMMIT_ROWS = 20_000
ACTIONS = np.array(["click", "scroll", "dwell", "back"])
QUERIES = np.array(["weather", "news", "pizza near me", "train times", "how to tie a knot"])


class Memory(threading.Thread):
    """Watches the memory of this process and of all that it has started."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(1):
            me = psutil.Process()
            total = 0
            for process in (me, *me.children(recursive=True)):
                try:
                    total += process.memory_full_info().uss
                except psutil.NoSuchProcess:
                    continue
            self.peak = max(self.peak, total)

    def stop(self) -> int:
        self._done.set()
        self.join()
        return self.peak


def tables(rows: int, seed: int) -> dict[str, pa.Table]:
    """Requests in order; client events minutes late, out of order, one in twenty without a request."""
    requests = ServerLike(rows // 2, duration=HOUR).generate(seed)
    client = ClientLike(rows - rows // 2, delay=2 * MINUTE, slowest_delay=2 * HOUR)
    events = client.generate(requests, seed)
    rng = np.random.default_rng(seed)
    return {
        "client_events": _table(
            events,
            action=ACTIONS[rng.integers(0, len(ACTIONS), len(events))],
            position=pa.array(rng.integers(1, 11, len(events)), pa.int32()),
        ),
        "requests": _table(
            requests,
            query=QUERIES[rng.integers(0, len(QUERIES), len(requests))],
            latency_ms=rng.exponential(40, len(requests)),
        ),
    }


def _table(stream: Stream, **columns: object) -> pa.Table:
    return pa.table({"event_time": stream.event_time, "request_id": stream.key, **columns})


def publish(home: Home, name: str, table: pa.Table) -> None:
    """Append a table as JSON records, in the order of arrival."""
    category = home.log().create(name, raw=True)
    for batch in table.combine_chunks().to_batches(max_chunksize=COMMIT_ROWS):
        category.append(pa.table({"value": json_rows(batch)}))


def batch_join(streams: dict[str, pa.Table]) -> tuple[int, int]:
    """Rows and matches of DuckDB's join of the same data."""
    connection = duckdb.connect()
    for name, table in streams.items():
        connection.register(name, table)
    found = connection.execute("""
      SELECT count(*), count(r.request_id) FROM client_events c LEFT JOIN requests r
      ON c.request_id = r.request_id
      AND r.event_time BETWEEN c.event_time - 900000000 AND c.event_time + 60000000
    """).fetchone()
    assert found is not None
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000, help="rows of both streams together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--home", type=Path, default=Path("demo-home"))
    options = parser.parse_args()
    shutil.rmtree(options.home, ignore_errors=True)
    home = Home.at(options.home)
    say(f"generating an hour of search sessions: {options.rows:,} rows")
    streams = tables(options.rows, options.seed)
    for name, table in streams.items():
        publish(home, name, table)
    say("starting Spark, and draining examples/search/app.sql")
    memory = Memory()
    memory.start()
    started = time.perf_counter()
    handle = api.run(PROGRAM, home.root, drain=True)
    handle.wait()
    seconds = time.perf_counter() - started
    peak = memory.stop()
    rows, matches = batch_join(streams)
    report(home, streams, seconds, peak, rows, matches)


def report(
    home: Home, streams: dict[str, pa.Table], seconds: float, peak: int, rows: int, matches: int
) -> None:
    """What came out, beside what DuckDB says."""
    out = read("search_results", home)
    matched = out["matched"].to_numpy(zero_copy_only=False).sum()
    total = sum(table.num_rows for table in streams.values())
    batches = read_metrics(home.application("search_sessions").metrics_file("sessions"))
    busy = sum(batch.duration_ms["triggerExecution"] for batch in batches[1:]) / 1000
    counted = merge(batch.counters for batch in batches)
    behind, rescued = counted.input("left").behind, counted.rescued
    share = 100 * matched / out.num_rows
    say("")
    say(f"  rows in              {total:,} ({', '.join(f'{t.num_rows:,} {n}' for n, t in streams.items())})")
    say(f"  rows out             {out.num_rows:,}; DuckDB's batch join gives {rows:,}")
    say(f"  match rate           {share:.3f} %; DuckDB's batch join gives {100 * matches / rows:.3f} %")
    say(
        f"  late client events   {behind:,} behind stream time; {rescued:,} matches found for them in the log"
    )
    say(f"  time                 {seconds:.1f} s with the start of Spark, {busy:.1f} s of them in the join")
    say(f"  throughput           {total / seconds:,.0f} rows/s, with the start of Spark")
    say(f"  peak memory          {peak / 1e6:,.0f} MB, the JVM and all Python workers together")
    say("")
    say("Where to look next:")
    for command in (
        "status",
        "categories",
        "cat search_results --limit 5",
        "cat search_sessions.dead_letter",
    ):
        say(f"  .venv/bin/braid {command} --home {home.root.name}")
    say("  .venv/bin/braid explain examples/search/app.sql")
    if out.num_rows != rows or matched != matches:
        say("the results differ")
        sys.exit(1)


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
