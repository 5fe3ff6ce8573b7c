"""The command line of the suite."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from suite import growth, latency, live_report, recovery, throughput
from suite.environments import BENCH, Environment
from suite.live import live_runs
from suite.plots import draw
from suite.report import Record, Results, about, median_rates
from suite.systems import SYSTEMS, WORK, set_up
from suite.workloads import WORKLOADS, prepare

CACHE = BENCH / "data"
RESULTS = BENCH / "results"
PARTS = (*Results.PARTS, "live")
"""`live` writes results of its own, as `bench/live.py` does."""
TINY = 0.02
"""Part of the rows that a check of the suite itself uses."""
QUICK = 0.2
QUICK_WORKLOADS = ("uniform", "sessions", "lag", "skew2", "wide")


def main() -> None:
    """Run what the arguments say."""
    options = _options()
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - started:6.0f} s] {text}", flush=True)

    shutil.rmtree(WORK, ignore_errors=True)
    results = Results(RESULTS if not options.tiny else CACHE / "tiny-results")
    if options.merge:
        results.load()
    for part in set(options.parts) & set(Results.PARTS):
        results.drop(part, options.systems, options.workloads)
    results.about = about()
    systems = set_up(options.systems, say)
    suite = Suite(options, results, systems, started + options.minutes * 60, say)
    failed = _measure({part: getattr(suite, part) for part in PARTS if part in options.parts})
    results.save()
    failed |= _measure({"plots": lambda: draw(results)})
    say(f"results are in {results.folder.relative_to(BENCH.parent)}")
    print((results.folder / "table.md").read_text())
    for part, error in failed.items():
        say(f"{part} failed: {type(error).__name__}: {error}")
    if failed:
        sys.exit(1)


def _measure(parts: Mapping[str, Callable[[], None]]) -> dict[str, Exception]:
    """Run parts of the suite one after the other; what those have raised that failed."""
    failed: dict[str, Exception] = {}
    for part, measure in parts.items():
        try:
            measure()
        except Exception as error:  # noqa: BLE001  the other parts are measured nevertheless
            traceback.print_exc()
            failed[part] = error
    return failed


@dataclass(frozen=True)
class Suite:
    """The parts of the suite, each a method of its name.

    Parameters
    ----------
    options
        Of the command line.
    results
        Where every run is kept as it ends.
    systems
        Environments of the systems, or why there is none.
    deadline
        When no further run of `throughput` is started.
    say
        Tells how it goes on.
    """

    options: argparse.Namespace
    results: Results
    systems: dict[str, Environment | str]
    deadline: float
    say: Callable[[str], None]

    @property
    def scale(self) -> float:
        """Part of the rows that is used."""
        return TINY if self.options.tiny else QUICK if self.options.quick else 1.0

    def throughput(self) -> None:
        plan = throughput.Plan(
            systems=self.systems,
            workloads=[WORKLOADS[name] for name in self.options.workloads],
            runs=self.options.runs,
            patience=self.options.patience,
            timeout=self.options.timeout,
            scale=self.scale,
            cache=CACHE,
            deadline=self.deadline,
        )
        throughput.measure(plan, self._keeper("throughput"), self.say)

    def latency(self) -> None:
        rates = {name: rate / 2 for name, rate in median_rates(self.results.throughput).items()}
        if self.options.rate:
            rates = dict.fromkeys(self.options.systems, self.options.rate)
        seconds = 25 if self.options.tiny else 45
        latency.measure(self.systems, rates, seconds, self._keeper("latency"), self.say)

    def recovery(self) -> None:
        sessions = WORKLOADS["sessions"]
        data = prepare(sessions, round(sessions.rows * self.scale), CACHE)
        recovery.measure(self.systems, data, self._keeper("recovery"), self.say)

    def growth(self) -> None:
        if "braid" in self.options.systems:
            found = growth.experiments(round(500_000 * self.scale), self.options.large)
            growth.measure(found, self.options.timeout, CACHE, self._keeper("growth"), self.say)

    def live(self) -> None:
        options = self.options
        minutes = 0.5 if options.tiny else 2.0 if options.quick else 10.0
        runs = live_runs(options.systems, options.rate and options.rate / 2, minutes)
        live_report.measure(runs, self.systems, self.results.folder, self.say)

    def _keeper(self, part: str) -> Callable[[Record], None]:
        def keep(record: Record) -> None:
            getattr(self.results, part).append(record)
            self.results.save()

        return keep


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/run.py", description="Braid beside other systems, on the same files."
    )
    parser.add_argument("--systems", type=names(SYSTEMS), default=list(SYSTEMS), help=", ".join(SYSTEMS))
    parser.add_argument("--workloads", type=names(WORKLOADS), help=", ".join(WORKLOADS))
    parser.add_argument(
        "--parts", type=names(dict.fromkeys(PARTS)), default=list(PARTS), help=", ".join(PARTS)
    )
    parser.add_argument("--runs", type=int, default=3, help="runs per system and workload")
    parser.add_argument(
        "--patience",
        type=float,
        default=45,
        help="seconds after which a system gets no further run of a workload other than `uniform`",
    )
    parser.add_argument("--timeout", type=float, default=240, help="longest time of a run, in seconds")
    parser.add_argument(
        "--minutes", type=float, default=60, help="time after which no further run is started"
    )
    parser.add_argument(
        "--rate", type=float, help="rows/s for latency and live, instead of half of the throughput, and 6,000"
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the rows, fewer workloads")
    parser.add_argument(
        "--tiny", action="store_true", help="a check of the suite itself: results mean nothing"
    )
    parser.add_argument("--large", action="store_true", help="growth up to 50M rows")
    parser.add_argument("--merge", action="store_true", help="keep other results of an earlier run")
    options = parser.parse_args()
    if options.workloads is None:
        options.workloads = list(QUICK_WORKLOADS if options.quick else WORKLOADS)
    return options


def names(known: Mapping[str, object]) -> Callable[[str], list[str]]:
    """A type of arguments: some of the known names, with commas between."""

    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return names

    return parse
