"""The programs that an application has run, as plans, so that one can go back to any of them."""

from __future__ import annotations

from typing import Any

from braid.home.paths import AppHome
from braid.home.records import Record

RETAINED = 50
"""Versions that are kept; older ones are forgotten."""


class Version(Record):
    """A program that was started.

    Parameters
    ----------
    number
        Counts from 1.
    started
        When it was first started, in seconds since the epoch.
    verdict
        On the update from the version before; None if there was none.
    changes
        What it changes in the version before, in words.
    plan
        The plan, as JSON.
    """

    number: int
    started: float
    verdict: str | None = None
    changes: tuple[str, ...] = ()
    plan: dict[str, Any]


def versions(home: AppHome) -> list[Version]:
    """The versions of an application that are kept, oldest first."""
    paths = home.versions.glob("[0-9]*.json") if home.versions.is_dir() else ()
    found = (Version.read(path) for path in sorted(paths, key=lambda path: int(path.stem)))
    return [version for version in found if version is not None]


def newest(home: AppHome) -> int | None:
    """The number of the last version; None if there is none."""
    numbers = (int(path.stem) for path in home.versions.glob("[0-9]*.json") if path.stem.isdigit())
    return max(numbers, default=None)


def keep_version(
    home: AppHome,
    plan: dict[str, Any],
    started: float,
    verdict: str | None = None,
    changes: tuple[str, ...] = (),
) -> None:
    """Keep a plan that is about to run, unless it is that of the last version."""
    known = versions(home)
    if known and known[-1].plan == plan:
        return
    number = known[-1].number + 1 if known else 1
    version = Version(number=number, started=started, verdict=verdict, changes=changes, plan=plan)
    version.write(home.versions / f"{number}.json")
    for old in known[: max(0, len(known) + 1 - RETAINED)]:
        (home.versions / f"{old.number}.json").unlink(missing_ok=True)
