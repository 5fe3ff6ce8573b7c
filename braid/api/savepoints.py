"""Savepoints of applications: take them, list them, begin from them, drop them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from braid.api.programs import load_plan
from braid.home.asking import ask
from braid.home.control import Answer, Save
from braid.home.paths import Home, HomeLike
from braid.home.saved import Saved, SavedFolder, find_saved, saved_names
from braid.plan.serialise import loads
from braid.plan.stages.base import Plan
from braid.spark.last_run import overrides, running_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # noqa: TID251  only a name for the type checker


@dataclass(frozen=True)
class SavepointInfo:
    """A savepoint.

    Parameters
    ----------
    name, application, taken
        What it is called, whose it is, and when it was taken, in seconds since the epoch.
    pending
        Rows that waited for others.
    state_bytes
        What its states and positions take.
    row_bytes
        What the rows take that it refers to: nothing beside the log, as long as the log has them.
    """

    name: str
    application: str
    taken: float
    pending: int
    state_bytes: int
    row_bytes: int

    @classmethod
    def of(cls, folder: SavedFolder, saved: Saved) -> SavepointInfo:
        """What there is to say of one."""
        sizes = {path: path.stat().st_size for path in folder.root.rglob("*") if path.is_file()}
        rows = sum(size for path, size in sizes.items() if path.relative_to(folder.root).parts[0] == "log")
        whole = sum(sizes.values())
        return cls(saved.name, saved.application, saved.taken, saved.pending, whole - rows, rows)


def savepoint(
    application: str,
    home: HomeLike = None,
    *,
    name: str | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    on_phase: Callable[[str], None] | None = None,
) -> SavepointInfo:
    """Take a savepoint of an application, from which it, or a copy, can go on.

    A running one goes on meanwhile; its stages with a state pause one by one, for a micro-batch that takes
    nothing in. Of a stopped one Spark is started to hand over the states.

    Parameters
    ----------
    application, home
        The application and its home.
    name
        Of the savepoint; by default that of the application with the time.
    spark, master, settings, on_phase
        As for `run`, if the application is stopped.
    """
    running_plan(application, home)
    found = Home.existing(home).application(application)
    named = name or f"{application}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    request = Save(id=uuid.uuid4().hex, name=named)
    if ask(found, request, found.save_file, found.saved_file, Answer) is None:
        from braid.spark.app import Application

        Application(
            loads(found.plan_file.read_bytes()),
            found.home,
            spark=spark,
            options=overrides(found),
            master=master,
            settings=settings,
            save=named,
            on_phase=on_phase,
        ).start().wait()
    return SavepointInfo.of(*find_saved(found.home, named))


def savepoints(application: str | None = None, home: HomeLike = None) -> list[SavepointInfo]:
    """The savepoints of a home, or of one of its applications, oldest first."""
    found = Home.existing(home)
    known = [SavepointInfo.of(*find_saved(found, name)) for name in saved_names(found)]
    wanted = [one for one in known if application in (None, one.application)]
    return sorted(wanted, key=lambda one: one.taken)


def restore(name: str, program: str | Path | Plan, home: HomeLike = None, *, discard: bool = False) -> Saved:
    """Make an application, stopped, that goes on from a savepoint when it is started.

    Parameters
    ----------
    name, home
        The savepoint.
    program
        What is to begin from it: a file with a PQL program or a plan as JSON, or a plan. It is of the
        application that the savepoint was taken of, if that is gone, or of a name that is free: a copy.
    discard
        Whether to go on where retention has removed rows of inputs that the savepoint has not read.
    """
    from braid.spark.restoring import Restore

    found = Home.existing(home)
    folder, saved = find_saved(found, name)
    plan = program if isinstance(program, Plan) else load_plan(program)
    Restore(folder, saved, found.application(plan.application), plan).run(discard=discard)
    return saved


def drop_savepoint(name: str, home: HomeLike = None) -> None:
    """Remove a savepoint; rows that the log does not have any more go with it."""
    find_saved(Home.existing(home), name)[0].drop()
