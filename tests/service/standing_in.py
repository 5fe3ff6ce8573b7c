"""Drivers that run nothing: what the service does with them is the same."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from braid.home.service import Driver, DriverState, Job, ServiceHome


@dataclass
class Drivers:
    """A backend whose drivers say that they run as soon as they are started."""

    home: ServiceHome
    alive: dict[int, str] = field(default_factory=dict)
    started: list[Job] = field(default_factory=list)
    pools: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._pids = itertools.count(1_000_000)

    def start(self, application: str, job: Job) -> None:
        folder = self.home.driver(application)
        assert job == Job.read(folder.job_file)
        self.started.append(job)
        pid = next(self._pids)
        self.alive[pid] = application
        now = time.time()
        Driver(
            job=job.id,
            version=job.version,
            pid=pid,
            began="",
            started=now,
            beat=now + 10_000,
            state=DriverState.RUNNING,
        ).write(folder.driver_file)

    def waits_for(self, application: str, job: Job) -> str | None:
        return None

    def is_alive(self, driver: Driver) -> bool:
        return driver.pid in self.alive

    def stop(self, application: str, job: Job, driver: Driver) -> None:
        self.end(driver.pid, state=DriverState.ENDED)

    def kill(self, application: str, job: Job, driver: Driver) -> None:
        self.alive.pop(driver.pid, None)

    def clear(self, application: str, job: Job, driver: Driver | None) -> None:
        if driver is not None:
            self.alive.pop(driver.pid, None)

    def stop_pools(self) -> None:
        self.pools = set()

    def keep_pools(self, wanted: Collection[str]) -> None:
        self.pools = set(wanted)

    def end(self, pid: int, **changes: object) -> None:
        """Let a driver end, with what it says."""
        folder = self.home.driver(self.alive.pop(pid))
        driver = Driver.read(folder.driver_file)
        assert driver is not None
        driver.model_copy(update=changes).write(folder.driver_file)
