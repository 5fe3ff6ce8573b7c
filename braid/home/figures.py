"""Finds out what applications achieve, from their status, and puts it beside what their processes use."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from braid.core.errors import BraidError
from braid.core.times import FAR
from braid.home.paths import AppHome, Home
from braid.home.status import Period, StageStatus, Status, read_status
from braid.home.top import Figures, ProcessFigures, RunFigures, Top
from braid.home.unchanged import Unchanged
from braid.plan.dependencies import upstream
from braid.plan.serialise import loads
from braid.plan.stages.base import Plan

if TYPE_CHECKING:
    from braid.core.usage import Usage, Usages


_OLD_SECONDS = 15.0
"""Of what has happened since a look that is older, nobody says that it is of late."""
_FIRST_SECONDS = 0.5
"""Between the two looks that it takes to know what processes use now."""


@dataclass(frozen=True)
class Ends:
    """Where rows come into an application, and where they leave it.

    Parameters
    ----------
    first, last
        Stages that read what no other stage of it writes; and those that write what no other one reads.
    """

    first: frozenset[str]
    last: frozenset[str]

    @classmethod
    def of(cls, plan: Plan) -> Ends:
        """Those of a plan."""
        before = {stage.name: [one.name for one in upstream(plan, stage)] for stage in plan.stages}
        read = {name for names in before.values() for name in names}
        return cls(
            frozenset(name for name, names in before.items() if not names), frozenset(before.keys() - read)
        )

    @classmethod
    def read(cls, path: Path) -> Ends:
        """Those of the plan in a file."""
        return cls.of(loads(path.read_bytes()))


def run_figures(status: Status, ends: Ends) -> RunFigures:
    """What an application achieves, by its status as of now."""
    if not status.state.active:
        return RunFigures()
    stages = status.stages
    minutes = {name: stage.recent[0] for name, stage in stages.items() if stage.recent}
    inputs = [one for stage in stages.values() for one in stage.inputs.values()]
    behind = [one.rows_behind for one in inputs if one.rows_behind is not None]
    lags = [
        one.lag_ms
        for one in inputs
        if one.lag_ms is not None and one.doing not in ("idle", "ended") and abs(one.stream_time or 0) < FAR
    ]
    first = [minutes[name] for name in ends.first if name in minutes]
    last = [minutes[name] for name in ends.last if name in minutes]
    return RunFigures(
        rows_in=sum(one.rows_in_per_second for one in first) if first else None,
        rows_out=sum(one.rows_out_per_second for one in last) if last else None,
        seconds=max((one.seconds for one in (*first, *last)), default=None),
        backlog=sum(behind) if behind else None,
        more_behind=any(one.more_behind for one in inputs),
        delay=max(lags) / 1000 if lags else None,
        match_rate=_match_rate(stages.values()),
        held_up=next((f"{name}: {why}" for name, stage in stages.items() if (why := stage.held_up)), None),
    )


def _match_rate(stages: Iterable[StageStatus]) -> float | None:
    """That of the shortest of the last times in which any left row was decided."""
    times: dict[int, list[Period]] = defaultdict(list)
    for stage in stages:
        for number, period in enumerate(stage.recent):
            times[number].append(period)
    for _, periods in sorted(times.items()):
        left = [period.counters.input("left") for period in periods]
        matched = sum(one.matched for one in left)
        known = matched + sum(one.unmatched for one in left)
        if known:
            return matched / known
    return None


class HomeFigures:
    """Figures of the applications of a home, for those who ask again and again.

    Parameters
    ----------
    home
        The home.
    clock, sleep
        Seconds since the epoch; and what waits for some.
    """

    def __init__(
        self,
        home: Home,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._home = home
        self._clock = clock
        self._sleep = sleep
        self._ends: dict[str, Unchanged[Ends]] = {}
        self._usages = _usages()
        self._looked: float | None = None

    def top(self, applications: Sequence[Figures]) -> Top:
        """Applications, of which is known what runs them, with what they achieve and use."""
        now = self._clock()
        for name in self._ends.keys() - {one.application for one in applications}:
            del self._ends[name]
        achieved = [
            one if one.pid is None else one.model_copy(update=dict(self._achieved(one.application)))
            for one in applications
        ]
        return top(now, achieved, self._use({one.pid for one in applications if one.pid is not None}, now))

    def _use(self, pids: set[int], now: float) -> Mapping[int, Usage]:
        if self._usages is None or not pids:
            return {}
        if self._looked is None or now - self._looked > _OLD_SECONDS:
            self._usages.look(pids)
            self._sleep(_FIRST_SECONDS)
        self._looked = now
        return self._usages.look(pids)

    def _achieved(self, name: str) -> RunFigures:
        try:
            application = self._home.application(name)
            status, ends = read_status(application), self._ends_of(application)
        except (BraidError, OSError) as error:
            # What is wrong with the files of one application hides no other.
            return RunFigures(held_up=str(error))
        return RunFigures() if status is None or ends is None else run_figures(status, ends)

    def _ends_of(self, application: AppHome) -> Ends | None:
        name = application.name
        if name not in self._ends:
            self._ends[name] = Unchanged(application.plan_file, Ends.read)
        return self._ends[name].get()


def _usages() -> Usages | None:
    """What looks at processes; None without the package that it needs."""
    try:
        from braid.core.usage import Usages
    except ModuleNotFoundError:
        return None
    return Usages()


def top(at: float, applications: Sequence[Figures], usages: Mapping[int, Usage]) -> Top:
    """Applications, with what their processes use."""
    sharing: dict[int, list[Figures]] = defaultdict(list)
    for one in applications:
        if one.pid is not None:
            sharing[one.pid].append(one)
    processes = [
        ProcessFigures(
            pid=pid,
            applications=[one.application for one in found],
            pool=found[0].pool,
            cpu=usages[pid].cpu,
            memory=usages[pid].memory,
        )
        for pid, found in sharing.items()
        if pid in usages
    ]
    return Top(at=at, applications=list(applications), processes=processes)
