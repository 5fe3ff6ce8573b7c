"""FastJoin's skewed streams, by the kernel: how unequal hash shards are, and what balancing them could gain.

In "FastJoin: A Skewness-Aware Distributed Stream Join System" (Zhou et al.), keys move between join instances
while these run. Braid does not do that yet, so there is no figure to put beside the gain that is published;
what is measured is the imbalance that such a thing would have to remove.
Run: `python bench/paper/fastjoin.py [--rows N]`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from common import save

sys.path.insert(0, str(Path(__file__).parents[1]))

from kernels import HOUR, Blocks, Stream, run_kernel, schedule

from braid.core.columns import HASH, TIME
from braid.core.side import Side
from braid.core.times import SECOND
from braid.kernels.join.spec import JoinSpec, JoinType, OutputColumn
from braid.log.hashing import hash_rows
from braid.log.layout import shard_boundaries

EXPONENTS = (0.0, 1.0, 2.0)
"""Of Zipf's law: the paper's groups G00 to G22 are all combinations; 0 is uniform."""
ROWS_PER_KEY = 30
"""300 million rows over 10 million keys in the paper."""
CHUNK = 4_096
SHARDS = (16, 48)
"""The paper's smallest and default number of join instances."""
WITHIN = 50_000
"""Microseconds: hot keys on both sides would give 10^11 matches with a long window."""
SPEC = JoinSpec(
    JoinType.INNER,
    -WITHIN,
    WITHIN,
    1,
    (OutputColumn("x", Side.LEFT, "payload"), OutputColumn("y", Side.RIGHT, "payload")),
)
PUBLISHED = {
    "imbalance": {"hash": 2.5, "after balancing": 1.9},
    "throughput gain over hash (BiStream)": {"48 instances": 0.317, "16 instances": 2.58},
    "throughput gain over ContRand": {"48 instances": 0.16, "16 instances": 1.86},
    "latency against hash, 48 instances": -0.175,
}


def make_stream(rows: int, exponent: float, seed: int) -> Stream:
    """One stream in order of time, its keys by Zipf's law."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, HOUR, rows))
    share = np.cumsum(1 / np.arange(1, rows // ROWS_PER_KEY + 1) ** exponent)
    key = pa.array(np.searchsorted(share, rng.random(rows) * share[-1]))
    table = pa.table({TIME: times, "__key0": key, "payload": rng.random(rows)})
    return Stream(table.append_column(HASH, pa.array(hash_rows([key]))), times)


def loads(streams: dict[Side, Stream], shards: int) -> dict[str, float]:
    """The paper's degree of load imbalance (stored times probing rows, most over least), and that of rows."""
    edges = shard_boundaries(shards)
    rows = {
        side: np.bincount(
            np.searchsorted(edges, stream.table[HASH].to_numpy(), side="right") - 1, minlength=shards
        )
        for side, stream in streams.items()
    }
    load = rows[Side.LEFT] * rows[Side.RIGHT]
    both = rows[Side.LEFT] + rows[Side.RIGHT]
    return {
        "imbalance": round(float(load.max() / max(1, load.min())), 2),
        "rows, most over mean": round(float(both.max() / both.mean()), 2),
    }


def expected(streams: dict[Side, Stream]) -> int:
    """Matches, by binary search in order of key and time."""
    left, right = (
        np.sort(streams[side].table["__key0"].to_numpy() * 2 * HOUR + streams[side].times) for side in Side
    )
    found = np.searchsorted(right, left + WITHIN, side="right") - np.searchsorted(right, left - WITHIN)
    return int(found.sum())


def measure(streams: dict[Side, Stream], shards: int) -> dict[str, object]:
    """Every shard by itself: all rows per second on one core, and what the slowest shard costs."""
    times = {
        side: [int(end) for end in [*stream.times[CHUNK - 1 : -1 : CHUNK], stream.times[-1]]]
        for side, stream in streams.items()
    }
    steps = schedule(times, WITHIN, 60 * SECOND)
    runs = [run_kernel(SPEC, [Blocks(streams, shard, shards, CHUNK)], steps) for shard in range(shards)]
    seconds, matches = np.array([run.seconds for run in runs]), sum(run.matches for run in runs)
    if matches != expected(streams):
        raise SystemExit(f"{matches} matches, but {expected(streams)} are right")
    return {
        "matches": matches,
        "rows_per_second": round(sum(len(stream.times) for stream in streams.values()) / seconds.sum()),
        "seconds, most over mean": round(float(seconds.max() / seconds.mean()), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000, help="rows per side")
    rows = parser.parse_args().rows
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    groups: dict[str, object] = {}
    for left in EXPONENTS:
        for right in EXPONENTS:
            streams = {Side.LEFT: make_stream(rows, left, 1), Side.RIGHT: make_stream(rows, right, 2)}
            found = {f"{shards} shards": loads(streams, shards) for shards in SHARDS}
            groups[f"G{left:.0f}{right:.0f}"] = {**found, **measure(streams, SHARDS[0])}
            print(f"G{left:.0f}{right:.0f}", groups[f"G{left:.0f}{right:.0f}"], flush=True)
    save("fastjoin", {"rows": rows, "groups": groups, "published": PUBLISHED})


if __name__ == "__main__":
    main()
