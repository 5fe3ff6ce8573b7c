"""Who writes what: every category, lookup table and warehouse table has one application that writes it.

Input categories to which `braid publish` and other programs append have no owner. What was written before
there were owners belongs to the application whose plan and checkpoint say that it writes it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from braid.core.config import AppConfig, parse_options
from braid.core.errors import BraidError, PermanentError, RunError
from braid.core.owner import NOBODY, Owner
from braid.home.owners import OWNER_FILE, claim_folder, read_owner, release_folder
from braid.home.paths import AppHome, Home
from braid.log.layout import check_name
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.physical.targets import LookupTarget, TableTarget, Target, target_of
from braid.plan.serialise import loads
from braid.plan.stages.base import Plan


@dataclass(frozen=True)
class Place:
    """Where a stage stores its rows.

    Parameters
    ----------
    what
        Its kind in words.
    name
        Its name.
    folder
        Its folder, which has an owner file; None for a category, which says it in its settings.
    """

    what: str
    name: str
    folder: Path | None = None

    def owner(self, home: Home) -> Owner | None:
        """Its owner, as stored: None if none was ever named, `NOBODY` if it was released."""
        if self.folder is not None:
            return read_owner(self.folder)
        log = home.log()
        return log.open(self.name).owner if log.has(self.name) else None


def place_of(home: Home, target: Target) -> Place:
    """Where a target is."""
    if isinstance(target, TableTarget):
        return Place("table", target.name, target.folder(home.root))
    if isinstance(target, LookupTarget):
        return Place(
            "lookup table", target.name, home.root / "lookup" / check_name(target.name, "lookup table")
        )
    return Place("category", target.name)


def places(home: Home, plan: Plan) -> list[tuple[str, str]]:
    """What a plan writes: kinds in words, and names."""
    options = parse_options(dict(plan.options))
    found = [place_of(home, target_of(plan.application, stage, options)) for stage in plan.stages]
    return [(place.what, place.name) for place in found]


def claim(home: Home, target: Target, owner: Owner) -> None:
    """Write an owner down for a folder; a category is claimed where it is made."""
    place = place_of(home, target)
    if place.folder is not None:
        claim_folder(place.folder, owner)


def check_outputs(application: AppHome, plan: Plan, options: AppConfig) -> None:
    """Refuse a plan that writes what another application writes, before anything is touched."""
    others: dict[Place, Owner] | None = None
    for stage in plan.stages:
        place = place_of(application.home, target_of(plan.application, stage, options))
        owner = place.owner(application.home)
        if owner is None and not application.checkpoint(stage.name).exists():
            others = _unnamed(application) if others is None else others
            owner = others.get(place)
        if owner is not None and owner != NOBODY and owner.application != plan.application:
            raise PermanentError(
                f"{place.what} {place.name!r} is written by {owner.text}, and table {stage.name!r} of "
                f"{plan.application!r} would write it, too",
                hint=f"store it under another name; or, if {owner.application!r} is no longer to write it, "
                f"let go of what it owns: braid release {owner.application}",
            )


def check_inputs(application: AppHome, plan: Plan, *, create: bool = False) -> None:
    """Refuse a plan that reads a category that is not there; with `create`, make it, empty."""
    log = application.home.log()
    there = log.categories()
    missing = [name for name in _inputs(plan) if name not in there]
    if create:
        for name in missing:
            log.create(name, raw=True)
        return
    if not missing:
        return
    near = {name: difflib.get_close_matches(name, there, n=1) for name in missing}
    guesses = [f"did you mean {found[0]!r} instead of {name!r}?" for name, found in near.items() if found]
    own = f"{application.name}."
    listed = ", ".join(name for name in there if not name.startswith(own)) or "none"
    raise RunError(
        f"there is no category {', '.join(map(repr, missing))} to read",
        where=application.home.log_root,
        hint=" ".join(
            [
                *guesses,
                f"Publish to it first (braid publish {missing[0]} FILE), or start the application that "
                "writes it; braid run --create makes empty inputs, and waits for records.",
                f"Categories: {listed}",
            ]
        ),
    )


def release(home: Home, application: str) -> list[str]:
    """Let go of all that an application owns, so that others may write it; what that was, in words."""
    if home.application(application).is_running():
        raise RunError(f"application {application!r} is running", hint="stop it first")
    return let_go(home, application)


def let_go(home: Home, application: str) -> list[str]:
    """Do as `release`, for a caller that holds the application's lock."""
    named = home.application(application)
    released = []
    log = home.log()
    for name in log.categories():
        category = log.open(name)
        if category.owner is not None and category.owner.application == application:
            category.release()
            released.append(f"category {name}")
    plan = _plan(named)
    places = [] if plan is None else [place for place, _ in _places(named, plan)]
    for place in places:
        if place.folder is None and log.has(place.name) and log.open(place.name).owner is None:
            log.open(place.name).release()
            released.append(f"category {place.name}")
    folders = {place.folder for place in places if place.folder is not None}
    for below in ("lookup", "warehouse"):
        folders |= {path.parent for path in (home.root / below).glob(f"*/{OWNER_FILE}")}
    for folder in sorted(folder for folder in folders if folder.is_dir()):
        owner = read_owner(folder)
        if owner is None or owner.application == application:
            release_folder(folder)
            released.append(f"table {folder.name}")
    return released


def _inputs(plan: Plan) -> list[str]:
    """The categories that others write for a plan."""
    sources = [stage.source for stage in plan.stages if isinstance(stage, SlicerStage)]
    return list(dict.fromkeys(s.name for s in sources if s.kind.connector.logged and not s.internal))


def _unnamed(application: AppHome) -> dict[Place, Owner]:
    """What other applications of the home write by their plans and checkpoints, whether or not it is said."""
    found: dict[Place, Owner] = {}
    for other in application.home.applications():
        plan = None if other.name == application.name else _plan(other)
        if plan is not None:
            for place, owner in _places(other, plan):
                found.setdefault(place, owner)
    return found


def _places(application: AppHome, plan: Plan) -> Iterator[tuple[Place, Owner]]:
    options = parse_options(dict(plan.options))
    for stage in plan.stages:
        if application.checkpoint(stage.name).exists():
            target = target_of(plan.application, stage, options)
            yield place_of(application.home, target), Owner(plan.application, stage.name)


def _plan(application: AppHome) -> Plan | None:
    """The plan that an application ran last; None if there is none that can be read."""
    try:
        return loads(application.plan_file.read_bytes())
    except (OSError, UnicodeDecodeError, BraidError):
        return None
