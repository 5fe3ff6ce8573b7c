"""Upkeep of a home: retention, sweeps, and the table that tells of them. The decisions are in `upkeep_rules`.

One process at a time does it, by a lock. Clocks are passed in, in seconds.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from braid.core.config import parse_options
from braid.core.errors import BraidError, RunError
from braid.core.times import SECOND
from braid.engine.upkeep_rules import (
    AppFacts,
    CategoryKind,
    CategoryRule,
    Holder,
    compaction,
    rules,
    table_folders,
)
from braid.engine.upkeep_sweep import GRACE, sweep_application, sweep_home, sweep_table
from braid.home.control import SinkStart
from braid.home.locks import exclusive
from braid.home.needs import QueryNeeds
from braid.home.options import read_options
from braid.home.paths import AppHome, Home
from braid.home.table_commits import TableCommits
from braid.log.category import Category
from braid.plan.physical.readers import category_readers
from braid.plan.serialise import loads
from braid.plan.time_words import duration

ALL_PIECES = 10_000
"""More pieces of compaction than a category has."""
ALL_RECORDS = 2**62
"""More records of commits than a table has."""
_LOOK_SECONDS = 0.1
LAG = 10.0
"""Seconds between the retirement of commits and the removal of their files: whoever has looked at the log
before, and is about to read, has done so by then."""


@dataclass(frozen=True)
class Survey:
    """What upkeep may do, as of one look at all applications.

    Parameters
    ----------
    rules
        The rule on every category.
    troubles
        What could not be read. What an application needs that cannot be read is not known, so nothing is
        retired in the whole home until it can be.
    tables
        Folders of warehouse tables.
    """

    rules: Mapping[str, CategoryRule]
    troubles: tuple[str, ...] = ()
    tables: tuple[Path, ...] = ()

    @property
    def may_retire(self) -> bool:
        """Whether it is known of all applications what they need."""
        return not self.troubles


def survey(home: Home) -> Survey:
    """Look at all applications of a home, running and stopped."""
    found: list[AppFacts] = []
    troubles: list[str] = []
    for application in home.applications():
        try:
            facts = facts_of(application)
        except BraidError as error:
            troubles.append(f"application {application.name}: {one_line(error)}")
        else:
            found += [] if facts is None else [facts]
    warehouse = home.root / "warehouse"
    tables = set(warehouse.iterdir()) if warehouse.is_dir() else set()
    tables |= {folder for facts in found for folder in table_folders(facts, home.root)}
    there = sorted(folder for folder in tables if folder.is_dir())
    return Survey(rules(found, home.log().categories()), tuple(troubles), tuple(there))


def facts_of(home: AppHome) -> AppFacts | None:
    """What upkeep must know of an application; None if it was never started."""
    if not home.plan_file.exists():
        return None
    plan = loads(home.plan_file.read_bytes())
    needs: dict[str, QueryNeeds] = {}
    for reader in category_readers(plan):
        stored = QueryNeeds.read(home.control_file(reader.query, "needs"))
        if stored is not None and home.checkpoint(reader.query).exists():
            needs[reader.query] = stored
    starts = {stage.name: SinkStart.read(home.control_file(stage.name, "sink")) for stage in plan.stages}
    writers = {name: start.writer for name, start in starts.items() if start is not None and start.writer}
    ran = read_options(home)
    options = parse_options(dict(plan.options)) if ran is None else ran.options
    return AppFacts(home.name, plan, options, home.dead_letter, needs, writers)


def upkeep_lock(home: Home) -> AbstractContextManager[bool]:
    """Whether nobody else is at the upkeep of a home, and nobody begins until the block ends."""
    return exclusive(home.root / ".upkeep.lock")


@contextmanager
def alone_at_upkeep(home: Home, patience: float = 0.0) -> Iterator[None]:
    """Let nobody else be at the upkeep of a home; an error if somebody is, and stays for so many seconds."""
    until = time.monotonic() + patience
    while True:
        with upkeep_lock(home) as alone:
            if alone:
                yield
                return
        if time.monotonic() >= until:
            raise RunError(
                "another process is at the upkeep of this home",
                where=str(home.root),
                hint="try again in a moment",
            )
        time.sleep(_LOOK_SECONDS)


@dataclass(frozen=True)
class Size:
    """What a category, or a part of it, takes: commits, and files and their bytes on the disk."""

    commits: int
    files: int
    bytes: int


class HomeUpkeep:
    """Does the work, one category at a time, and remembers which commits are retired since when."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._log = home.log()
        self._retired: dict[str, deque[tuple[float, int]]] = {}

    def retain(self, rule: CategoryRule, now: float) -> int:
        """Retire the commits of a category that are too old and not needed; how many those were."""
        category = self._category(rule.category)
        retired = category.retire(self._before(rule, now), self._needed_from(rule, category, now))
        if retired:
            self._waiting(category, now).append((now, category.first))
        return retired

    def clear(self, name: str, now: float, lag: float = LAG) -> int:
        """Remove the files of commits that have been retired for long enough; how many commits those were."""
        category, below = self._category(name), None
        waiting = self._waiting(category, now)
        while waiting and waiting[0][0] + lag <= now:
            below = waiting.popleft()[1]
        return 0 if below is None else category.clear(below)

    def sweep(self, name: str) -> list[str]:
        """Remove files of a category that no commit refers to."""
        return self._category(name).sweep(GRACE)

    def compact(self, rule: CategoryRule, now: float, pieces: int) -> int:
        """Compact a category, at most so many pieces; how many were done."""
        category = self._category(rule.category)
        if rule.kind is CategoryKind.UNUSED:
            return 0
        for done in range(pieces):
            config = compaction(rule.keep, category.settings.live_segments)
            if config is None or not category.compact(config, round(now * SECOND)):
                return done
        return pieces

    def retirable(self, rule: CategoryRule, now: float) -> Size:
        """What `retain` would retire now."""
        category = self._category(rule.category)
        category.refresh()
        needed, before = self._needed_from(rule, category, now), self._before(rule, now)
        commits = files = size = 0
        for segment in category.settings.live_segments:
            if segment.last >= needed or segment.wall[1] >= before:
                return Size(commits, files, size)
            commits, files, size = commits + segment.commits, files + 1, size + segment.size
        reader = category.reader()
        for number in range(category.first + commits, needed):
            commit = reader.commit(number)
            if commit.wall_time >= before:
                break
            commits, files = commits + 1, files + 1 + len(commit.files)
            size += sum(entry.size for entry in commit.files.values())
        return Size(commits, files, size)

    def _before(self, rule: CategoryRule, now: float) -> int:
        return round(now * SECOND) - rule.keep

    def _needed_from(self, rule: CategoryRule, category: Category, now: float) -> int:
        """The lowest commit that must stay, whatever its age."""
        needed = rule.needed_from(category.latest() + 1)
        if rule.kind is not CategoryKind.DEAD_LETTERS:
            return needed
        reader, before = category.reader(), self._before(rule, now)
        for number in range(category.first, needed):
            commit = reader.commit(number)
            if commit.wall_time >= before or not rule.settled(commit):
                return number
        return needed

    def _category(self, name: str) -> Category:
        """A category as it is now: another one may have been made since under the same name."""
        return self._log.open(name)

    def _waiting(self, category: Category, now: float) -> deque[tuple[float, int]]:
        """What is retired and not yet removed; at first, what an upkeep that was ended has left."""
        if category.name not in self._retired:
            self._retired[category.name] = deque([(now, category.first)])
        return self._retired[category.name]


# -- by hand --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CategoryReport:
    """What upkeep found of a category, and left of it.

    Parameters
    ----------
    category, kind
        The category, and what it is.
    before, after
        How large it was, and is; with a dry run, would be.
    keep
        How old its commits may grow, in microseconds; None if it is left alone.
    holder
        Who needs the oldest commit that is left, if somebody reads the category.
    trouble
        What went wrong.
    """

    category: str
    kind: CategoryKind
    before: Size
    after: Size
    keep: int | None
    holder: Holder | None = None
    trouble: str | None = None

    @property
    def kept_for(self) -> str:
        """`keep` in words."""
        return "" if self.keep is None else duration(self.keep)


@dataclass(frozen=True)
class TableReport:
    """What upkeep has done for a warehouse table: records of commits that were folded, or what went wrong."""

    folder: str
    folded: int = 0
    trouble: str | None = None


@dataclass(frozen=True)
class UpkeepReport:
    """What upkeep of a whole home has done, or would do.

    Parameters
    ----------
    categories, tables
        By category, and by warehouse table.
    swept
        Files swept elsewhere.
    troubles
        Why nothing was retired.
    """

    categories: tuple[CategoryReport, ...]
    tables: tuple[TableReport, ...] = ()
    swept: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    dry_run: bool = field(default=False, kw_only=True)


def upkeep(
    home: Home, clock: Callable[[], float], sleep: Callable[[float], None], *, dry_run: bool = False
) -> UpkeepReport:
    """All upkeep of a home at once.

    Parameters
    ----------
    home
        The home.
    clock, sleep
        The wall clock in seconds, and how to wait; files go at once if no application is running.
    dry_run
        Whether only to tell what would be done.
    """
    with alone_at_upkeep(home):
        seen, work = survey(home), HomeUpkeep(home)
        now = clock()
        reports = [_retain(home, work, rule, now, seen, dry_run) for rule in seen.rules.values()]
        if dry_run:
            return UpkeepReport(tuple(reports), troubles=seen.troubles, dry_run=True)
        if any(application.is_running() for application in home.applications()):
            sleep(LAG)
        reports = [_clear(home, work, one, seen.rules[one.category], clock()) for one in reports]
        swept = sweep_home(home, now)
        for application in home.applications():
            swept += sweep_application(application, now)
        tables = [_tend_table(folder, now, swept) for folder in seen.tables]
        return UpkeepReport(tuple(reports), tuple(tables), tuple(map(str, swept)), seen.troubles)


def _retain(
    home: Home, work: HomeUpkeep, rule: CategoryRule, now: float, seen: Survey, dry_run: bool
) -> CategoryReport:
    """The first half of upkeep of a category: its report, with what will be left if this is a dry run."""
    try:
        before = measure(home, rule.category)
    except (BraidError, OSError) as error:
        nothing = Size(0, 0, 0)
        return CategoryReport(rule.category, rule.kind, nothing, nothing, None, rule.holder, one_line(error))
    keep = None if rule.kind is CategoryKind.UNUSED else rule.keep
    report = CategoryReport(rule.category, rule.kind, before, before, keep, rule.holder)
    if not seen.may_retire:
        return report
    try:
        if not dry_run:
            work.retain(rule, now)
            return report
        gone = work.retirable(rule, now)
    except (BraidError, OSError) as error:
        return replace(report, trouble=one_line(error))
    after = Size(before.commits - gone.commits, before.files - gone.files, before.bytes - gone.bytes)
    return replace(report, after=after)


def _clear(
    home: Home, work: HomeUpkeep, report: CategoryReport, rule: CategoryRule, now: float
) -> CategoryReport:
    """The second half, with what is left."""
    try:
        if report.trouble is None:
            work.clear(report.category, now, lag=0.0)
            work.compact(rule, now, pieces=ALL_PIECES)
            work.sweep(report.category)
        return replace(report, after=measure(home, report.category))
    except (BraidError, OSError) as error:
        return replace(report, trouble=one_line(error))


def _tend_table(folder: Path, now: float, swept: list[Path]) -> TableReport:
    """All upkeep of a table; files that went are added to those swept."""
    try:
        swept += sweep_table(folder, now)
        return TableReport(str(folder), TableCommits(folder).fold(ALL_RECORDS))
    except (BraidError, OSError) as error:
        return TableReport(str(folder), trouble=one_line(error))


def measure(home: Home, name: str) -> Size:
    """How large a category is."""
    category = home.log().open(name)
    files = category.storage.files()
    return Size(category.latest() + 1 - category.first, len(files), sum(file.size for file in files))


def one_line(error: BaseException) -> str:
    """An error in one line."""
    return "; ".join(part.strip() for part in str(error).splitlines()) or type(error).__name__
