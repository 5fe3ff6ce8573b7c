"""What there is to say of applications: what they should be doing, and what they are doing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, case, func, select, true
from sqlalchemy.orm import Session

from braid.client.models import ApplicationInfo, Desired, VersionState
from braid.home.service import Driver, DriverState
from braid.home.status import read_status
from braid.service.decide.backoff import Run, next_start, recent_failures
from braid.service.registry.tables import Application, Start, Version
from braid.service.runs import run_of
from braid.service.state import ServiceState

RECENT_STARTS = 20


@dataclass(frozen=True)
class _Started:
    """A start of an application; of its errors only the last one is of interest."""

    version: int
    restart: int
    run: Run
    error: str | None


def application_infos(
    session: Session, state: ServiceState, now: float, names: Collection[str] | None = None
) -> list[ApplicationInfo]:
    """All applications, or some of them, by name: with as many queries as for one."""
    mine = true() if names is None else Application.name.in_(names)
    waiting = (Version.application == Application.name) & (Version.state == VersionState.WAITING)
    query = select(Application, func.max(Version.number)).outerjoin(Version, waiting).where(mine)
    rows = session.execute(query.group_by(Application.name).order_by(Application.name)).all()
    starts = _starts(session, true() if names is None else Start.application.in_(names))
    return [_info(state, one, starts[one.name], number, now) for one, number in rows]


def application_info(
    session: Session, state: ServiceState, application: Application, now: float, *, whole: bool = False
) -> ApplicationInfo:
    """An application; with `whole`, its metrics, too."""
    info = application_infos(session, state, now, [application.name])[0]
    status = read_status(state.home.application(application.name)) if whole else None
    return info if status is None else info.model_copy(update={"status": status.model_dump(mode="json")})


def _starts(session: Session, mine: ColumnElement[bool]) -> dict[str, list[_Started]]:
    """The last starts of applications, newest first."""
    newest = func.row_number().over(partition_by=Start.application, order_by=Start.at.desc()).label("newest")
    columns = (Start.application, Start.version, Start.restart, Start.at, Start.ended, Start.failed)
    numbered = select(*columns, Start.domain, Start.error, newest).where(mine).subquery()
    found = numbered.c
    query = (
        select(
            found.application,
            found.version,
            found.restart,
            found.at,
            found.ended,
            found.failed,
            found.domain,
            case((found.newest == 1, found.error), else_=None),
        )
        .where(found.newest <= RECENT_STARTS)
        .order_by(found.newest)
    )
    starts: dict[str, list[_Started]] = defaultdict(list)
    for name, version, restart, at, ended, failed, domain, error in session.execute(query):
        starts[name].append(_Started(version, restart, run_of(at, ended, failed, domain), error))
    return starts


def _info(
    state: ServiceState, application: Application, starts: Sequence[_Started], waiting: int | None, now: float
) -> ApplicationInfo:
    last = starts[0] if starts else None
    open_ = last is not None and last.run.ended is None
    actual = state.supervise.actuals.of(application.name) if open_ else None
    driver = None if actual is None else actual.driver
    fits = last is not None and (application.desired, application.version, application.restart) == (
        Desired.RUNNING,
        last.version,
        last.restart,
    )
    runs = [
        start.run
        for start in reversed(starts)
        if start.restart == application.restart and start.run.ended is not None
    ]
    at = next_start(runs, 0.5) if runs and not open_ and application.desired == Desired.RUNNING else None
    return ApplicationInfo(
        name=application.name,
        desired=Desired(application.desired),
        version=application.version,
        state=_running(driver, fits) if open_ else _not_running(application, runs),
        running_version=None if driver is None else driver.version,
        phase=_phase(state, application.name, driver) if open_ else None,
        waiting=waiting,
        pool=None if actual is None or actual.job is None else actual.job.resources.pool,
        # That of another machine would say nothing here, or something wrong.
        pid=None if driver is None or driver.place is not None else driver.pid,
        started=None if driver is None else driver.started,
        restarts=recent_failures(runs, now),
        next_start=at or None,
        error=None if open_ or last is None else last.error,
    )


def _phase(state: ServiceState, name: str, driver: Driver | None) -> str | None:
    """What an application that was started is doing until it runs."""
    return state.supervise.waits.get(name) if driver is None else driver.phase


def _running(driver: Driver | None, fits: bool) -> str:
    """What an application is doing that was started, and has not ended; `fits` if that is what should run."""
    if not fits or (driver is not None and not driver.state.active):
        return "stopping"
    return "running" if driver is not None and driver.state is DriverState.RUNNING else "starting"


def _not_running(application: Application, runs: Sequence[Run]) -> str:
    """What an application is doing that nobody runs."""
    if application.version is None:
        return "waiting"
    if application.desired != Desired.RUNNING:
        return application.desired
    return "failed" if runs and runs[-1].failed else "starting"
