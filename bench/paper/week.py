"""Section 7.1, Figure 8: a week of streaming joins beside batch joins over daily partitions.

Run: `python bench/paper/week.py [--rows N] [--interval MINUTES]`.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import by_period, figure, run, save, summary

from braid.core.times import DAY, MINUTE
from braid.testing import batch_matched, search_sessions
from braid.testing.workloads import SEARCH_BOUNDS

STREAMING = {
    "streaming, late lookups": {},
    "streaming, no late lookups": {"late_lookup": False},
    "the paper's scheme": {"late_lookup": False, "stream_time": "ascending"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of both streams")
    parser.add_argument("--interval", type=float, default=3, help="minutes between commits")
    chosen = parser.parse_args()
    left, right = search_sessions(chosen.rows)
    batch = {
        "batch 1d to 2d": batch_matched(left, right, None, right_days=2),
        "batch 1d to 1d": batch_matched(left, right, None, right_days=1),
        "batch 1d to 1d, 3.5 h": batch_matched(left, right, SEARCH_BOUNDS, right_days=1),
    }
    interval = round(chosen.interval * MINUTE)
    runs = {name: run(left, right, SEARCH_BOUNDS, interval, **some) for name, some in STREAMING.items()}
    batch["batch 3.5 h, no partitions"] = runs["streaming, late lookups"].batch_matched
    matched = {**batch, **{name: found.matched for name, found in runs.items()}}
    rates = {name: by_period(left, mask, DAY) for name, mask in matched.items()}
    with figure("figure8", height=3.2) as (axes,):
        styles = ("s-", "s-", "s-", "o-", "x:", "+--", "v--")
        for (name, rate), style in zip(rates.items(), styles, strict=True):
            axes.plot(np.arange(1, len(rate) + 1), rate, style, label=name, markersize=4)
        axes.set(xlabel="day of arrival", ylabel="left rows matched, %")
        axes.legend(fontsize=6, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
    with figure("buffered", rows=2) as (window, pending):
        for name, found in runs.items():
            live = found.timeline.live()
            days = (found.timeline.wall_time[live] - left.arrival_time[0]) / DAY
            window.plot(days, found.timeline.pending_right[live] / 1e3, label=name, linewidth=0.8)
            pending.plot(days, found.timeline.pending_left[live] / 1e3, linewidth=0.8)
        found = runs["streaming, late lookups"]
        live = found.timeline.live()
        days = (found.timeline.wall_time[live] - left.arrival_time[0]) / DAY
        window.plot(days, found.window_rows[live] / 1e3, "k:", label="rows within window + slack")
        window.set(ylabel="right window, 1000 rows")
        pending.set(xlabel="day", ylabel="left pending, 1000 rows")
        window.legend(fontsize=6, ncols=2)
    figures = {
        "rows": [len(left), len(right)],
        "interval_minutes": chosen.interval,
        "week": {name: round(float(100 * mask.mean()), 3) for name, mask in matched.items()},
        "by_day": {name: [round(float(r), 3) for r in rate] for name, rate in rates.items()},
        "runs": {name: summary(found) for name, found in runs.items()},
    }
    save("week", figures)
    print(figures["week"])


if __name__ == "__main__":
    main()
