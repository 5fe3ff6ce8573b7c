"""What the experiments share: a place for results, and how figures look."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from braid.core.config import AppConfig
from braid.core.times import MINUTE
from braid.testing import Simulation, Stream, simulate

RESULTS = Path(__file__).parent / "results"
mpl.use("Agg")
plt.rcParams.update({"font.size": 8, "axes.grid": True, "grid.alpha": 0.3, "lines.linewidth": 1.2})


@contextmanager
def figure(name: str, rows: int = 1, width: float = 6.4, height: float = 2.6) -> Iterator[list[Axes]]:
    """Axes to draw on; what is drawn becomes `results/<name>.png`."""
    drawn: Figure
    drawn, axes = plt.subplots(rows, 1, figsize=(width, height * rows), squeeze=False, sharex=True)
    yield list(axes[:, 0])
    drawn.tight_layout()
    RESULTS.mkdir(exist_ok=True)
    drawn.savefig(RESULTS / f"{name}.png", dpi=90)
    plt.close(drawn)


def run(left: Stream, right: Stream, bounds: tuple[int, int], interval: int, **options: object) -> Simulation:
    """A simulation with some options, and a line about it on the terminal."""
    started = time.perf_counter()
    settings = AppConfig.model_validate({"shards": 1, "percentile": 1, **options})
    found = simulate(left, right, bounds, settings, interval=interval)
    print(f"{bounds[0] / MINUTE:.0f}..{bounds[1] / MINUTE:.0f} min {options}: {summary(found)}")
    print(f"  {time.perf_counter() - started:.0f} s")
    return found


def summary(found: Simulation) -> dict[str, object]:
    """The figures of a simulation."""
    live = found.timeline.live()
    return {
        "match_rate": round(100 * found.match_rate, 4),
        "batch_match_rate": round(100 * found.batch_match_rate, 4),
        "of_batch": round(100 * found.recall, 4),
        "missed": found.missed,
        "rescued": found.rescued,
        "late_rows": found.late_rows,
        "lost": found.lost,
        "left_accuracy": round(found.left.accuracy, 3),
        "right_accuracy": round(found.right.accuracy, 3),
        "left_delay_minutes": round(found.left.mean_delay / MINUTE, 2),
        "right_delay_minutes": round(found.right.mean_delay / MINUTE, 3),
        "window_peak": found.peak_window,
        "window_mean": round(float(found.timeline.pending_right[live].mean())),
        "window_limit": found.window_limit,
        "pending_peak": found.peak_pending,
        "output_p50_minutes": round(found.output_delay_percentile(50) / MINUTE, 1),
        "output_p99_minutes": round(found.output_delay_percentile(99) / MINUTE, 1),
    }


def by_period(stream: Stream, matched: np.ndarray, period: int) -> np.ndarray:
    """Percentage of rows that are matched, for each period of arrival."""
    _, index = np.unique(stream.arrival_time // period, return_inverse=True)
    return 100 * np.bincount(index, matched) / np.bincount(index)


def save(name: str, figures: object) -> None:
    """Keep figures as `results/<name>.json`."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n")
