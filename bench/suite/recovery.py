"""Recovery: a system with a three-hour window is killed while it works; how long until its next result?

Half a day of the workload `sessions` is joined first; then its files go on coming, one every few seconds,
through the kill and the restart. The clock runs from the start of the new process to its first result.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suite import braid_results
from suite.environments import Environment
from suite.feed import PERIOD, Feed, write
from suite.process import FailedError, Program
from suite.systems import SYSTEMS, WORK, Folders, launched
from suite.workloads import Dataset

INTERVAL = 2.0
"""Seconds between publications after the first half."""
SETTLING = 25.0
"""Seconds from the first result to the kill: enough for a checkpoint of every system."""
WAIT_SECONDS = 120

Record = dict[str, object]


def measure(
    systems: Mapping[str, Environment | str],
    data: Dataset,
    keep: Callable[[Record], None],
    say: Callable[[str], None],
) -> None:
    """Kill and restart every system that can follow."""
    for name, environment in systems.items():
        if not SYSTEMS[name].follows or isinstance(environment, str):
            continue
        record: Record = {"system": name}
        try:
            record |= run_one(name, environment, data)
            say(f"recovery   {name:14} {record['seconds']} s to the first result: {record['phases']}")
        except FailedError as error:
            record["error"] = str(error)
            say(f"recovery   {name:14} {error}")
        keep(record)


def run_one(name: str, environment: Environment, data: Dataset) -> Record:
    """Kill one system once."""
    WORK.mkdir(parents=True, exist_ok=True)
    base = Path(tempfile.mkdtemp(prefix="recovery-", dir=WORK))
    feed = Feed(base / "feed", INTERVAL)
    count = _stage(feed, data)
    work = base / "work"
    folders = Folders(feed.side("left"), feed.side("right"), feed.side("left"), feed.side("right"))
    system = SYSTEMS[name]
    try:
        for number in range(count // 2):
            feed.publish(number)
        with launched(
            system, environment, data.query, folders, mode="follow", period=PERIOD, work=work
        ) as program:
            program.wait_for("start", WAIT_SECONDS)
            _first_result(program, name, work, 0.0)
            feed.start(range(count // 2, count), time.time() + SETTLING - 3 * INTERVAL)
            time.sleep(SETTLING)
        killed = time.time()
        with launched(
            system, environment, data.query, folders, mode="resume", period=PERIOD, work=work
        ) as program:
            moment = _first_result(program, name, work, killed)
            return {"seconds": round(moment - program.started, 1), **_parts(program, moment)}
    finally:
        feed.stop()
        shutil.rmtree(base, ignore_errors=True)


def _stage(feed: Feed, data: Dataset) -> int:
    """The dataset's files as publications, with ids that tell their numbers."""
    for side in ("left", "right"):
        feed.side(side).mkdir(parents=True)
        for number, path in enumerate(data.files(side)):
            table = pq.read_table(path)
            table = table.set_column(0, "id", pa.array(np.arange(len(table)) + number * PERIOD))
            write(table, feed, side, number)
    return len(data.files("left"))


def _parts(program: Program, moment: float) -> Record:
    """What the time to the first result consists of: phases, and the first batch of each stage."""
    ends = [(str(event["name"]), float(str(event["at"]))) for event in program.events("phase")]
    ends += [("start of the queries", float(str(event["at"]))) for event in program.events("start")[:1]]
    ends = [
        *sorted((end for end in ends if end[1] < moment), key=lambda end: end[1]),
        ("first result", moment),
    ]
    begins = [program.started, *(end for _, end in ends)]
    phases = {name: round(end - begin, 2) for (name, end), begin in zip(ends, begins[:-1], strict=True)}
    batches: Record = {}
    for event in program.events("batch"):
        began = datetime.fromisoformat(str(event["began"])).timestamp() - program.started
        batches.setdefault(
            str(event["stage"]), {"began": round(began, 2), "milliseconds": event["milliseconds"]}
        )
    return {"phases": phases, **({"first_batches": batches} if batches else {})}


def _first_result(program: Program, name: str, work: Path, after: float) -> float:
    """The moment of the first result after another moment."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if name == "braid":
            moments = list(braid_results.commits(work / "home").values())
        else:
            events = program.events("results") + program.events("snapshot")[-1:]
            moments = [moment[1] for event in events for moment in event["moments"]]  # type: ignore[attr-defined]
        found = [moment for moment in moments if moment > after]
        if found:
            return min(found)
        program.check()
        time.sleep(0.1)
    raise FailedError(f"no result after {WAIT_SECONDS} s")
