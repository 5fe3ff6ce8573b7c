"""Latency: from the publication of a row to its readable result, at half of a system's highest rate."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from suite import braid_results
from suite.environments import Environment
from suite.feed import PERIOD, Feed, stage
from suite.process import FailedError, Program
from suite.spec import MINUTE, SECOND, Query
from suite.systems import SYSTEMS, WORK, Folders, launched

QUERY = Query("left", -3 * MINUTE, 3 * MINUTE, 30 * SECOND, 5 * MINUTE)
INTERVAL = 0.5
"""Seconds between publications."""
SETTLING = 15.0
"""Seconds at the beginning that do not count."""
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
START_SECONDS = 120
DRAIN_SECONDS = 20.0
"""Time for the last results to come."""

Moments = npt.NDArray[np.float64]
"""Rows of (number of publication, moment, count)."""
Record = dict[str, object]


def measure(
    systems: Mapping[str, Environment | str],
    rates: Mapping[str, float],
    seconds: float,
    keep: Callable[[Record], None],
    say: Callable[[str], None],
) -> None:
    """Measure every system that can follow, at its rate (rows/s of both sides)."""
    for name, environment in systems.items():
        if not SYSTEMS[name].follows or isinstance(environment, str):
            continue
        if name not in rates:
            say(f"latency    {name:14} has no rate: measure its throughput, or give --rate")
            continue
        record: Record = {"system": name, "rate": round(rates[name])}
        try:
            record |= run_one(name, environment, rates[name], seconds)
            shown = f"p50 {record['p50']} s, p99 {record['p99']} s"
            say(f"latency    {name:14} {record['rate']:,} rows/s: {shown}")
        except FailedError as error:
            record["error"] = str(error)
            say(f"latency    {name:14} {error}")
        keep(record)


def run_one(name: str, environment: Environment, rate: float, seconds: float) -> Record:
    """One system at one rate."""
    WORK.mkdir(parents=True, exist_ok=True)
    base = Path(tempfile.mkdtemp(prefix="latency-", dir=WORK))
    feed = Feed(base / "feed", INTERVAL)
    rows = max(1, round(rate / 2 * INTERVAL))
    numbers = range(1, round(seconds / INTERVAL) + 1)
    folders = Folders(feed.side("left"), feed.side("right"), feed.side("left"), feed.side("right"))
    try:
        # Systems look at the first files to learn the columns.
        stage(feed, rows, range(1), time.time())
        feed.publish(0)
        work = base / "work"
        system = SYSTEMS[name]
        with launched(
            system, environment, QUERY, folders, mode="follow", period=PERIOD, work=work
        ) as program:
            program.wait_for("start", START_SECONDS)
            # Soon, or the system would take the inputs for idle.
            begin = time.time() + 3 + 0.7e-6 * rows * len(numbers) * 2
            stage(feed, rows, numbers, begin)
            late = max(0.0, time.time() - begin)
            thread = feed.start(numbers, max(begin, time.time() + 1))
            thread.join(seconds + late + 60)
            time.sleep(DRAIN_SECONDS)
            moments = _results(program, name, work)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return summarise(moments, feed.published)


def _results(program: Program, name: str, work: Path) -> Moments:
    if name == "braid":
        return braid_results.moments(work / "home", PERIOD)
    # Spark reports every micro-batch, Flink's sink all that it has counted so far.
    parts = [event["moments"] for event in program.events("results") + program.events("snapshot")[-1:]]
    return np.concatenate([np.array(part, dtype=np.float64).reshape(-1, 3) for part in parts or [[]]])


def summarise(moments: Moments, published: Mapping[int, float]) -> Record:
    """Percentiles over rows with a match, from the later publication of the two sides."""
    first = min(published.values()) if published else 0.0
    known = np.array([moment[0] in published for moment in moments], dtype=bool)
    moments = moments[known]
    at = np.array([published[int(number)] for number in moments[:, 0]])
    # The publication that systems start with is no measure, nor are the seconds after the start.
    began = sorted(published.values())[1] if len(published) > 1 else first
    counted = at >= began + SETTLING
    if not counted.any():
        raise FailedError("no results in time")
    waits, weights = (moments[:, 1] - at)[counted], moments[counted, 2]
    order = np.argsort(waits)
    share = np.cumsum(weights[order]) / weights.sum()
    quantile = {
        name: round(float(waits[order][np.searchsorted(share, q)]), 2) for name, q in QUANTILES.items()
    }
    seen = int(moments[counted, 0].max())
    return {**quantile, "results": int(weights.sum()), "kept_up": seen >= max(published) - 2}
