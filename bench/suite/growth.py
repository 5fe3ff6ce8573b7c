"""Growth: what Braid's throughput and memory depend on, and what they do not; and what lag does to a peer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from suite.process import FailedError
from suite.spec import HOUR, MINUTE, SECOND, Query
from suite.systems import SYSTEMS
from suite.throughput import Record, run_dataset, summary
from suite.workloads import START, Stream, Workload, lagging, prepare, uniform


@dataclass(frozen=True)
class Point:
    """One run: the value of what is varied, the workload for it, and the system if it is not Braid."""

    value: float
    workload: Workload
    options: dict[str, object] = field(default_factory=dict)
    system: str = "braid"


def paired(length: int) -> Callable[[int], tuple[Stream, Stream]]:
    """Every left row has exactly one partner, within half a minute: no window finds more or less."""

    def make(rows: int) -> tuple[Stream, Stream]:
        rng = np.random.default_rng(11)
        event = START + np.sort(rng.integers(0, length, rows))
        partner = event + rng.integers(-30 * SECOND, 30 * SECOND, rows)
        sides = []
        for times in (event, partner):
            sides.append(
                Stream(times, times + rng.exponential(2 * SECOND, rows).astype(np.int64), np.arange(rows))
            )
        return sides[0], sides[1]

    return make


def with_keys(count: int) -> Callable[[int], tuple[Stream, Stream]]:
    """Uniform keys, so many of them."""
    return lambda rows: uniform(rows, keys=count / rows)


def experiments(rows: int, large: bool) -> dict[str, list[Point]]:
    """All experiments, for so many rows per side where that is not what is varied."""
    half_day = 12 * HOUR
    minutes = (1, 5, 30, 180, 360)
    windows = [
        Point(
            value,
            Workload(
                "window",
                f"one partner per row, 12 hours, +-{value} min",
                rows,
                paired(half_day),
                Query("left", -value * MINUTE, value * MINUTE, 35 * SECOND, 35 * SECOND),
            ),
        )
        for value in minutes
    ]
    narrow = Query("left", -SECOND, SECOND, 35 * SECOND, 6 * MINUTE)
    keys = [
        Point(
            count,
            Workload(
                "keys",
                f"{count} keys, +-1 s",
                rows,
                with_keys(count),
                narrow,
            ),
        )
        for count in (1_000, 10_000, 100_000, 1_000_000)
    ]
    usual = Query("left", -3 * MINUTE, 3 * MINUTE, 35 * SECOND, 6 * MINUTE)
    shards = [
        Point(count, Workload("uniform", "uniform", rows, uniform, usual), {"shards": count})
        for count in (1, 2, 4, 8, 16, 32)
    ]
    widths = [
        Point(
            24 + 50 * count,
            Workload(
                "width",
                f"{count} texts of 50 bytes",
                rows // 4,
                uniform,
                Query("left", -3 * MINUTE, 3 * MINUTE, 35 * SECOND, 6 * MINUTE, _texts(count)),
            ),
        )
        for count in (0, 5, 20, 40)
    ]
    sizes = [
        Point(
            2 * size,
            Workload(
                "size",
                "the same rate for longer",
                size,
                lambda given: uniform(given, keys=0.5, length=round(HOUR * given / 1_000_000)),
                usual,
                files=max(4, size // 62_500),
            ),
        )
        for size in (rows // 2, rows, 2 * rows, 4 * rows, *((50 * rows,) if large else ()))
    ]
    lags = [
        Point(
            minutes,
            Workload(
                "lag",
                f"6 hours, right side {minutes} minutes behind",
                rows // 2,
                lagged(minutes),
                Query("left", -3 * MINUTE, 3 * MINUTE, 35 * SECOND, 35 * SECOND),
                files=48,
            ),
            # Small steps, so that what is held in between can be seen.
            {"batch_rows": 5_000} if system == "braid" else {},
            system,
        )
        for minutes in (15, 30, 60, 120, 240)
        for system in ("braid", "spark-memory")
    ]
    return {
        "window": windows,
        "keys": keys,
        "shards": shards,
        "width": widths,
        "lag": lags,
        "size": sizes,
    }


def lagged(minutes: int) -> Callable[[int], tuple[Stream, Stream]]:
    """The right stream is so many minutes of event time behind."""
    return lambda rows: lagging(rows, minutes * MINUTE)


def measure(
    found: dict[str, list[Point]],
    timeout: float,
    cache: Path,
    keep: Callable[[Record], None],
    say: Callable[[str], None],
) -> None:
    """Run every point."""
    for name, points in found.items():
        for point in points:
            system = SYSTEMS[point.system]
            record: Record = {"experiment": name, "value": point.value, "system": system.name}
            try:
                data = prepare(point.workload, point.workload.rows, cache)
                environment = system.environment()
                record |= run_dataset(
                    point.workload, data, system, environment, timeout, cache, point.options
                )
            except FailedError as error:
                record["error"] = str(error)
            say(f"growth     {name} {point.value:,} {system.name}: {summary(record)}")
            keep(record)


def _texts(count: int) -> tuple[str, ...]:
    return tuple(f"text{number:02d}" for number in range(count))
