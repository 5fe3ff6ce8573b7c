"""A driver: the process that runs an application for the service, and outlives it.

`python -m braid.service.driver HOME APPLICATION` runs the job that the service has written down for the
application. It says first of all that it is there, then, again and again, that it is alive, and in the end
how it went. It ends by itself when it has been replaced by another driver.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from braid.core.errors import BraidError, RunError
from braid.core.threads import spawn
from braid.home.paths import Home
from braid.home.service import DriverHome, DriverState, Job, JobPlan, ServiceHome
from braid.service.decide.failures import domain_of
from braid.service.telling import BEAT_SECONDS, LOOK_SECONDS, Teller

if TYPE_CHECKING:
    from braid.api import Plan


class Running:
    """The driver of one job.

    Parameters
    ----------
    home
        The home.
    application
        Whose job it is.
    """

    def __init__(self, home: Home, application: str) -> None:
        self._home = home
        self._folder = folder = ServiceHome(home).driver(application)
        job = Job.read(folder.job_file)
        if job is None:
            raise RunError(f"there is nothing to run for {application!r}", where=str(folder.job_file))
        self._job = job
        self._teller = Teller(folder, job)
        self._asked = threading.Event()
        self._over = threading.Event()

    def run(self) -> int:
        """Run the job until it ends; returns the exit code."""
        self._teller.say()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        beat = threading.Thread(target=self._beat, name="beat", daemon=True)
        beat.start()
        with ended_well(self._teller):
            self._run()
        self._over.set()
        return 0 if self._teller.said.error is None else 1

    def _run(self) -> None:
        from braid import api

        if self._asked.is_set():
            return
        job = self._job
        master, settings = spark_for(job)
        handle = api.run(
            plan_of(self._folder, job),
            self._home,
            options=job.options,
            create=job.create,
            master=master,
            settings=settings,
            replay=job.replay,
            discard=job.discard,
            on_phase=lambda phase: self._teller.say(phase=phase),
        )
        self._teller.say(state=DriverState.RUNNING, started=time.time(), phase=None)

        def stop() -> None:
            self._asked.wait()
            handle.stop()

        # At once: what fails after that, as when a whole machine is shut down, is not a failure.
        spawn("stop", stop)
        handle.wait()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Ask it to end; a start is interrupted, which loses nothing."""
        self._asked.set()
        self._teller.told()
        if self._teller.said.state is DriverState.STARTING:
            self._teller.end()
            os._exit(0)

    def _beat(self) -> None:
        """Say every now and then that it is alive, and end at once if it has been replaced."""
        last = time.monotonic()
        while not self._over.wait(LOOK_SECONDS):
            if self._teller.is_replaced():
                os._exit(1)
            if time.monotonic() - last >= BEAT_SECONDS:
                last = time.monotonic()
                self._teller.say()


@contextmanager
def ended_well(teller: Teller) -> Iterator[None]:
    """Say at the end of the block how a job has ended; only a bug of ours is raised on."""
    try:
        yield
    except (BraidError, OSError) as error:
        teller.end(str(error), domain_of(error))
    except Exception as error:
        teller.end(f"{type(error).__name__}: {error}", domain_of(error))
        raise
    else:
        teller.end()


def plan_of(folder: DriverHome, job: Job) -> Plan:
    """The plan of a job."""
    from braid.plan.serialise import plan_from_json

    found = JobPlan.read(folder.plan_file)
    if found is None or found.job != job.id:
        raise RunError("there is no plan for this job: it has been replaced", where=str(folder.plan_file))
    return plan_from_json(found.plan)


_SHARE = 2
"""Cores of a cluster for an application that asks for none: Spark would take all that there are."""


def spark_for(job: Job) -> tuple[str | None, dict[str, str]]:
    """Where Spark is to run for a job, and with which settings."""
    asked, settings = job.resources, {}
    if asked.memory is not None:
        settings["spark.driver.memory"] = asked.memory
    if job.master is None or job.master.startswith("local"):
        # As many tasks as cores; a task may fail three times, as on a cluster, before its query does.
        return job.master if asked.cores is None else f"local[{asked.cores},4]", settings
    if asked.memory is not None:
        settings["spark.executor.memory"] = asked.memory
    if asked.cores is None and asked.executors is None:
        settings["spark.cores.max"] = str(_SHARE)
    else:
        cores = asked.cores or 1
        settings["spark.executor.cores"] = str(cores)
        settings["spark.cores.max"] = str(cores * (asked.executors or 1))
    return job.master, settings


def main(arguments: list[str] | None = None) -> int:
    """Run as a script."""
    home, application = arguments or sys.argv[1:]
    return Running(Home.at(Path(home)), application).run()


if __name__ == "__main__":
    sys.exit(main())
