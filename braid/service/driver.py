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
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from braid.core.errors import BraidError, ConfigError, RunError, SchemaError
from braid.core.processes import began
from braid.home.paths import Home
from braid.home.service import Domain, Driver, DriverHome, DriverState, Job, ServiceHome

if TYPE_CHECKING:
    from braid import api

BEAT_SECONDS = 5.0
"""How often a driver says that it is alive."""
_LOOK_SECONDS = 0.5
"""How often it looks whether it has been replaced."""


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
        self._folder: DriverHome = ServiceHome(home).driver(application)
        job = Job.read(self._folder.job_file)
        if job is None:
            raise RunError(f"there is nothing to run for {application!r}", where=str(self._folder.job_file))
        self._job = job
        self._telling = threading.RLock()  # a signal may come while the main thread has it
        self._said = Driver(
            job=job.id, version=job.version, pid=os.getpid(), began=began(os.getpid()) or "", beat=time.time()
        )
        self._asked = threading.Event()
        self._over = threading.Event()
        self._handle: api.Application | None = None

    def run(self) -> int:
        """Run the job until it ends; returns the exit code."""
        self.say()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        beat = threading.Thread(target=self._beat, name="beat", daemon=True)
        beat.start()
        try:
            self._run()
        except BraidError as error:
            return self._failed(str(error), domain_of(error, started=self._said.started is not None))
        except OSError as error:
            return self._failed(str(error), Domain.OUTSIDE)
        except Exception as error:
            self._failed(f"{type(error).__name__}: {error}", Domain.OURS)
            raise
        self._end(state=DriverState.ENDED, phase=None)
        return 0

    def _run(self) -> None:
        from braid import api
        from braid.plan.serialise import plan_from_json

        if self._asked.is_set():
            return
        job = self._job
        master, settings = spark_for(job)
        handle = self._handle = api.run(
            plan_from_json(job.plan),
            self._home,
            options=job.options,
            create=job.create,
            master=master,
            settings=settings,
            replay=job.replay,
            discard=job.discard,
            on_phase=lambda phase: self.say(phase=phase),
        )
        self.say(state=DriverState.RUNNING, started=time.time(), phase=None)
        while not handle.wait(_LOOK_SECONDS):
            if self._asked.is_set():
                handle.stop()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Ask it to end; a start is interrupted, which loses nothing."""
        self._asked.set()
        if self._said.state is DriverState.STARTING:
            self._end(state=DriverState.ENDED, phase=None)
            os._exit(0)

    def _beat(self) -> None:
        """Say every now and then that it is alive, and end at once if it has been replaced."""
        last = time.monotonic()
        while not self._over.wait(_LOOK_SECONDS):
            if self._replaced():
                os._exit(1)
            if time.monotonic() - last >= BEAT_SECONDS:
                last = time.monotonic()
                self.say()

    def _replaced(self) -> bool:
        try:
            job = Job.read(self._folder.job_file)
        except (OSError, BraidError):
            return False  # whoever replaces it kills it, too
        return job is None or job.id != self._job.id

    def _failed(self, error: str, domain: Domain) -> int:
        self._end(state=DriverState.FAILED, phase=None, error=error, domain=domain)
        print(error, file=sys.stderr, flush=True)  # noqa: T201  its output is a file
        return 1

    def _end(self, **changes: object) -> None:
        self._over.set()
        self.say(**changes)

    def say(self, **changes: object) -> None:
        """Write down what has changed, and that it is alive."""
        with self._telling:
            if self._replaced():
                return
            self._said = self._said.model_copy(update={**changes, "beat": time.time()})
            try:
                self._said.write(self._folder.driver_file, durable=False)
            except OSError as error:
                print(f"cannot say how it goes: {error}", file=sys.stderr, flush=True)  # noqa: T201


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
    if asked.cores is not None:
        settings["spark.executor.cores"] = str(asked.cores)
    if asked.executors is not None:
        settings["spark.cores.max"] = str(asked.executors * (asked.cores or 1))
        settings["spark.executor.cores"] = str(asked.cores or 1)
    return job.master, settings


def domain_of(error: BraidError, started: bool) -> Domain:
    """Whose fault it is: what is wrong with a program is so at its start, and stays so."""
    if isinstance(error, ConfigError | SchemaError):
        return Domain.USER
    return Domain.OUTSIDE if started or isinstance(error, RunError) else Domain.USER


def main(arguments: list[str] | None = None) -> int:
    """Run as a script."""
    home, application = arguments or sys.argv[1:]
    return Running(Home.at(Path(home)), application).run()


if __name__ == "__main__":
    sys.exit(main())
