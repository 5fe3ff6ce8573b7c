"""A pool: a process that runs small applications which share one Spark, and outlives the service.

`python -m braid.service.pool HOME POOL` takes every job of the pool that the service writes down, says of
each what a driver of its own would say, and ends it when it is told to, while the others go on.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from braid.core.errors import BraidError
from braid.core.processes import began
from braid.core.threads import spawn
from braid.home.locks import exclusive
from braid.home.paths import Home
from braid.home.service import Driver, DriverHome, DriverState, Job, PoolProcess, ServiceHome
from braid.service.driver import ended_well, plan_of, spark_for
from braid.service.resources import most
from braid.service.telling import BEAT_SECONDS, LOOK_SECONDS, PLACE, Teller

if TYPE_CHECKING:
    from braid import api

_SIDE_BY_SIDE = 2
"""Applications that start at the same time: each takes all cores for a while."""
_END_SECONDS = 50.0
"""How long applications may take to end until the process does; less than the service waits."""


class Member:
    """An application of a pool.

    Parameters
    ----------
    home, folder, job
        What it runs.
    spark
        Gives the Spark that all members share, when it has started.
    turn
        Held by members that start.
    """

    def __init__(
        self,
        home: Home,
        folder: DriverHome,
        job: Job,
        spark: Callable[[], api.SharedSpark],
        turn: threading.Semaphore,
    ) -> None:
        self._home = home
        self._folder = folder
        self._job = job
        self._spark = spark
        self._turn = turn
        self._teller = Teller(folder, job)
        self._stopping = threading.Event()
        self._handle: api.Application | None = None
        self._thread = threading.Thread(target=self._run, name=f"member {folder.root.name}", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._teller.say(phase="starting Spark")
        self._thread.start()

    def stop(self) -> None:
        """End after the micro-batches that are running; returns at once."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._teller.told()
        if self._handle is not None:
            spawn("stop", self._handle.stop)

    def join(self, seconds: float) -> None:
        """Wait until it has ended."""
        self._thread.join(seconds)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def look(self) -> None:
        """End if that is wanted."""
        try:
            told = self._folder.stop_file.read_text()
        except FileNotFoundError:
            told = ""
        if told == self._job.id or self._teller.is_replaced():
            self.stop()

    def tell_phase(self, phase: str) -> None:
        """Say what it waits for."""
        self._teller.say(phase=phase)

    def beat(self) -> None:
        """Say that it is alive."""
        self._teller.say()

    def _run(self) -> None:
        with ended_well(self._teller):
            spark = self._spark()
            with self._turn:
                handle = self._start(spark)
            if handle is not None:
                handle.wait()

    def _start(self, spark: api.SharedSpark) -> api.Application | None:
        from braid import api

        if self._stopping.is_set():
            return None
        handle = api.run(
            plan_of(self._folder, self._job),
            self._home,
            spark=spark.session,
            options=self._job.options,
            create=self._job.create,
            replay=self._job.replay,
            discard=self._job.discard,
            on_phase=lambda phase: self._teller.say(phase=phase),
            start=False,
        )
        self._handle = handle
        if self._stopping.is_set():
            return None
        handle.start()
        if handle.is_active:
            self._teller.say(state=DriverState.RUNNING, started=time.time(), phase=None)
        return handle


class Pool:
    """The process.

    Parameters
    ----------
    home
        The home.
    name
        Of the pool.
    """

    def __init__(self, home: Home, name: str) -> None:
        self._home = home
        self._service = ServiceHome(home)
        self._folder = self._service.pool(name)
        self._name = name
        self._members: dict[str, Member] = {}
        """By the numbers of their jobs."""
        self._known: dict[str, tuple[int, int]] = {}
        """Files of jobs that have been looked at, by application."""
        self._asked = threading.Event()
        self._over = threading.Event()
        self._turn = threading.Semaphore(_SIDE_BY_SIDE)
        self._spark: Future[api.SharedSpark] | None = None

    def run(self) -> int:
        """Run what there is to run until it is told to end; returns the exit code."""
        with exclusive(self._folder.lock_file) as alone:
            if not alone:
                return 0
            self._say()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, lambda number, frame: self._asked.set())
            threading.Thread(target=self._beat, name="beat", daemon=True).start()
            try:
                return self._serve()
            finally:
                self._over.set()

    def _serve(self) -> int:
        while not self._asked.wait(LOOK_SECONDS / 2):
            self._take_jobs()
            for number, member in list(self._members.items()):
                member.look()
                if member.is_over:
                    del self._members[number]
            gone = self._gone()
            if gone is not None:
                # Members notice it, too, and say what it does to them.
                self._join(BEAT_SECONDS)
                print(gone, file=sys.stderr, flush=True)  # noqa: T201  its output is a file
                return 1
        for member in self._members.values():
            member.stop()
        self._join(_END_SECONDS)
        if self._spark is not None and self._spark.done() and self._spark.exception() is None:
            self._spark.result().close()
        return 0

    def _gone(self) -> BaseException | None:
        """What has become of a Spark that is not there any more, or never was."""
        if self._spark is None or not self._spark.done():
            return None
        return self._spark.exception() or self._spark.result().ended()

    def _join(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for member in self._members.values():
            member.join(max(0.0, end - time.monotonic()))

    def _take_jobs(self) -> None:
        """Begin with jobs that nobody has taken yet."""
        fresh = [(name, job) for name in self._service.drivers() if (job := self._fresh(name)) is not None]
        if fresh and self._spark is None:
            self._spark = spawn("Spark", lambda: self._open([job for _, job in fresh]))
        for name, job in fresh:
            assert self._spark is not None
            member = Member(self._home, self._service.driver(name), job, self._spark.result, self._turn)
            self._members[job.id] = member
            member.start()

    def _fresh(self, application: str) -> Job | None:
        """A job of the pool that is looked at for the first time, and that nobody has taken."""
        folder = self._service.driver(application)
        try:
            found = folder.job_file.stat()
            version = found.st_mtime_ns, found.st_ino
            if self._known.get(application) == version:
                return None
            job, driver = Job.read(folder.job_file), Driver.read(folder.driver_file)
        except (OSError, BraidError):
            return None
        self._known[application] = version
        if job is None or job.resources.pool != self._name or (driver is not None and driver.job == job.id):
            return None
        return job

    def _open(self, jobs: list[Job]) -> api.SharedSpark:
        """Start Spark, with the most that any of the first applications asks for."""
        from braid import api

        asked = most([job.resources for job in jobs])
        master, settings = spark_for(jobs[0].model_copy(update={"resources": asked}))
        return api.open_spark(
            self._home, master, settings, log=self._folder.spark_log, on_phase=self._tell_phase
        )

    def _tell_phase(self, phase: str) -> None:
        """Say what Spark waits for, of all members that wait for Spark."""
        for member in list(self._members.values()):
            member.tell_phase(phase)

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            self._say()
            for member in list(self._members.values()):
                member.beat()

    def _say(self) -> None:
        pid = os.getpid()
        found = PoolProcess(pid=pid, began=began(pid) or "", beat=time.time(), place=os.environ.get(PLACE))
        try:
            found.write(self._folder.process_file, durable=False)
        except OSError as error:
            print(f"cannot say that it is alive: {error}", file=sys.stderr, flush=True)  # noqa: T201


def main(arguments: list[str] | None = None) -> int:
    """Run as a script."""
    home, name = arguments or sys.argv[1:]
    return Pool(Home.at(Path(home)), name).run()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Threads that wait for a Spark that is gone keep nothing from ending.
    os._exit(code)
