"""Sees to it that what should run runs: starts drivers, stops them, and starts again those that have died.

What is there is found, not believed: drivers outlive the service, and say in files of the home who they are.
So a service that begins finds those of the one before, and leaves them alone.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from braid.client.models import Desired
from braid.core.errors import BraidError
from braid.core.logging import Log
from braid.home.service import Domain, Driver, DriverHome, Job, ServiceHome
from braid.service.backends.base import Backend
from braid.service.decide.backoff import LIMITS, Limits, Run, is_crash_loop, next_start, recent_failures
from braid.service.decide.supervise import Seen, Step, Wanted, What, decide
from braid.service.landing import resources_of
from braid.service.loops.base import Loop
from braid.service.records import happened
from braid.service.registry.database import Database
from braid.service.registry.tables import Application, Start, Version

TURN_SECONDS = 0.5
_KEPT_RUNS = 50


@dataclass(frozen=True)
class Actual:
    """What there is of an application.

    Parameters
    ----------
    job, driver
        What its driver was to run, and what it has said; None if it is not the driver of this job.
    """

    job: Job | None
    driver: Driver | None

    @classmethod
    def of(cls, folder: DriverHome) -> Actual:
        """What the files of a driver say."""
        job, driver = Job.read(folder.job_file), Driver.read(folder.driver_file)
        fits = job is not None and driver is not None and driver.job == job.id
        return cls(job, driver if fits else None)


class Supervise(Loop):
    """The loop.

    Parameters
    ----------
    database, home, backend
        The registry, the service's folder, and where drivers run.
    log
        Of the service.
    master
        Where Spark runs, for drivers.
    clock, limits
        In seconds since the epoch; and time limits.
    """

    name = "supervise"

    def __init__(
        self,
        database: Database,
        home: ServiceHome,
        backend: Backend,
        log: Log,
        *,
        master: str | None = None,
        clock: Callable[[], float] = time.time,
        limits: Limits = LIMITS,
    ) -> None:
        super().__init__(log, TURN_SECONDS)
        self._database = database
        self._home = home
        self._backend = backend
        self._master = master
        self._clock = clock
        self._limits = limits
        self._stopping_since: dict[str, float] = {}
        """Jobs whose drivers were told to stop, and when."""

    def turn(self) -> None:
        """Make one step for each application; what is wrong with one of them holds up no other."""
        with self._database.reading() as session:
            names = list(session.scalars(select(Application.name).order_by(Application.name)))
        troubles: list[BraidError | OSError] = []
        pools: set[str] = set()
        for name in names:
            try:
                job = self._step(name)
            except (BraidError, OSError) as error:
                troubles.append(error)
            else:
                if job is not None and job.resources.pool is not None:
                    pools.add(job.resources.pool)
        if troubles:
            # Which pools are needed is not known now.
            raise troubles[0]
        self._backend.keep_pools(pools)

    def _step(self, name: str) -> Job | None:
        """Make one step for an application; the job that is not over then."""
        actual = Actual.of(self._home.driver(name))
        alive = actual.driver is not None and self._backend.is_alive(actual.driver)
        now = self._clock()
        with self._database.transaction() as session:
            application = session.get(Application, name, with_for_update=True)
            if application is None:
                return None
            start = None if actual.job is None else session.get(Start, actual.job.id)
            wanted = Wanted(
                application.version if application.desired == Desired.RUNNING else None, application.restart
            )
            runs = self._runs(session, application)
            seen = Seen(
                job=actual.job,
                restart=-1 if start is None else start.restart,
                driver=actual.driver,
                alive=alive,
                stopping=None if actual.job is None else self._stopping_since.get(actual.job.id),
            )
            is_open = start is not None and start.ended is None
            step = decide(wanted, seen, is_open, runs, now, _jitter(name, len(runs)), self._limits)
            if step.what is What.CLOSE and start is not None:
                self._close(session, start, actual.driver, step, now)
            elif step.what is What.START:
                job = self._note_start(session, application, now)
        # What the registry says is committed before a process is touched: a service that dies in between
        # leaves a start that nobody has answered, and that counts as one that has failed.
        if step.what is What.START:
            self._backend.start(name, job)
            return job
        if actual.driver is not None and actual.job is not None:
            if step.what is What.STOP:
                self._stopping_since[actual.job.id] = now
                self._backend.stop(name, actual.job, actual.driver)
            elif step.what is What.KILL:
                self._log.warning("killing a driver", application=name, why=step.why)
                self._backend.kill(name, actual.job, actual.driver)
            elif step.what is What.CLOSE:
                self._backend.clear(name, actual.job, actual.driver)
        return actual.job if is_open and step.what is not What.CLOSE else None

    def _runs(self, session: Session, application: Application) -> list[Run]:
        """Ended runs of the version that should run, since somebody last asked for a start."""
        query = (
            select(Start)
            .where(
                Start.application == application.name,
                Start.version == application.version,
                Start.restart == application.restart,
                Start.ended.is_not(None),
            )
            .order_by(Start.at.desc())
            .limit(_KEPT_RUNS)
        )
        return [run_of(start) for start in reversed(session.scalars(query).all())]

    def _note_start(self, session: Session, application: Application, now: float) -> Job:
        """Write down that a driver is to be started, and what it is to run."""
        version = session.get(Version, (application.name, application.version))
        assert version is not None
        job = Job(
            id=uuid.uuid4().hex,
            version=version.number,
            plan=version.plan,
            options=version.options,
            resources=resources_of(version),
            replay=version.replay,
            discard=version.discard,
            create=version.create,
            master=self._master,
            asked=now,
        )
        session.add(
            Start(
                job=job.id,
                application=application.name,
                version=version.number,
                restart=application.restart,
                at=now,
                ended=None,
                failed=False,
                domain=None,
                error=None,
            )
        )
        session.flush()
        job.write(self._home.driver(application.name).job_file)
        return job

    def _close(self, session: Session, start: Start, driver: Driver | None, step: Step, now: float) -> None:
        start.ended = now
        start.failed = step.failed
        start.error = (
            driver.error if driver is not None and driver.error else (step.why if step.failed else None)
        )
        start.domain = None if driver is None else driver.domain
        self._stopping_since.pop(start.job, None)
        if not step.failed:
            happened(
                session,
                now,
                start.application,
                "ended",
                f"version {start.version} has ended",
                version=start.version,
            )
            return
        session.flush()
        application = session.get(Application, start.application)
        assert application is not None
        runs = self._runs(session, application)
        at = next_start(runs, _jitter(start.application, len(runs)), self._limits)
        again = (
            "it is not started again" if at is None else f"it is started again in {max(0.0, at - now):.0f} s"
        )
        happened(
            session,
            now,
            start.application,
            "failed",
            f"version {start.version} has failed: {start.error}; {again}",
            version=start.version,
            domain=start.domain,
        )
        if is_crash_loop(runs, now, self._limits):
            happened(
                session,
                now,
                start.application,
                "crash loop",
                f"{recent_failures(runs, now, self._limits)} failures of late",
                version=start.version,
            )


def run_of(start: Start) -> Run:
    """A start, as decisions see it."""
    domain = None if start.domain is None else Domain(start.domain)
    return Run(at=start.at, ended=start.ended, failed=start.failed, domain=domain)


def _jitter(name: str, failures: int) -> float:
    """The same as long as nothing has happened."""
    return random.Random(f"{name} {failures}").random()
