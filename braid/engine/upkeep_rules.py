"""Which commits of a home may go: what every category is, how long it is kept, and who still needs what.

Pure functions of plans, options and records; `braid.engine.upkeep` reads these and does the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from braid.core.config import AppConfig
from braid.core.times import FOREVER, MINUTE, SECOND
from braid.home.needs import QueryNeeds
from braid.log.compaction import CompactionConfig
from braid.log.records import Commit
from braid.log.segments import SegmentEntry
from braid.plan.physical.readers import category_readers
from braid.plan.physical.targets import TableTarget, category_of, target_of
from braid.plan.stages.base import Plan

SHORTEST_COMPACTED = 5 * MINUTE
"""Commits that are kept for less than this are gone before it would pay to compact them, which costs about
half a millisecond each; and there are a few thousand of them at most."""
SEGMENTS_KEPT = 16
"""About how many full segments a category has when what is too old has gone."""
LEAST_SEGMENT = 2**18
"""Bytes below which it does not matter how large a segment is."""


class CategoryKind(StrEnum):
    """What a category is to the applications of its home."""

    INPUT = "input"
    INTERMEDIATE = "intermediate"
    OUTPUT = "output"
    DEAD_LETTERS = "dead letters"
    UNUSED = "unused"
    """No application reads or writes it, so nobody can say when its rows are no longer wanted."""


@dataclass(frozen=True)
class AppFacts:
    """What upkeep knows of an application, running or stopped.

    Parameters
    ----------
    name, plan, options
        As it runs, or ran last.
    dead_letter
        Its category of dead letters.
    needs
        What each of its queries needs; a query that is not here has never run, and needs everything.
    writers
        By what name the dead letters of a stage are known, if not by its own.
    """

    name: str
    plan: Plan
    options: AppConfig
    dead_letter: str
    needs: Mapping[str, QueryNeeds] = field(default_factory=dict)
    writers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Holder:
    """A query that reads a category, and the lowest commit that it needs.

    `since` says when that moved last, in seconds; None if the query has never run.
    """

    application: str
    query: str
    commit: int
    since: float | None


@dataclass(frozen=True)
class CategoryRule:
    """What upkeep may do with a category.

    Parameters
    ----------
    category, kind
        The category, and what it is.
    keep
        How old commits may grow, in microseconds.
    holders
        Who reads it.
    letters
        Of dead letters: the last commit of each stage that is surely over, by who writes its letters.
    """

    category: str
    kind: CategoryKind
    keep: int
    holders: tuple[Holder, ...] = ()
    letters: Mapping[str, int] = field(default_factory=dict)

    @property
    def holder(self) -> Holder | None:
        """Who needs the lowest commit; None if nobody reads the category."""
        return min(self.holders, key=lambda one: one.commit, default=None)

    def needed_from(self, following: int) -> int:
        """The lowest commit that somebody needs; `following`, the next one to be written, if nobody does."""
        return min([following, *(holder.commit for holder in self.holders)])

    def settled(self, commit: Commit) -> bool:
        """Whether no stage may write a commit of letters again.

        A stage that repeats its last micro-batch knows by the letters that are there which it has written.
        """
        origin = commit.origin
        if self.kind is not CategoryKind.DEAD_LETTERS or origin is None or origin.writer not in self.letters:
            return True
        return origin.number <= self.letters[origin.writer]


def compaction(keep: int, segments: Sequence[SegmentEntry]) -> CompactionConfig | None:
    """How a category is compacted whose commits are kept for so long; None if that is not worth it.

    Segments are retired as a whole, so a full one spans a small part of that time, at the rate at which the
    ones that are there were written.
    """
    if keep < SHORTEST_COMPACTED:
        return None
    config = CompactionConfig()
    if not segments:
        return config
    span = max(SECOND, segments[-1].wall[1] - segments[0].wall[0])
    rate = sum(segment.size for segment in segments) / span
    full = min(config.segment_bytes, max(LEAST_SEGMENT, round(rate * keep / SEGMENTS_KEPT)))
    return replace(config, segment_bytes=full)


def rules(applications: Iterable[AppFacts], categories: Iterable[str]) -> dict[str, CategoryRule]:
    """The rule on every category of a home."""
    known = list(applications)
    return {name: _rule(name, known) for name in categories}


def written_by(app: AppFacts) -> dict[str, CategoryKind]:
    """The categories that an application writes."""
    found = {app.dead_letter: CategoryKind.DEAD_LETTERS}
    for stage in app.plan.stages:
        connector = stage.sink.kind.connector
        if connector.logged or connector.relayed:
            kind = CategoryKind.INTERMEDIATE if stage.private else CategoryKind.OUTPUT
            found[category_of(app.name, stage)] = kind
    return found


def read_by(app: AppFacts) -> set[str]:
    """The categories that an application reads."""
    return {category for reader in category_readers(app.plan) for category in reader.inputs.values()}


def table_folders(app: AppFacts, home: Path) -> set[Path]:
    """Folders of the warehouse tables that an application writes."""
    targets = (target_of(app.name, stage, app.options) for stage in app.plan.stages)
    return {target.folder(home) for target in targets if isinstance(target, TableTarget)}


def _rule(category: str, applications: list[AppFacts]) -> CategoryRule:
    holders = tuple(holder for app in applications for holder in _holders(category, app))
    kinds = [(written_by(app)[category], app) for app in applications if category in written_by(app)]
    ages = [app.options.retention for app in applications if category in read_by(app)]
    ages += [_age(kind, app.options) for kind, app in kinds]
    kind = kinds[0][0] if kinds else CategoryKind.INPUT if holders else CategoryKind.UNUSED
    letters: dict[str, int] = {}
    for kept, app in kinds:
        if kept is CategoryKind.DEAD_LETTERS:
            letters = {
                app.writers.get(stage.name, stage.name): app.needs.get(stage.name, QueryNeeds()).written
                for stage in app.plan.stages
            }
    return CategoryRule(category, kind, max(ages, default=FOREVER), holders, letters)


def _holders(category: str, app: AppFacts) -> Iterable[Holder]:
    for reader in category_readers(app.plan):
        if category in reader.inputs.values():
            needs = app.needs.get(reader.query, QueryNeeds())
            yield Holder(app.name, reader.query, needs.needed(category), needs.since.get(category))


def _age(kind: CategoryKind, options: AppConfig) -> int:
    match kind:
        case CategoryKind.OUTPUT:
            return options.output_retention
        case CategoryKind.DEAD_LETTERS:
            return options.dead_letter_retention
        case _:
            return options.retention
