"""Section 7.4, Figure 12: stream time of a client-like and a server-like stream over a day from noon on.

Run: `python bench/paper/stream_time.py [--rows N] [--seconds S]`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from common import figure, save

from braid.core.times import HOUR, MIN_TIME, MINUTE, SECOND
from braid.eventtime.ascending import Ascending, AscendingClock
from braid.eventtime.calibrated import Calibrated
from braid.eventtime.estimator import Estimator
from braid.testing import Stream
from braid.testing.streams import MONDAY, chunk_times, cut
from braid.testing.workloads import search_sessions

NOON = MONDAY + 12 * HOUR
QUARTER = 15 * MINUTE
ESTIMATORS: dict[str, dict[float, Estimator]] = {
    "ascending": {5: Ascending(5, windows=5, max_window=128), 1: Ascending(1)},
    "calibrated": {5: Calibrated(5), 1: Calibrated(1)},
}


def follow(estimator: Estimator, stream: Stream, chunks: list) -> np.ndarray:
    """Per chunk: wall time, rows, rows behind the estimate they met, delay after it, window in chunks."""
    clock = estimator.start()
    found = []
    for piece, chunk in chunks:
        before = clock.stream_time
        clock.observe(chunk)
        if before == MIN_TIME:
            continue
        late = np.count_nonzero(stream.event_time[piece.start : piece.stop] < before)
        window = clock.window if isinstance(clock, AscendingClock) else 0
        found.append(
            (piece.wall_time, piece.stop - piece.start, late, piece.wall_time - clock.stream_time, window)
        )
    return np.array(found, np.int64)


def quarters(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Per quarter of an hour: hours since noon, mean delay in seconds, mean window, accuracy in percent."""
    _, index = np.unique(table[:, 0] // QUARTER, return_inverse=True)
    rows = np.bincount(index, table[:, 1])
    chunks = np.bincount(index)
    return (
        np.arange(len(rows)) / 4,
        np.bincount(index, table[:, 3]) / chunks / SECOND,
        np.bincount(index, table[:, 4]) / chunks,
        100 * (1 - np.bincount(index, table[:, 2]) / rows),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of both streams")
    parser.add_argument("--seconds", type=float, default=2, help="length of a micro-batch")
    chosen = parser.parse_args()
    streams = dict(zip("AB", search_sessions(chosen.rows, days=1, start=NOON), strict=True))
    figures: dict[str, dict[str, object]] = {}
    curves = {}
    for name, stream in streams.items():
        pieces = list(cut(stream, round(chosen.seconds * SECOND)))
        chunks = [(piece, chunk_times(stream, piece)) for piece in pieces]
        for kind, by_percentile in ESTIMATORS.items():
            for percentile, estimator in by_percentile.items():
                started = time.perf_counter()
                table = follow(estimator, stream, chunks)
                seconds = time.perf_counter() - started
                curves[name, kind, percentile] = quarters(table)
                delay = curves[name, kind, percentile][1][1:-1]
                figures[f"stream {name}, {kind}, p={percentile}"] = {
                    "accuracy": round(float(100 * (1 - table[:, 2].sum() / table[:, 1].sum())), 3),
                    "delay_seconds_mean": round(
                        float(np.average(table[:, 3], weights=table[:, 1])) / SECOND, 1
                    ),
                    "delay_seconds_quarter_hours": [
                        round(float(delay.min()), 1),
                        round(float(delay.max()), 1),
                    ],
                    "window_max": int(table[:, 4].max()),
                    "microseconds_per_chunk": round(1e6 * seconds / len(chunks)),
                }
                print(name, kind, percentile, figures[f"stream {name}, {kind}, p={percentile}"])
    with figure("figure12", rows=3, height=2.0) as axes:
        for (name, kind, percentile), curve in curves.items():
            if percentile != 5:
                continue
            hours, delay, window, accuracy = (values[:-1] for values in curve)  # the last has just begun
            style, label = ("-", ":")[kind == "ascending"], f"stream {name}, {kind}"
            colour = "C0" if name == "A" else "C1"
            axes[0].plot(hours, delay / 60, style, color=colour, label=label)
            if kind == "ascending":
                axes[1].plot(hours, window, style, color=colour, label=label)
            axes[2].plot(hours, accuracy, style, color=colour, label=label)
        axes[0].set(ylabel="delay, minutes", yscale="log")
        axes[1].set(ylabel="window, chunks")
        axes[2].set(ylabel="accuracy, %", xlabel="hours since noon")
        axes[2].axhline(95, color="k", linewidth=0.6)
        axes[0].legend(fontsize=6, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
    save(
        "stream_time",
        {"rows": [len(s) for s in streams.values()], "chunk_seconds": chosen.seconds, **figures},
    )


if __name__ == "__main__":
    main()
