"""Dropping a category or an application: what goes, and who objects."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from braid.core.errors import RunError
from braid.core.owner import NOBODY
from braid.engine.ownership import let_go
from braid.engine.upkeep import alone_at_upkeep, facts_of, measure
from braid.engine.upkeep_rules import AppFacts, CategoryKind, read_by, written_by
from braid.home.paths import AppHome, Home
from braid.log.category import Category


@dataclass(frozen=True)
class Dropped:
    """What has gone, or would go.

    Parameters
    ----------
    categories
        Categories, with the bytes that they take.
    application
        The application whose folder goes, with status, metrics and checkpoints; None if a category was
        dropped.
    kept
        What the application has stored elsewhere, and stays: categories, tables and lookup tables.
    """

    categories: dict[str, int]
    application: str | None = None
    kept: tuple[str, ...] = ()

    @property
    def removed(self) -> list[str]:
        """What goes, in words."""
        own = [] if self.application is None else [f"application {self.application}"]
        return own + [f"category {name}: {size:,} bytes" for name, size in self.categories.items()]


def drop_category(home: Home, name: str, *, dry_run: bool = False) -> Dropped:
    """Remove a category with all its rows, unless an application reads or writes it."""
    log = home.log()
    log.open(name)
    with alone_at_upkeep(home):
        _check_unused(name, _applications(home))
        found = Dropped({name: measure(home, name).bytes})
        if not dry_run:
            log.drop(name)
        return found


def drop_application(home: Home, name: str, *, keep_data: bool = False, dry_run: bool = False) -> Dropped:
    """Remove the folder of an application and the categories that it writes.

    Without its checkpoints nothing could go on from what it has buffered, so intermediate categories always
    go; `keep_data` keeps its outputs and dead letters. Tables and lookup tables stay in any case.
    """
    application = _existing(home, name)
    log = home.log()
    with alone_at_upkeep(home), application.running():
        own = facts_of(application)
        written = _half_restored(application) if own is None else written_by(own)
        there = [category for category in written if log.has(category) and _is_of(log.open(category), name)]
        gone = [
            category for category in there if written[category] is CategoryKind.INTERMEDIATE or not keep_data
        ]
        others = [facts for facts in _applications(home) if facts.name != name]
        for category in gone:
            _check_unused(category, others)
        kept = [f"category {category}" for category in there if category not in gone]
        kept += [] if own is None else _stored_elsewhere(own)
        found = Dropped({category: measure(home, category).bytes for category in gone}, name, tuple(kept))
        if not dry_run:
            let_go(home, name)
            # First the folder: what is left if this is cut short is categories that nobody uses.
            shutil.rmtree(application.root)
            for category in gone:
                log.drop(category)
        return found


def _half_restored(application: AppHome) -> dict[str, CategoryKind]:
    """What an application writes that was being made of a savepoint when that was killed."""
    log = application.home.log()
    if not application.restoring_file.exists():
        return {}
    owners = {name: log.open(name).owner for name in log.categories()}
    return {
        name: CategoryKind.INTERMEDIATE
        for name, owner in owners.items()
        if owner is not None and owner.application == application.name
    }


def _existing(home: Home, name: str) -> AppHome:
    known = home.applications()
    if name not in [application.name for application in known]:
        raise RunError(
            f"application {name!r} does not exist",
            where=str(home.root),
            hint=f"existing applications: {', '.join(one.name for one in known) or 'none'}",
        )
    return home.application(name)


def _applications(home: Home) -> list[AppFacts]:
    """All applications; an error if one cannot be read, since it may use what is to go."""
    found = [facts_of(application) for application in home.applications()]
    return [facts for facts in found if facts is not None]


def _stored_elsewhere(own: AppFacts) -> list[str]:
    sinks = [stage.sink for stage in own.plan.stages]
    return [sink.place for sink in sinks if sink.kind.connector.filed or sink.kind.connector.keyed]


def _check_unused(category: str, applications: list[AppFacts]) -> None:
    for facts in applications:
        does = "reads" if category in read_by(facts) else "writes" if category in written_by(facts) else None
        if does is not None:
            raise RunError(
                f"application {facts.name!r} {does} category {category!r}",
                hint=f"drop that application first: braid drop app {facts.name}",
            )


def _is_of(category: Category, application: str) -> bool:
    """Whether nobody else has taken over a category that an application has written."""
    return category.owner is None or category.owner.application in (application, NOBODY.application)
