"""Upkeep inside a run: when what is due, a piece at a time, and what is said of troubles."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from braid.core.config import AppConfig
from braid.core.errors import BraidError
from braid.core.logging import Log
from braid.core.times import SECOND
from braid.engine.needs import RunNeeds
from braid.engine.upkeep import HomeUpkeep, one_line, survey, upkeep_lock
from braid.engine.upkeep_rules import CategoryRule
from braid.engine.upkeep_sweep import GRACE, sweep_application, sweep_counts, sweep_home, sweep_table
from braid.home.paths import AppHome
from braid.home.rotation import rotate_open
from braid.home.table_commits import TableCommits

LOW = 2**30
"""Bytes of free space below which upkeep does not wait for its time."""
HASTE = 5.0
"""Seconds between two rounds when there is little space."""
PIECES = 4
"""Pieces of compaction of one category in one round."""
RECORDS = 10_000
"""Records of commits of one table that are folded in one round, which takes half a second."""
FIRST_SWEEP, SWEEP = 600.0, 3600.0
"""Seconds after which orphans are looked for first, and then again."""
SHARE = 0.002
"""Part of a core that sweeps of one thing may take on average: they look at all files that there are."""


def interval(options: AppConfig) -> float:
    """Seconds between two rounds: a tenth of the shortest time for which something is kept, within limits."""
    shortest = min(options.retention, options.output_retention, options.dead_letter_retention)
    return min(60.0, max(1.0, shortest / SECOND / 10))


class RunUpkeep:
    """The upkeep that an application does while it runs, for the whole home.

    Applications that run in one home share the work: whoever has the lock does what is due.

    Parameters
    ----------
    home, options, log
        The application.
    needs
        What its queries need, which is written before each round.
    stopping
        When set, a round ends after the piece that is under way.
    clock, timer
        The wall clock, and one that only measures; both in seconds.
    """

    def __init__(
        self,
        home: AppHome,
        options: AppConfig,
        needs: RunNeeds,
        log: Log,
        stopping: threading.Event,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._home = home
        self._needs = needs
        self._log = log
        self._stopping = stopping
        self._clock = clock
        self._timer = timer
        self._work = HomeUpkeep(home.home)
        self._interval = interval(options)
        self._started = self._last = timer()
        self._swept: dict[str, tuple[float, float]] = {}
        self._low = False
        self.troubles: tuple[str, ...] = ()
        """What went wrong in the last round, each in one line."""

    def turn(self) -> None:
        """Do a round if it is time. Troubles are told, and tried again in the next round."""
        now = self._timer()
        self._low = self._is_low()
        if now - self._last < (min(HASTE, self._interval) if self._low else self._interval):
            return
        self._last = now
        troubles: list[str] = []
        self._try("needs", self._needs.write, troubles)
        self._try("spark.log", lambda: rotate_open(self._home.root / "spark.log"), troubles)
        self._try("home", lambda: self._round(troubles), troubles)
        if tuple(troubles) != self.troubles:
            # Texts of errors may quote data: they are in the status.
            self._log.warning("upkeep", troubles=len(troubles), status=self._home.status_file)
        self.troubles = tuple(troubles)

    def _round(self, troubles: list[str]) -> None:
        with upkeep_lock(self._home.home) as alone:
            if not alone:
                return
            seen = survey(self._home.home)
            troubles += seen.troubles
            for rule in seen.rules.values():
                if self._stopping.is_set():
                    return
                self._try(rule.category, partial(self._tend, rule, may_retire=seen.may_retire), troubles)
            for folder in seen.tables:
                if self._stopping.is_set():
                    return
                self._try(f"table {folder}", partial(self._tend_table, folder), troubles)
            self._sweep_files()

    def _tend(self, rule: CategoryRule, *, may_retire: bool) -> None:
        """One piece: what is to be done for a category."""
        self._work.clear(rule.category, self._clock())
        self._seldom(rule.category, lambda: self._work.sweep(rule.category))
        if may_retire:
            self._work.retain(rule, self._clock())
        self._work.compact(rule, self._clock(), PIECES)

    def _tend_table(self, folder: Path) -> None:
        """One piece: what is to be done for a warehouse table."""
        self._seldom(f"table:{folder}", lambda: sweep_table(folder, self._clock()))
        TableCommits(folder).fold(RECORDS)

    def _sweep_files(self) -> None:
        """Sweep what is neither in categories nor in tables."""
        now = self._clock()
        self._seldom("home:", lambda: sweep_home(self._home.home, now))
        self._seldom("application:", lambda: sweep_application(self._home, now))
        if self._timer() - self._started > GRACE:
            self._seldom("counts:", lambda: sweep_counts(self._home, now))

    def _seldom(self, what: str, sweep: Callable[[], object]) -> None:
        """Sweep if that is due, and decide by what it costs when it will be again."""
        began = self._timer()
        last, pause = self._swept.setdefault(what, (self._started, FIRST_SWEEP))
        if began - last < (min(pause, FIRST_SWEEP) / 10 if self._low else pause):
            return
        sweep()
        self._swept[what] = began, max(SWEEP, (self._timer() - began) / SHARE)

    def _is_low(self) -> bool:
        try:
            return shutil.disk_usage(self._home.root).free < LOW
        except OSError:
            return False

    def _try(self, what: str, work: Callable[[], object], troubles: list[str]) -> None:
        try:
            work()
        except (BraidError, OSError) as error:
            troubles.append(f"{what}: {one_line(error)}")
