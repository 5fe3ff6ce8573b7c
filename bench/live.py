"""Braid live, beside Flink SQL and Spark's own join: rows keep coming, and everything is watched over time.

    python bench/live.py                                    # 3,000 rows/s per side, 10 minutes each
    python bench/live.py --systems braid --rate 10000 --minutes 60 --category \
        --always 'retention=10 minutes' --always 'output_retention=10 minutes'
    python bench/live.py --systems braid --set 'latency=1 second' --set 'latency=3 seconds'   # one run each

Nothing else should run on the machine meanwhile. See `bench/README.md`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from suite.cli import RESULTS, names
from suite.live import Live
from suite.live_report import measure
from suite.systems import SYSTEMS, set_up

FOLLOWING = {name: system for name, system in SYSTEMS.items() if system.follows}


def main() -> None:
    """Run what the arguments say."""
    options = _options()
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - started:6.0f} s] {text}", flush=True)

    measure(_runs(options), set_up(options.systems, say), options.results, say, options.name)


def _runs(options: argparse.Namespace) -> list[Live]:
    found = []
    shared = dict(pair.split("=", 1) for pair in options.always)
    for system in options.systems:
        varied = [dict([pair.split("=", 1)]) for pair in options.set] if system == "braid" else []
        for settings in varied or [{}]:
            own = {**shared, **settings} if system == "braid" else {}
            category = options.category and system == "braid"
            found.append(Live(system, options.rate, options.minutes * 60, options.idle, own, category))
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/live.py", description="Braid live, beside other systems.")
    parser.add_argument(
        "--systems", type=names(FOLLOWING), default=list(FOLLOWING), help=", ".join(FOLLOWING)
    )
    parser.add_argument("--rate", type=float, default=3000, help="rows per second and side")
    parser.add_argument("--minutes", type=float, default=10, help="how long rows come")
    parser.add_argument("--idle", type=float, default=60, help="seconds to watch without rows afterwards")
    parser.add_argument("--category", action="store_true", help="Braid reads categories, instead of files")
    parser.add_argument(
        "--set", action="append", default=[], help="an option of Braid's application; a run for each"
    )
    parser.add_argument(
        "--always", action="append", default=[], help="an option of Braid's application, in every run"
    )
    parser.add_argument("--name", default="live", help="name of the results")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where to write them")
    return parser.parse_args()


if __name__ == "__main__":
    main()
