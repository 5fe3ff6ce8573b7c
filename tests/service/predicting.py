"""Compare what trials expect of the examples with really running them on Spark, at a steady rate.

Run as a script: `python -m tests.service.predicting`, or with the names of examples. For each, its streams
are published for a while; then its program is deployed, and measured for a minute once it has caught up.
Memory and rates are to be within 30% of what the trial has said, and match rates within half a point.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean

import psutil
from rich.console import Console
from rich.table import Table

from braid.api.lookup import load_lookup
from braid.client.http import Client, service_of
from braid.client.models import Deploy, Program, TrialInfo, TrialState
from braid.core.counters import Counters, difference
from braid.core.sizes import size_words
from braid.home.paths import AppHome
from braid.home.status import Status, match_rates
from tests.service.live_streams import EXAMPLES, STREAMS, Feed
from tests.service.serving import Served, until

DEFAULT = ("first", "clicks", "prices", "orders", "search")
WITHIN, POINTS = 0.3, 0.005
_WAIT = 240.0
_LOOK_SECONDS, _SETTLE_SECONDS = 5.0, 15.0


@dataclass(frozen=True)
class Figures:
    """What an application does.

    Parameters
    ----------
    rows_in, rows_out
        Rows per second.
    memory, checkpoint, log_per_day
        In bytes.
    rows_held
        Of all stages.
    match_rates
        By stage and input.
    """

    rows_in: float
    rows_out: float
    memory: float
    rows_held: float
    checkpoint: float
    log_per_day: float
    match_rates: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Compared:
    """An application as it was expected to be, and as it is."""

    name: str
    expected: Figures
    real: Figures

    @property
    def wrong(self) -> list[str]:
        """Figures that are too far off."""
        found = []
        for name in ("memory", "rows_in", "rows_out"):
            expected, real = getattr(self.expected, name), getattr(self.real, name)
            if abs(expected - real) > WITHIN * real:
                found.append(f"{name}: {expected:,.0f} expected, {real:,.0f} in fact")
        for name, rate in self.real.match_rates.items():
            known = self.expected.match_rates.get(name)
            if known is None or abs(known - rate) > POINTS:
                found.append(f"match rate of {name}: {known} expected, {rate:.4f} in fact")
        return found


def compare(name: str, rate: float, before: int, seconds: int) -> Compared:
    """Try and run an example.

    Parameters
    ----------
    rate
        Rows per second of its main inputs.
    before, seconds
        How long the trial's sample is, and for how long to measure.
    """
    stream = STREAMS[name]
    with tempfile.TemporaryDirectory(prefix="braid-predicting-") as root:
        served = Served(Path(root) / "home")
        with _started(served) as client:
            if name == "visits":
                load_lookup("users", EXAMPLES / "visits" / "users.csv", ["user_id"], home=served.home)
            with Feed(served.home, stream, rate, before, before + seconds + round(3 * _WAIT)):
                plan = client.plan(Program(program=stream.program))
                assert plan.trial is not None
                client.deploy(Deploy(program=stream.program))
                real = _measured(served, client, plan.application, seconds)
    return Compared(name, _expected(plan.trial), real)


@contextmanager
def _started(served: Served) -> Iterator[Client]:
    """A service that runs, and a client of it."""
    try:
        served.start()
        client = service_of(served.home)
        assert client is not None
        with client:
            yield client
    finally:
        served.close()


def _expected(trial: TrialInfo) -> Figures:
    assert trial.state is TrialState.DONE, trial
    rates = {
        f"{name}.{side}": share
        for name, stage in trial.stages.items()
        for side, share in stage.match_rate.items()
    }
    figures = (
        trial.rows_in,
        trial.rows_out,
        trial.memory,
        trial.rows_held,
        trial.checkpoint,
        trial.log_per_day,
    )
    return Figures(*(figure or 0.0 for figure in figures), match_rates=rates)


def _measured(served: Served, client: Client, name: str, seconds: int) -> Figures:
    """What a running application does, once it has caught up."""

    def status() -> Status:
        return Status.model_validate(client.application(name).status)

    def caught_up() -> bool:
        found = status()
        behind = [one.rows_behind for stage in found.stages.values() for one in stage.inputs.values()]
        begun = all(stage.totals.rows_in for stage in found.stages.values())
        return begun and all(rows is not None and rows < 2_000 for rows in behind)

    until(lambda: client.application(name).state == "running", f"{name} does not run", _WAIT)
    until(caught_up, f"{name} does not catch up", _WAIT)
    _settle(lambda: _held(status()))
    first, looks, memory = status(), list[Status](), list[float]()
    driver = served.driver(name)
    assert driver is not None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        looks.append(status())
        memory.append(_memory(driver.pid))
    return _figures(served.home.application(name), first, looks, memory)


def _settle(held: Callable[[], int]) -> None:
    """Wait until a backlog that has been read is worked off: what is held gets no less."""
    end, before = time.monotonic() + _WAIT, held()
    time.sleep(_SETTLE_SECONDS)
    while (now := held()) < 0.95 * before and time.monotonic() < end:
        before = now
        time.sleep(_SETTLE_SECONDS)


def _held(status: Status) -> int:
    """Rows that all stages hold."""
    return sum(stage.last.counters.pending for stage in status.stages.values() if stage.last is not None)


def _figures(home: AppHome, first: Status, looks: list[Status], memory: list[float]) -> Figures:
    last = looks[-1]
    seconds = last.updated - first.updated
    counted: dict[str, Counters] = {
        name: difference(stage.totals, first.stages[name].totals) for name, stage in last.stages.items()
    }
    plan = json.loads(home.plan_file.read_text())["stages"]
    internal = {stage["name"] for stage in plan if stage["sink"]["internal"]}
    inputs: dict[str, int] = {}
    for stage in plan:
        if "source" in stage and not stage["source"]["internal"]:
            inputs[stage["source"]["name"]] = counted[stage["name"]].rows_in
    return Figures(
        sum(inputs.values()) / seconds,
        sum(one.rows_out for name, one in counted.items() if name not in internal) / seconds,
        mean(memory),
        mean(map(_held, looks)),
        sum(_size(home.checkpoint(name)) for name in last.stages),
        sum(one.bytes_out for one in counted.values()) / seconds * 86_400,
        {
            f"{name}.{side}": share
            for name, one in counted.items()
            for side, share in match_rates(one).items()
        },
    )


def _memory(pid: int) -> float:
    """Proportional set size of all processes of a driver's session."""
    total = 0
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == pid:
                total += process.memory_full_info().pss
        except (psutil.Error, ProcessLookupError):
            continue
    return float(total)


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def _table(found: list[Compared]) -> Table:
    table = Table(title="expected by the trial / in fact")
    for column in (
        "example",
        "rows/s in",
        "rows/s out",
        "memory",
        "matches",
        "held",
        "checkpoints",
        "log a day",
    ):
        table.add_column(column, justify="left" if column in ("example", "matches") else "right")
    for one in found:
        expected, real = one.expected, one.real
        rates = [
            f"{name} {100 * expected.match_rates.get(name, 0):.2f} / {100 * share:.2f}%"
            for name, share in real.match_rates.items()
        ]
        table.add_row(
            one.name,
            f"{expected.rows_in:,.0f} / {real.rows_in:,.0f}",
            f"{expected.rows_out:,.0f} / {real.rows_out:,.0f}",
            f"{size_words(expected.memory)} / {size_words(real.memory)}",
            "\n".join(rates),
            f"{expected.rows_held:,.0f} / {real.rows_held:,.0f}",
            f"{size_words(expected.checkpoint)} / {size_words(real.checkpoint)}",
            f"{size_words(expected.log_per_day)} / {size_words(real.log_per_day)}",
        )
    return table


def main() -> int:
    """Compare, and print a table; fails if a figure is too far off."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=DEFAULT, help=f"examples: {', '.join(STREAMS)}")
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--before", type=int, default=120, help="seconds before the program is deployed")
    parser.add_argument("--seconds", type=int, default=60, help="for how long to measure")
    asked = parser.parse_args()
    # The machine may be busy with other things.
    os.environ.setdefault("BRAID_TRIAL_SECONDS", "25")
    found = []
    for name in asked.names:
        found.append(compare(name, asked.rate, asked.before, asked.seconds))
        print(json.dumps(asdict(found[-1])), flush=True)
    Console(width=200).print(_table(found))
    wrong = [f"{one.name}: {text}" for one in found for text in one.wrong]
    print("\n".join(wrong) or "all within bounds")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
