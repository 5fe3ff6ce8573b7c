"""The plots, each as PNG and SVG."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from suite.report import Line, Record, Results, held_rows, lines
from suite.systems import SYSTEMS
from suite.workloads import WORKLOADS

OURS, THEIRS, LIMIT = "#b5432e", "#7d8ca3", "#c9c9c9"

mpl.rcParams.update(
    {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.constrained_layout.use": True,
        "svg.hashsalt": "bench",
    }
)
mpl.use("Agg")

GROWTH = {
    "window": "window length, +- minutes",
    "keys": "distinct keys",
    "shards": "shards",
    "width": "bytes per row",
    "size": "rows, both sides",
}
"""The axis of every growth experiment."""


def draw(results: Results) -> None:
    """Draw what there is."""
    found = lines(results.throughput)
    for workload in WORKLOADS:
        shown = [line for line in found if line.workload == workload and line.good]
        if shown:
            save(_comparison(workload, shown), results.folder / f"throughput-{workload}")
    if results.latency:
        save(_latency(results.latency), results.folder / "latency")
    lags = [record for record in results.growth if record["experiment"] == "lag"]
    if len(results.growth) > len(lags):
        save(_growth(results.growth), results.folder / "growth")
    if lags:
        save(_lag(lags), results.folder / "lag")


def _comparison(workload: str, shown: list[Line]) -> Figure:
    figure, axes = plt.subplots(
        1, 3, figsize=(11, 0.6 + 0.36 * len(shown)), width_ratios=(2, 1, 1), sharey=True
    )
    titles = [SYSTEMS[line.system].title for line in shown]
    colours = [
        OURS if line.system == "braid" else LIMIT if line.system == "duckdb" else THEIRS for line in shown
    ]
    speed, memory, missing = axes
    inside = speed.get_yaxis_transform()
    for place, line in enumerate(shown):
        middle = line.median("rows_per_second")
        if line.right:
            spread = [
                [middle - min(line.numbers("rows_per_second"))],
                [max(line.numbers("rows_per_second")) - middle],
            ]
            speed.barh(place, middle, xerr=spread, color=colours[place], ecolor="#333333")
            speed.text(middle * 1.08, place, f"{middle:,.0f}", va="center")
        else:
            speed.text(0.01, place, "wrong answer", va="center", style="italic", transform=inside)
        megabytes = line.median("peak_pss") / 2**20
        memory.barh(place, megabytes, color=colours[place])
        memory.text(megabytes * 1.02, place, f"{megabytes:,.0f}", va="center")
        lost = max(line.numbers("missing"))
        missing.barh(place, lost, color=colours[place])
        missing.text(lost, place, f" {lost:,.0f}", va="center")
    speed.set(title=f"{workload}: rows/s, both sides (log)", xscale="log")
    speeds = [line.median("rows_per_second") for line in shown if line.right] or [1e4]
    speed.set_xlim(min(speeds) / 3, max(speeds) * 8)
    speed.set_yticks(range(len(shown)), titles)
    speed.invert_yaxis()
    memory.set(title="peak memory, MB")
    missing.set(title="matches missing")
    for axis in (memory, missing):
        axis.margins(x=0.25)
        axis.set_xlim(0, max(1, axis.get_xlim()[1]))
    return figure


def _latency(records: list[Record]) -> Figure:
    shown = [record for record in records if "error" not in record]
    figure, axis = plt.subplots(figsize=(7, 0.8 + 0.5 * len(shown)))
    for place, record in enumerate(shown):
        colour = OURS if record["system"] == "braid" else THEIRS
        high, middle = float(str(record["p99"])), float(str(record["p50"]))
        axis.barh(place, high, color=colour, alpha=0.45)
        axis.barh(place, middle, color=colour)
        axis.text(high, place, f"  p50 {middle:.2f} s, p99 {high:.2f} s", va="center")
    names = [f"{SYSTEMS[str(r['system'])].title}\nat {int(str(r['rate'])):,} rows/s" for r in shown]
    axis.set_yticks(range(len(shown)), names)
    axis.invert_yaxis()
    axis.margins(x=0.6)
    axis.set(title="from publish to result, at half of the highest rate", xlabel="seconds")
    return figure


def _growth(records: list[Record]) -> Figure:
    names = [name for name in GROWTH if any(record["experiment"] == name for record in records)]
    figure, grid = plt.subplots(2, len(names), figsize=(2.6 * len(names), 4.2), squeeze=False)
    for column, name in enumerate(names):
        shown = [r for r in records if r["experiment"] == name and "error" not in r]
        shown.sort(key=lambda record: float(str(record["value"])))
        _curve(grid[0][column], shown, "rows_per_second", 1e3)
        _curve(grid[1][column], shown, "peak_pss", 2**20)
        grid[1][column].set_xlabel(GROWTH[name])
    grid[0][0].set_ylabel("thousand rows/s")
    grid[1][0].set_ylabel("peak memory, MB")
    return figure


def _lag(records: list[Record]) -> Figure:
    figure, axis = plt.subplots(figsize=(4.5, 3))
    for name in dict.fromkeys(str(record["system"]) for record in records):
        held = held_rows(records, name)
        axis.plot(
            list(held),
            list(held.values()),
            marker="o",
            label=SYSTEMS[name].title,
            color=OURS if name == "braid" else THEIRS,
        )
    axis.set(xlabel="right side behind, minutes", ylabel="rows held at most", ylim=(0, None))
    axis.legend(frameon=False)
    return figure


def _curve(axis: Axes, shown: list[Record], measure: str, unit: float) -> None:
    values = [float(str(record["value"])) for record in shown]
    heights = [float(str(record[measure])) / unit for record in shown]
    axis.plot(values, heights, marker="o", color=OURS)
    axis.set(xscale="log", ylim=(0, 1.25 * max(heights, default=1)))


def save(figure: Figure, path: Path) -> None:
    """Save a plot as PNG and SVG."""
    for kind in ("png", "svg"):
        figure.savefig(
            path.with_suffix(f".{kind}"), dpi=150, metadata={"Date": None} if kind == "svg" else None
        )
    plt.close(figure)
