"""A year of a join's life, in simulated time and without Spark: what grows, and what is lost uncounted?

    python bench/year.py                        # 365 days, about a quarter of an hour
    python bench/year.py --days 30 --seed 7

Daily rhythm, outages of minutes to a day on either side, bursts, wrong clocks, restarts, retention and
compaction: see `braid.testing.marathon`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from braid.testing.marathon import Marathon, Sample, judge, run


def main() -> None:
    """Run it, and end with code 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="bench/year.py", description="A year of a join's life.")
    parser.add_argument("--days", type=float, default=365)
    parser.add_argument("--rows-per-day", type=int, default=6_000, help="of both sides")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--outages", type=float, default=4, help="a month, of either side")
    options = parser.parse_args()
    marathon = Marathon(
        days=options.days,
        rows=round(options.days * options.rows_per_day),
        seed=options.seed,
        outages=options.outages,
    )
    started = time.monotonic()
    print("| day | files | log, kB | state, bytes | rows held | blocks | Arrow, kB | mapped files |")
    print("|---|---|---|---|---|---|---|---|")
    outcome = run(marathon, lambda sample: _show(sample, every=max(1, round(options.days / 24))))
    verdict = judge(marathon, outcome)
    print(f"\n{options.days:g} days in {time.monotonic() - started:,.0f} s: {verdict}")
    for name in ("files", "bytes", "state_bytes", "held", "arrow_bytes", "maps"):
        second, last = (_most(outcome.samples, quarter, name) for quarter in (1, 3))
        print(f"most {name}: second quarter {second:,}, last {last:,} ({last / (second or 1) - 1:+.0%})")
    if not verdict.sound:
        sys.exit("something is wrong")


def _show(sample: Sample, every: int) -> None:
    if sample.day % every == 0:
        sizes = (
            sample.bytes // 1000,
            sample.state_bytes,
            sample.held,
            sample.blocks,
            sample.arrow_bytes // 1000,
        )
        print(
            f"| {sample.day} | {sample.files} | {' | '.join(map(str, sizes))} | {sample.maps} |", flush=True
        )


def _most(samples: Sequence[Sample], quarter: int, name: str) -> int:
    length = len(samples) // 4
    part = samples[quarter * length : (quarter + 1) * length]
    return max((int(getattr(sample, name)) for sample in part), default=0)


if __name__ == "__main__":
    main()
