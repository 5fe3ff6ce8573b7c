"""What a micro-batch costs as an application runs on: the engine in one process, as fast as it goes.

A LEFT join of +-3 minutes over two live streams of 3,000 rows/s each. Rows of the left stream come 2 s late
on average; those of the right one 20 s, with a heavy tail of up to 15 minutes. Five micro-batches per
simulated second, 8 shards. For every simulated minute: CPU time per micro-batch and where time goes, rows and
blocks held, blocks read besides the new ones, and what the process holds. None of it may grow once windows
are full.
Run: `python bench/uptime.py [--minutes N] [--rate R] [--carried] [--json]`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from braid.core.columns import HASH, KEY, TIME
from braid.core.config import AppConfig
from braid.core.counters import Counters, merge
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MINUTE, SECOND
from braid.engine.admission import AdmissionConfig
from braid.engine.blocks import LogBlocks
from braid.kernels.join.operator import JoinOperator
from braid.kernels.join.spec import JoinSpec, JoinType, OutputColumn
from braid.log import Log, hash_rows, write_file
from braid.log.compaction import CompactionConfig
from braid.testing.runtime import LocalOperator

START = 1_704_067_200 * SECOND
WINDOW = 3 * MINUTE
TAIL = 15 * MINUTE
COMPACTED_EVERY = 10
"""Simulated seconds between compactions, as upkeep does them inside a run."""
SCHEMA = pa.schema(
    [
        (HASH, pa.int64()),
        (TIME, pa.int64()),
        (f"{KEY}0", pa.string()),
        ("id", pa.int64()),
        ("text", pa.string()),
    ]
)


def arrivals(side: Side, rate: int, minutes: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Event times, arrival times and keys in order of arrival; right rows follow their left ones."""
    rng = np.random.default_rng([seed, side is Side.RIGHT])
    rows = rate * 60 * minutes
    key = np.arange(rows)
    happened = START + key * SECOND // rate
    delay = rng.exponential(2 * SECOND, rows)
    if side is Side.RIGHT:
        key = np.where(rng.random(rows) < 0.1, -1 - key, key)
        happened = happened + rng.exponential(20 * SECOND, rows).astype(np.int64)
        slow = rng.random(rows) < 0.03
        delay = np.where(slow, rng.exponential(3 * MINUTE, rows), rng.exponential(20 * SECOND, rows))
    arrived = happened + np.minimum(delay, TAIL).astype(np.int64)
    order = np.argsort(arrived, kind="stable")
    return happened[order], arrived[order], key[order]


def batches(
    stream: tuple[np.ndarray, np.ndarray, np.ndarray], period: int, end: int
) -> Iterator[pa.RecordBatch]:
    """What arrives in each period, as a slicer would write it."""
    happened, arrived, key = stream
    cuts = np.searchsorted(arrived, np.arange(START, end + period, period))
    for begin, stop in pairwise(cuts):
        keys = pa.array(key[begin:stop]).cast(pa.string())
        text = pa.array([f"{n:040d}" for n in range(stop - begin)], pa.string())
        columns = [hash_rows([keys]), happened[begin:stop], keys, key[begin:stop], text]
        yield pa.RecordBatch.from_arrays([pa.array(one) for one in columns], schema=SCHEMA)


class Reads:
    """Counts blocks read, and rows in them."""

    def __init__(self) -> None:
        self.blocks = self.rows = 0
        self._read = LogBlocks.read
        LogBlocks.read = lambda source, name, block: self._count(source, name, block)

    def _count(self, source: LogBlocks, name: str, block: Position) -> pa.RecordBatch:
        found = self._read(source, name, block)
        self.blocks += 1
        self.rows += found.num_rows
        return found


def process() -> dict[str, float]:
    """Mapped files of the log, and memory by kind in MB."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    rollup = dict(line.split(":", 1) for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return {
        "arrow_maps": sum(line.endswith(".arrow") for line in maps),
        "maps": len(maps),
        "anonymous_mb": int(rollup["Anonymous"].split()[0]) // 1024,
        "arrow_mb": pa.total_allocated_bytes() >> 20,
    }


def run(root: str, options: argparse.Namespace) -> list[dict[str, float]]:
    """One record per simulated minute."""
    output = (
        OutputColumn("key", Side.LEFT, f"{KEY}0"),
        OutputColumn("text", Side.LEFT, "text"),
        OutputColumn("other", Side.RIGHT, "text"),
    )
    carried = tuple((side, TIME) for side in Side) if options.carried else ()
    spec = JoinSpec(JoinType.LEFT, -WINDOW, WINDOW, 1, output, carried=carried)
    config = AppConfig(shards=options.shards)
    log = Log(root)
    categories = {side: log.create(side.value, SCHEMA, config.shards) for side in Side}
    rescued = tuple(side.value for side in spec.rescued)
    admission = AdmissionConfig(
        {side.value: side.value for side in Side}, spec.upper, config, rescued=rescued
    )
    operator = LocalOperator(root, admission, JoinOperator(spec), config.shards)
    reads, period = Reads(), SECOND // options.per_second
    end = START + options.minutes * MINUTE
    inputs = [batches(arrivals(side, options.rate, options.minutes), period, end) for side in Side]
    found, counted, began, busy = [], [], 0, 0.0
    opened = time.perf_counter()
    for number, rows in enumerate(zip(*inputs, strict=True)):
        now = START + (number + 1) * period
        for side, batch in zip(Side, rows, strict=True):
            entry = write_file(categories[side], f"c{number}", [batch])
            categories[side].publish(number, [entry], wall_time=now)
        _, step = operator.advance(now)
        if step is not None:
            began += 1
            start = time.process_time()
            results = operator.results(step)
            busy += time.process_time() - start
            reads.blocks -= step.size * config.shards
            counted += [count for _, notes in results.values() for count in notes.counts]
        if (number + 1) % (COMPACTED_EVERY * options.per_second) == 0:
            for side in Side:
                while categories[side].compact(CompactionConfig(), now):
                    continue
        if (number + 1) % (60 * options.per_second) == 0:
            found.append(minute(len(found) + 1, counted, began, busy, reads, config.shards))
            found[-1]["elapsed_s"] = round(time.perf_counter() - opened, 1)
            print(json.dumps(found[-1]) if options.json else found[-1], flush=True)
            counted, began, busy, reads.blocks, reads.rows = [], 0, 0.0, 0, 0
    return found


def minute(
    number: int, counted: list[Counters], steps: int, busy: float, reads: Reads, shards: int
) -> dict[str, float]:
    """The figures of a minute; those of how things stand are of its last micro-batch."""
    total, last = merge(counted), merge(counted[-shards:])
    steps = max(1, steps)
    sides = [last.inputs[side] for side in Side]
    return {
        "minute": number,
        "steps": steps,
        "cpu_ms": round(busy / steps * 1000, 1),
        "join_ms": round(total.join_ms / steps, 1),
        "save_ms": round(total.save_ms / steps, 1),
        "pending": last.pending,
        "blocks": sum(side.blocks for side in sides),
        "late": total.inputs[Side.LEFT].late // steps,
        "read_again": reads.blocks // steps,
        "rescued": total.rescued,
        "lost_matches": total.lost_matches,
        "matches": total.matches,
        "state_kb": last.state_bytes >> 10,
        **process(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=20)
    parser.add_argument("--rate", type=int, default=3_000, help="rows per second and side")
    parser.add_argument("--per-second", type=int, default=5, help="micro-batches per second")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--carried", action="store_true", help="report the least event time that is held")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as root:
        run(root, options)


if __name__ == "__main__":
    main()
