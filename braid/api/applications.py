"""Applications: start them, and see what they are doing."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from braid.api.programs import load_plan
from braid.api.savepoints import restore
from braid.core.config import parse_options
from braid.core.errors import ConfigError, RunError
from braid.engine.ownership import release as release_owned
from braid.home.asking import ask
from braid.home.control import Answer, Request, Rescale, Rescaled
from braid.home.lease import Lease
from braid.home.metrics import MicroBatch
from braid.home.paths import Home, HomeLike
from braid.home.status import Status, read_status
from braid.home.versions import Version
from braid.home.versions import versions as kept_versions
from braid.log.layout import MAX_SHARDS
from braid.plan.serialise import loads
from braid.plan.stages.base import Plan
from braid.spark.last_run import overrides, ran_plan, running_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # noqa: TID251  only a name for the type checker

    from braid.spark.app import Application
    from braid.spark.shared import SharedSpark
    from braid.spark.updating import Update

_POLL_SECONDS = 0.1


def run(
    program: str | Path | Plan,
    home: HomeLike = None,
    *,
    spark: SparkSession | None = None,
    options: Mapping[str, object] | None = None,
    drain: bool = False,
    create: bool = False,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    replay: bool = False,
    discard: bool = False,
    savepoint: str | None = None,
    on_progress: Callable[[MicroBatch], None] | None = None,
    on_phase: Callable[[str], None] | None = None,
    start: bool = True,
) -> Application:
    """Start an application, or go on with one, and return its handle.

    Parameters
    ----------
    program
        A file with a PQL program or a plan as JSON, or a plan.
    home
        Folder of the log and of applications; `$BRAID_HOME`, or `braid-home` in the working directory.
    spark
        An existing session, as in a notebook; otherwise Spark is started, and stopped in the end.
    options
        Options that override those of the program.
    drain
        Whether to work off everything available, close all windows and end.
    create
        Whether input categories that are not there are made, empty, and waited for; it is an error otherwise.
    master, settings
        For a new Spark application: where it runs, and further settings.
    replay
        Whether an update of the application may have the verdict *replayed*; it is refused otherwise.
    discard
        Whether such an update may decide rows in flight before their time, if it has to.
    savepoint
        What to begin from: see `restore`. None begins with the oldest rows, or goes on.
    on_progress
        Called with the metrics of every micro-batch.
    on_phase
        Called with what a start, which takes seconds, is about to do.
    start
        Whether it is started; else only its handle is made, whose `start` can be interrupted by its `stop`.
    """
    from braid.spark.app import Application
    from braid.spark.updating import Consent

    plan = program if isinstance(program, Plan) else load_plan(program)
    if savepoint is not None:
        restore(savepoint, plan, home, discard=discard)
    application = Application(
        plan,
        Home.at(home),
        spark=spark,
        options=options,
        drain=drain,
        create=create,
        master=master,
        settings=settings,
        consent=Consent(replay=replay, discard=discard),
        on_progress=on_progress,
        on_phase=on_phase,
    )
    return application.start() if start else application


def open_spark(
    home: HomeLike,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    *,
    log: Path,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> SharedSpark:
    """Start a Spark whose session several applications of a home can be given.

    What it says goes to `log`; `on_phase` is called with what it waits for.
    """
    from braid.spark.shared import SharedSpark

    return SharedSpark.open(Home.at(home), master, settings or {}, log=log, on_phase=on_phase)


def update_of(
    plan: Plan, home: HomeLike = None, options: Mapping[str, object] | None = None
) -> Update | None:
    """What it means to go on as another program; None if the application has not run yet."""
    from braid.spark.updating import Update

    found = Home.at(home).application(plan.application)
    if not found.plan_file.exists():
        return None
    settings = parse_options({**dict(plan.options), **(options or {})})
    return Update.of(found, ran_plan(found), plan.with_options(settings))


def versions(application: str, home: HomeLike = None) -> list[Version]:
    """The programs that an application has run and that are kept, oldest first."""
    running_plan(application, home)
    return kept_versions(Home.existing(home).application(application))


def version_plan(application: str, number: int | None = None, home: HomeLike = None) -> Plan:
    """The plan of a version; by default of the one before the last, to go back to it."""
    known = {version.number: version for version in versions(application, home)}
    if number is None:
        number = max(known, default=1) - 1
    if number not in known:
        raise RunError(
            f"application {application!r} has no version {number}",
            hint=f"versions that are kept: {', '.join(map(str, known)) or 'none'}",
        )
    return loads(json.dumps(known[number].plan))


def running_overrides(application: str, home: HomeLike = None) -> dict[str, str]:
    """The options that were set when an application was last started, whatever its program says."""
    return overrides(Home.existing(home).application(application))


def status(home: HomeLike = None) -> list[Status]:
    """What the applications of a home are doing, or did last, with their last metrics."""
    found = [read_status(application) for application in Home.existing(home).applications()]
    return [status for status in found if status is not None]


def application_status(application: str, home: HomeLike = None) -> Status:
    """What an application of a home is doing, or did last."""
    found = Home.existing(home)
    status = read_status(found.application(application))
    if status is None:
        names = ", ".join(one.name for one in found.applications() if one.status_file.exists()) or "none"
        raise RunError(
            f"there is no application {application!r}",
            where=str(found.root),
            hint=f"applications that have run here: {names}",
        )
    return status


def stop(application: str, home: HomeLike = None) -> None:
    """Have an application end after its micro-batches, whichever process runs it, and wait until it has.

    The next start goes on from there.
    """
    application_status(application, home)
    found = Home.existing(home).application(application)
    if not found.is_running():
        raise RunError(f"application {application!r} is not running", where=str(found.root))
    before = Lease.read(found.lease_file)
    ask(found, Request(id=uuid.uuid4().hex), found.stop_file, found.stopping_file, Answer)
    while found.is_running() and Lease.read(found.lease_file) == before:
        time.sleep(_POLL_SECONDS)


def rescale(
    application: str,
    home: HomeLike = None,
    *,
    shards: int | None = None,
    partitions: int | None = None,
) -> dict[str, float]:
    """Give the stateful stages of a running application other shards and state partitions.

    Returns how many seconds it took until each stage that has changed had done a micro-batch with its new
    shards. Rows in flight stay.

    Parameters
    ----------
    application, home
        The application, which some process runs, and its home.
    shards
        Into how many ranges of hashes the work is split; by default what its options say.
    partitions
        How many of Spark's tasks work on them side by side; by default one per executor.
    """
    for name, number in (("shards", shards), ("partitions", partitions)):
        if number is not None and not 1 <= number <= MAX_SHARDS:
            raise ConfigError(f"{name} is {number}", hint=f"choose between 1 and {MAX_SHARDS}")
    running_plan(application, home)
    found = Home.existing(home).application(application)
    request = Rescale(id=uuid.uuid4().hex, shards=shards, partitions=partitions)
    answer = ask(found, request, found.rescale_file, found.rescaled_file, Rescaled)
    if answer is None:
        raise RunError(
            f"application {application!r} is not running",
            where=str(found.root),
            hint="start it with `--set shards=N`, and it goes on with so many",
        )
    return answer.seconds


def release(application: str, home: HomeLike = None) -> list[str]:
    """Let go of all categories and tables that an application owns; what they were, in words.

    Others may write them then. The application takes what nobody else has claimed when it starts again.
    """
    return release_owned(Home.at(home), application)
