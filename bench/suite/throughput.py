"""Throughput: every system on every workload, interleaved, each run checked against DuckDB."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from suite.environments import Environment
from suite.oracle import compare, expected
from suite.process import FailedError
from suite.spec import Answer
from suite.systems import SYSTEMS, Folders, System, launched
from suite.workloads import Dataset, Workload, prepare, prepare_csv

WARM_ROWS = 20_000
WARM_FILES = 4
START_SECONDS = 180
"""Longest time that a program may take to start and warm up."""

Record = dict[str, object]


@dataclass
class Plan:
    """What to run.

    Parameters
    ----------
    systems
        Environments by name, or why there is none.
    workloads
        What to join.
    runs
        Runs per system and workload.
    patience
        Seconds after which a system gets no further run of a workload; `always` names those without.
    timeout
        Longest time of one run.
    scale
        Part of the rows of every workload.
    cache
        Where datasets are kept.
    deadline
        Moment (`time.monotonic`) after which nothing new is started.
    """

    systems: dict[str, Environment | str]
    workloads: list[Workload]
    runs: int
    patience: float
    timeout: float
    scale: float
    cache: Path
    deadline: float
    always: tuple[str, ...] = ("uniform",)
    options: dict[str, object] = field(default_factory=dict)


def measure(plan: Plan, keep: Callable[[Record], None], say: Callable[[str], None]) -> None:
    """Run everything; `keep` is given every run as it ends."""
    for workload in plan.workloads:
        spent: dict[str, float] = {}
        for number in range(plan.runs):
            for name, environment in plan.systems.items():
                if spent.get(name, 0.0) > plan.patience and workload.name not in plan.always:
                    continue
                if spent.get(name) == float("inf"):
                    continue
                record: Record = {"workload": workload.name, "system": name, "run": number}
                started = time.monotonic()
                try:
                    record |= run_one(plan, workload, SYSTEMS[name], environment)
                except FailedError as error:
                    record["error"] = str(error)
                    spent[name] = float("inf")
                else:
                    spent[name] = spent.get(name, 0.0) + time.monotonic() - started
                say(f"{workload.name:10} {name:14} run {number + 1}: {summary(record)}")
                keep(record)


def run_one(plan: Plan, workload: Workload, system: System, environment: Environment | str) -> Record:
    """One run of a system; raises `FailedError` with the reason if there is none."""
    if isinstance(environment, str):
        raise FailedError(environment)
    if workload.query.type in system.refuses:
        raise FailedError(system.refuses[workload.query.type])
    if time.monotonic() > plan.deadline:
        raise FailedError("not run: the time for the whole suite was up")
    share = 1.0 if workload.whole else system.share
    data = prepare(workload, max(1000, round(workload.rows * plan.scale * share)), plan.cache)
    return run_dataset(workload, data, system, environment, plan.timeout, plan.cache, plan.options)


def run_dataset(
    workload: Workload,
    data: Dataset,
    system: System,
    environment: Environment,
    timeout: float,
    cache: Path,
    options: dict[str, object],
) -> Record:
    """One run over a dataset."""
    warm = prepare(replace(workload, files=WARM_FILES), WARM_ROWS, cache)
    if system.csv:
        prepare_csv(data)
        prepare_csv(warm)
    right = expected(data)
    folders = Folders(data.side("left"), data.side("right"), warm.side("left"), warm.side("right"))
    with launched(system, environment, workload.query, folders, options=options) as program:
        program.wait_for("start", START_SECONDS)
        event = program.wait_for("done", timeout)
        usage = program.usage
    found = Answer(*(int(str(event[name])) for name in ("rows", "matches", "checksum")))
    verdict = compare(workload.query, right, found)
    seconds = float(str(event["seconds"]))
    return {
        "rows": data.rows,
        "seconds": round(seconds, 3),
        "rows_per_second": round(data.rows / seconds),
        "expected": asdict(right),
        "found": asdict(found),
        "verdict": verdict.text(),
        "acceptable": verdict.acceptable,
        "missing": verdict.missing,
        "cpu_seconds_per_million": round(usage.cpu_seconds / data.rows * 1e6, 2),
        "peak_rss": usage.peak_rss,
        "peak_pss": usage.peak_pss,
        "peak_parts": usage.peak_parts,
        "state_bytes": usage.peak_state_bytes,
        "log_bytes": usage.peak_log_bytes,
        "details": {
            name: event[name] for name in ("micro_batches", "state_rows", "lost_matches") if name in event
        },
    }


def summary(record: Record) -> str:
    """A record in a few words."""
    if "error" in record:
        return str(record["error"])
    memory = int(str(record["peak_pss"])) / 2**20
    return f"{record['rows_per_second']:,} rows/s, {memory:,.0f} MB, {record['verdict']}"
