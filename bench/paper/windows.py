"""Section 7.2, Figures 9 and 10: buffered rows and match rate for windows of one to six hours.

Run: `python bench/paper/windows.py [--rows N] [--interval MINUTES]`.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import by_period, figure, run, save, summary

from braid.core.times import HOUR, MINUTE
from braid.testing import search_sessions

HOURS = range(1, 7)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=600_000, help="rows of both streams")
    parser.add_argument("--interval", type=float, default=5, help="minutes between commits")
    chosen = parser.parse_args()
    left, right = search_sessions(chosen.rows, days=3)
    interval = round(chosen.interval * MINUTE)
    runs = {
        (hours, lookup): run(left, right, (-hours * HOUR, 30 * MINUTE), interval, late_lookup=lookup)
        for lookup in (True, False)
        for hours in HOURS
    }
    with figure("figure9") as (axes,):
        for hours in HOURS:
            timeline = runs[hours, True].timeline
            live = timeline.live()
            since = (timeline.wall_time[live] - left.arrival_time[0]) / HOUR
            axes.plot(since, timeline.pending_right[live] / 1e3, label=f"{hours} h")
        axes.set(xlabel="hour", ylabel="right window, 1000 rows")
        axes.legend(fontsize=6, ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1))
    with figure("figure10") as (axes,):
        for (hours, lookup), style in zip(
            [(6, True), (6, False), (1, True), (1, False)], ("-", ":", "-", ":"), strict=True
        ):
            rate = by_period(left, runs[hours, lookup].matched, 2 * HOUR)
            axes.plot(
                2 * np.arange(len(rate)),
                rate,
                style,
                label=f"{hours} h{'' if lookup else ', no late lookups'}",
            )
        axes.set(xlabel="hour", ylabel="left rows matched, %")
        axes.legend(fontsize=6, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
    gain = {
        lookup: round(100 * (runs[6, lookup].match_rate - runs[1, lookup].match_rate), 3)
        for lookup in (True, False)
    }
    save(
        "windows",
        {
            "rows": [len(left), len(right)],
            "interval_minutes": chosen.interval,
            "gain_1h_to_6h_points": {"late lookups": gain[True], "no late lookups": gain[False]},
            "runs": {f"{h} h{'' if on else ', no late lookups'}": summary(r) for (h, on), r in runs.items()},
        },
    )
    print("gain from 1 h to 6 h in points:", gain)


if __name__ == "__main__":
    main()
