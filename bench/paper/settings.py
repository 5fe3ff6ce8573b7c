"""Beyond the paper: with late lookups, what percentile and slack cost and bring.

Run: `python bench/paper/settings.py [--rows N] [--interval MINUTES]`.
"""

from __future__ import annotations

import argparse

from common import run, save, summary

from braid.core.times import MINUTE
from braid.testing import search_sessions
from braid.testing.workloads import SEARCH_BOUNDS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=600_000, help="rows of both streams")
    parser.add_argument("--interval", type=float, default=5, help="minutes between commits")
    chosen = parser.parse_args()
    left, right = search_sessions(chosen.rows, days=3)
    figures = {}
    for percentile in (1, 2, 5, 10):
        for slack in ("1 minute", "30 minutes"):
            found = run(
                left,
                right,
                SEARCH_BOUNDS,
                round(chosen.interval * MINUTE),
                percentile=percentile,
                slack=slack,
            )
            figures[f"percentile {percentile}, slack {slack}"] = summary(found)
    save("settings", {"rows": [len(left), len(right)], "interval_minutes": chosen.interval, "runs": figures})


if __name__ == "__main__":
    main()
