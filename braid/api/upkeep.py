"""Upkeep of a home by hand, and dropping what is no longer wanted."""

from __future__ import annotations

import time

from braid.engine import drop
from braid.engine.drop import Dropped
from braid.engine.upkeep import UpkeepReport
from braid.engine.upkeep import upkeep as work
from braid.home.paths import Home, HomeLike


def upkeep(home: HomeLike = None, *, dry_run: bool = False) -> UpkeepReport:
    """Retain, sweep and compact all categories of a home now, beside what runs or when nothing does.

    Parameters
    ----------
    home
        The home.
    dry_run
        Whether only to tell what would be done.
    """
    return work(Home.existing(home), time.time, time.sleep, dry_run=dry_run)


def drop_category(name: str, home: HomeLike = None, *, dry_run: bool = False) -> Dropped:
    """Remove a category with all its rows; refused while an application reads or writes it."""
    return drop.drop_category(Home.at(home), name, dry_run=dry_run)


def drop_application(
    name: str, home: HomeLike = None, *, keep_data: bool = False, dry_run: bool = False
) -> Dropped:
    """Remove an application: its folder, and the categories that it writes.

    Refused while it runs, or while another application reads or writes one of these categories.

    Parameters
    ----------
    name, home
        The application.
    keep_data
        Whether the categories that it stored tables in, and its dead letters, stay.
    dry_run
        Whether only to tell what would go.
    """
    return drop.drop_application(Home.at(home), name, keep_data=keep_data, dry_run=dry_run)
