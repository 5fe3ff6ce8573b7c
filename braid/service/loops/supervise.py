"""Sees to it that what should run runs: starts drivers, stops them, and starts again those that have died.

What is there is found, not believed: drivers outlive the service, and say in files of the home who they are.
So a service that begins finds those of the one before, and leaves them alone.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from braid.client.models import Desired
from braid.core.errors import BraidError
from braid.core.logging import Log
from braid.home.service import Driver, Job, JobPlan, ServiceHome
from braid.service.actual import Actual, Actuals
from braid.service.backends.base import Backend
from braid.service.decide.backoff import LIMITS, Limits, Run, is_crash_loop, next_start, recent_failures
from braid.service.decide.supervise import Seen, Step, Wanted, What, decide
from braid.service.landing import resources_of
from braid.service.loops.base import Loop
from braid.service.records import happened
from braid.service.registry.database import Database
from braid.service.registry.tables import Application, Start, Version
from braid.service.runs import ended_runs, open_starts

TURN_SECONDS = 0.5
_AGAIN_SECONDS = 10.0
"""After which a driver is killed once more that is still there: another machine may not have heard of it."""


@dataclass(frozen=True)
class Found:
    """An application, as the registry and its files have it.

    Parameters
    ----------
    name, wanted
        The application, and what of it should run.
    actual
        What there is.
    restart
        What the run is for that the registry does not know the end of; None if there is none.
    runs
        Ended runs of what should run, oldest first; they are needed where there is none that has not ended.
    """

    name: str
    wanted: Wanted
    actual: Actual
    restart: int | None
    runs: Sequence[Run] = ()

    @property
    def open_job(self) -> Job | None:
        """The job of the run that has not ended."""
        return None if self.restart is None else self.actual.job


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
        self.actuals = Actuals(home)
        self._stopping_since: dict[str, float] = {}
        """Jobs whose drivers were told to stop, and when."""
        self._killed: dict[str, float] = {}
        """Jobs whose drivers were killed, and when."""
        self.waits: dict[str, str] = {}
        """Applications whose drivers are yet to come, and what these wait for."""

    def turn(self) -> None:
        """Make one step for each application; what is wrong with one of them holds up no other."""
        troubles: list[BraidError | OSError] = []
        pools: set[str] = set()
        for found in self._look(troubles):
            try:
                # To look costs little, and holds up nobody. Only if there is something to do, it is decided
                # again, in a transaction that writes.
                idle = self._decide(found, self._clock()).what is What.NOTHING
                job = found.open_job if idle else self._step(found.name)
            except (BraidError, OSError) as error:
                troubles.append(error)
            else:
                if job is not None and job.resources.pool is not None:
                    pools.add(job.resources.pool)
        if troubles:
            # Which pools are needed is not known now.
            raise troubles[0]
        self._backend.keep_pools(pools)

    def _look(self, troubles: list[BraidError | OSError]) -> list[Found]:
        """All applications of which the files can be read."""
        actuals = {}
        with self._database.reading() as session:
            query = select(Application.name, Application.desired, Application.version, Application.restart)
            rows = session.execute(query.order_by(Application.name)).all()
            for name, *_ in rows:
                try:
                    actuals[name] = self.actuals.of(name)
                except (BraidError, OSError) as error:
                    troubles.append(error)
            self.actuals.keep({name for name, *_ in rows})
            open_ = open_starts(session, [one.job.id for one in actuals.values() if one.job is not None])
            found = [
                Found(
                    name=name,
                    wanted=_wanted(desired, version, restart),
                    actual=actual,
                    restart=None if actual.job is None else open_.get(actual.job.id),
                )
                for name, desired, version, restart in rows
                if (actual := actuals.get(name)) is not None
            ]
            waiting = [one.name for one in found if one.restart is None and one.wanted.version is not None]
            runs = ended_runs(session, waiting)
        return [replace(one, runs=runs[one.name]) if one.name in runs else one for one in found]

    def _decide(self, found: Found, now: float) -> Step:
        """What to do with an application."""
        job, driver = found.actual.job, found.actual.driver
        is_open = found.restart is not None
        seen = Seen(
            job=job,
            restart=-1 if found.restart is None else found.restart,
            driver=driver,
            alive=is_open and driver is not None and self._backend.is_alive(driver),
            stopping=None if job is None else self._stopping_since.get(job.id),
            waits=self._waits_for(found.name, job) if is_open and driver is None else None,
        )
        jitter = 0.5 if is_open else _jitter(found.name, len(found.runs))
        return decide(found.wanted, seen, is_open, found.runs, now, jitter, self._limits)

    def _waits_for(self, name: str, job: Job | None) -> str | None:
        """What keeps a driver from being there that has said nothing yet."""
        found = None if job is None else self._backend.waits_for(name, job)
        if found is None:
            self.waits.pop(name, None)
        else:
            self.waits[name] = found
        return found

    def _step(self, name: str) -> Job | None:
        """Make one step for an application; the job that is not over then."""
        actual = Actual.of(self._home.driver(name))
        now = self._clock()
        with self._database.transaction() as session:
            application = session.get(Application, name, with_for_update=True)
            if application is None:
                return None
            start = None if actual.job is None else session.get(Start, actual.job.id)
            found = Found(
                name=name,
                wanted=_wanted(application.desired, application.version, application.restart),
                actual=actual,
                restart=None if start is None or start.ended is not None else start.restart,
                runs=ended_runs(session, [name])[name],
            )
            step = self._decide(found, now)
            if step.what is What.CLOSE and start is not None:
                self._close(session, start, actual.driver, step, now)
            elif step.what is What.START:
                job = self._note_start(session, application, now)
        # What the registry says is committed before a process is touched: a service that dies in between
        # leaves a start that nobody has answered, and that counts as one that has failed.
        if step.what is What.START:
            self._backend.start(name, job)
            return job
        last = actual.job
        if last is not None and step.what is What.CLOSE:
            self._backend.clear(name, last, actual.driver)
        elif last is not None and actual.driver is not None:
            if step.what is What.STOP:
                self._stopping_since[last.id] = now
                self._backend.stop(name, last, actual.driver)
            elif step.what is What.KILL and now - self._killed.get(last.id, 0.0) >= _AGAIN_SECONDS:
                self._killed[last.id] = now
                self._log.warning("killing a driver", application=name, why=step.why)
                self._backend.kill(name, last, actual.driver)
        return None if step.what is What.CLOSE else found.open_job

    def _note_start(self, session: Session, application: Application, now: float) -> Job:
        """Write down that a driver is to be started, and what it is to run."""
        version = session.get(Version, (application.name, application.version))
        assert version is not None
        job = Job(
            id=uuid.uuid4().hex,
            version=version.number,
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
        folder = self._home.driver(application.name)
        # Whoever finds the job finds its plan.
        JobPlan(job=job.id, plan=version.plan).write(folder.plan_file)
        job.write(folder.job_file)
        return job

    def _close(self, session: Session, start: Start, driver: Driver | None, step: Step, now: float) -> None:
        start.ended = now
        start.failed = step.failed
        start.error = (
            driver.error if driver is not None and driver.error else (step.why if step.failed else None)
        )
        start.domain = None if driver is None else driver.domain
        self._stopping_since.pop(start.job, None)
        self._killed.pop(start.job, None)
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
        runs = ended_runs(session, [start.application])[start.application]
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


def _wanted(desired: str, version: int | None, restart: int) -> Wanted:
    return Wanted(version if desired == Desired.RUNNING else None, restart)


def _jitter(name: str, failures: int) -> float:
    """The same as long as nothing has happened."""
    return random.Random(f"{name} {failures}").random()
