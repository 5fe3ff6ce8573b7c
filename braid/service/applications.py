"""What there is to say of applications: what they should be doing, and what they are doing."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from braid.client.models import ApplicationInfo, Desired, VersionState
from braid.home.service import Driver, DriverState
from braid.home.status import read_status
from braid.service.decide.backoff import Run, next_start, recent_failures
from braid.service.loops.supervise import Actual, run_of
from braid.service.registry.tables import Application, Start, Version
from braid.service.state import ServiceState

RECENT_STARTS = 20


def application_info(
    session: Session, state: ServiceState, application: Application, now: float, *, whole: bool = False
) -> ApplicationInfo:
    """An application; with `whole`, its metrics, too."""
    actual = Actual.of(state.folder.driver(application.name))
    starts = session.scalars(
        select(Start)
        .where(Start.application == application.name)
        .order_by(Start.at.desc())
        .limit(RECENT_STARTS)
    ).all()
    last = starts[0] if starts else None
    open_ = last is not None and last.ended is None
    driver = actual.driver if open_ else None
    fits = last is not None and (application.desired, application.version, application.restart) == (
        Desired.RUNNING,
        last.version,
        last.restart,
    )
    runs = [
        run_of(start)
        for start in reversed(starts)
        if start.restart == application.restart and start.ended is not None
    ]
    at = next_start(runs, 0.5) if runs and not open_ and application.desired == Desired.RUNNING else None
    status = read_status(state.home.application(application.name)) if whole else None
    waiting = session.scalar(
        select(Version.number).where(
            Version.application == application.name, Version.state == VersionState.WAITING
        )
    )
    return ApplicationInfo(
        name=application.name,
        desired=Desired(application.desired),
        version=application.version,
        state=_running(driver, fits) if open_ else _not_running(application, runs),
        running_version=None if driver is None else driver.version,
        waiting=waiting,
        pid=None if driver is None else driver.pid,
        started=None if driver is None else driver.started,
        restarts=recent_failures(runs, now),
        next_start=at or None,
        error=None if open_ or last is None else last.error,
        status=None if status is None else status.model_dump(mode="json"),
    )


def _running(driver: Driver | None, fits: bool) -> str:
    """What an application is doing that was started, and has not ended; `fits` if that is what should run."""
    if not fits or (driver is not None and not driver.state.active):
        return "stopping"
    return "running" if driver is not None and driver.state is DriverState.RUNNING else "starting"


def _not_running(application: Application, runs: list[Run]) -> str:
    """What an application is doing that nobody runs."""
    if application.version is None:
        return "waiting"
    if application.desired != Desired.RUNNING:
        return application.desired
    return "failed" if runs and runs[-1].failed else "starting"
