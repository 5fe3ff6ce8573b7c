"""What there is to say of applications: what they should be doing, and what they are doing."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from braid.client.models import ApplicationInfo, Desired, VersionState
from braid.home.service import DriverState
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
        state=_state(application, driver.state if driver is not None else None, open_, runs),
        running_version=None if driver is None else driver.version,
        waiting=waiting,
        pid=None if driver is None else driver.pid,
        started=None if driver is None else driver.started,
        restarts=recent_failures(runs, now),
        next_start=at or None,
        error=None if open_ or last is None else last.error,
        status=None if status is None else status.model_dump(mode="json"),
    )


def _state(application: Application, driver: DriverState | None, is_open: bool, runs: list[Run]) -> str:
    """What it is doing, in a word."""
    if is_open:
        if driver is DriverState.RUNNING:
            fits = application.desired == Desired.RUNNING
            return "running" if fits else "stopping"
        return "starting" if driver is None or driver.active else "stopping"
    if application.version is None:
        return "waiting"
    if application.desired != Desired.RUNNING:
        return application.desired
    return "failed" if runs and runs[-1].failed else "starting"
