"""What live runs have shown: a table, and plots over time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from matplotlib import pyplot as plt

from suite.environments import Environment
from suite.live import LAST_SECONDS, QUERY, SETTLING, Live, Record, Sample, run
from suite.live_check import check
from suite.plots import save

MUST_BE_NONE = ("wrong", "repeated", "no_row", "padded", "unexplained")
COLOURS = ("#b5432e", "#7d8ca3", "#3f7d58", "#c9a227", "#6b4c9a", "#333333")
Point = tuple[float, float]


def measure(
    runs: Sequence[Live],
    systems: Mapping[str, Environment | str],
    folder: Path,
    say: Callable[[str], None],
    name: str = "live",
) -> None:
    """Do all runs, and write down after each what there is."""
    records: list[Record] = []
    for live in runs:
        environment = systems[live.system]
        say(f"live       {live.title}: {live.rate:,.0f} rows/s per side for {live.seconds / 60:g} min")
        if isinstance(environment, str):
            records.append(Record(live, error=environment))
        else:
            records.append(run(live, environment, partial(check, QUERY)))
        say(records[-1].error or f"{records[-1].overall()} {records[-1].check}")
        text = write(records, folder, name)
    if records:
        print(text)


def write(records: Sequence[Record], folder: Path, name: str) -> str:
    """Write JSON, table and plots under a name; returns the table."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps([record.to_json() for record in records], indent=1))
    text = table(records)
    (folder / f"{name}.md").write_text(text)
    save(_plots(records), folder / name)
    return text


def table(records: Sequence[Record]) -> str:
    """A line per run, and a line per check."""
    lines = [
        "| system | rows/s per side | minutes | p50 | p99 | worst minute's p99 | cores | cores when idle "
        "| memory | files | disk |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for record in records:
        run = record.run
        shown = [run.title, f"{run.rate:,.0f}", f"{run.seconds / 60:g}"]
        if record.error is not None:
            lines.append(f"| {' | '.join(shown)} | {record.error} | | | | | | | |")
            continue
        overall = record.overall()
        minutes = [minute["p99"] for minute in record.latency() if minute["minute"] > 0]
        steady = record.cores(record.began + SETTLING, record.ended)
        idle = record.cores(record.ended + LAST_SECONDS, record.idle_until)
        last = _last(record)
        shown += [f"{overall[name]:.2f} s" if name in overall else "none" for name in ("p50", "p99")]
        shown.append(f"{max(minutes):.2f} s" if minutes else "none")
        shown += ["?" if cores is None else f"{cores:.2f}" for cores in (steady, idle)]
        shown.append(f"{sum(last.pss.values()) / 2**20:,.0f} MB")
        shown.append(f"{sum(last.files.values()):,}")
        shown.append(f"{sum(last.bytes.values()) / 2**20:,.0f} MB")
        lines.append(f"| {' | '.join(shown)} |")
    for record in records:
        lines += ["", *_quarters(record), *_checked(record)]
    return "\n".join(lines) + "\n"


def _last(record: Record) -> Sample:
    """The last sample while rows came."""
    return [sample for sample in record.samples if sample.at <= record.ended + 1][-1]


def _checked(record: Record) -> list[str]:
    if not record.check:
        return []
    found = record.check
    wrong = [f"{name} {found[name]:,}" for name in MUST_BE_NONE if found[name]]
    verdict = "WRONG: " + ", ".join(wrong) if wrong else "nothing wrong, repeated or left out"
    return [
        f"{record.run.title}: {found['left_rows']:,} + {found['right_rows']:,} rows, DuckDB finds "
        f"{found['matches']:,} matches; {found['missing']:,} are missing, {found['lost']:,} counted as lost, "
        f"{found['beyond']:,} rows listed that ask for more than the log has; "
        f"{verdict}."
    ]


def _quarters(record: Record) -> list[str]:
    """The last quarter beside the second one: what a run of years would grow by."""
    if record.error is not None or not record.samples:
        return []
    length = (record.ended - record.began) / 4
    parts = []
    for name, points in _series(record).items():
        means = []
        for quarter in (1, 3):
            low = record.began + quarter * length
            inside = [value for at, value in points if low <= at < low + length]
            means.append(sum(inside) / len(inside) if inside else 0.0)
        if means[0]:
            parts.append(f"{name} {means[0]:,.1f} -> {means[1]:,.1f} ({means[1] / means[0] - 1:+.0%})")
    return [f"{record.run.title}, second quarter -> last quarter: {'; '.join(parts)}."] if parts else []


def _series(record: Record) -> dict[str, list[Point]]:
    """What is watched over time, as points of moment and value."""

    def sampled(value: Callable[[Sample], float]) -> list[Point]:
        return [(sample.at, value(sample)) for sample in record.samples]

    used = [
        (after.at, (sum(after.cpu.values()) - sum(before.cpu.values())) / (after.at - before.at))
        for before, after in zip(record.samples, record.samples[1:], strict=False)
        if after.at - before.at > 1
    ]
    minutes = record.latency()
    return {
        "p50, s": [(record.began + 60 * m["minute"] + 30, m["p50"]) for m in minutes],
        "p99, s": [(record.began + 60 * m["minute"] + 30, m["p99"]) for m in minutes],
        "cores": used,
        "memory, MB": sampled(lambda sample: sum(sample.pss.values()) / 2**20),
        "join, ms per micro-batch": [(batch.at, batch.join_ms) for batch in record.batches],
        "rows held": [(batch.at, float(batch.rows)) for batch in record.batches],
        "files of the log": sampled(lambda sample: sample.files["log"]),
        "other files": sampled(lambda sample: sample.files["rest"]),
        "log, MB": sampled(lambda sample: sample.bytes["log"] / 2**20),
        "other disk, MB": sampled(lambda sample: sample.bytes["rest"] / 2**20),
    }


def _plots(records: Sequence[Record]) -> plt.Figure:
    shown = [record for record in records if record.error is None and record.samples]
    names = list(_series(shown[0])) if shown else []
    lines = max(1, -(-len(names) // 2))
    figure, grid = plt.subplots(lines, 2, figsize=(11, 2.3 * lines), squeeze=False)
    for axis, name in zip(grid.flat, names, strict=False):
        for colour, record in zip(COLOURS, shown, strict=False):
            points = _series(record)[name]
            minutes = [(at - record.began) / 60 for at, _ in points]
            axis.plot(
                minutes, [value for _, value in points], color=colour, linewidth=0.9, label=record.run.title
            )
        axis.set(title=name, ylim=(0, None))
    for axis in grid[-1]:
        axis.set_xlabel("minutes")
    if shown:
        grid.flat[0].legend(frameon=False, fontsize=7)
    return figure
