"""All applications end at a micro-batch, and what should run stays as it is."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from braid.core.errors import RunError
from braid.home.locks import exclusive
from braid.home.paths import Home
from braid.home.service import Driver, DriverState, Job, Resources, ServiceHome
from braid.service.stopping import halt, stop_applications


@dataclass
class Drivers:
    """Drivers that end some time after they were asked to."""

    folder: ServiceHome
    seconds: float = 3.0
    now: float = field(default_factory=time.time)
    asked: list[str] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    ends: dict[int, float] = field(default_factory=dict)
    pools_told: int = 0

    def add(self, name: str, pid: int, *, says: bool = True, **resources: str) -> None:
        """Let a driver run."""
        folder = self.folder.driver(name)
        job = Job(id=f"job {name}", version=1, asked=self.now, resources=Resources(**resources))
        job.write(folder.job_file)
        if says:
            self.say(name, pid)

    def say(self, name: str, pid: int) -> None:
        """Let it say that it is there."""
        driver = Driver(
            job=f"job {name}", version=1, pid=pid, began="", beat=self.now, state=DriverState.RUNNING
        )
        driver.write(self.folder.driver(name).driver_file)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def start(self, application: str, job: Job) -> None:
        raise AssertionError("nothing is started")

    def is_alive(self, driver: Driver) -> bool:
        return self.now < self.ends.get(driver.pid, self.now + 1)

    def stop(self, application: str, job: Job, driver: Driver) -> None:
        self.asked.append(application)
        self.ends[driver.pid] = self.now + self.seconds

    def kill(self, application: str, job: Job, driver: Driver) -> None:
        self.killed.append(application)

    def clear(self, application: str, job: Job, driver: Driver | None) -> None:
        raise AssertionError("the service takes note of that")

    def waits_for(self, application: str, job: Job) -> str | None:
        return None

    def keep_pools(self, wanted: Collection[str]) -> None:
        raise AssertionError("pools are not kept")

    def stop_pools(self) -> None:
        self.pools_told += 1


@pytest.fixture
def drivers(tmp_path: Path) -> Drivers:
    return Drivers(ServiceHome(Home.at(tmp_path)))


def stop(drivers: Drivers) -> list[str]:
    return stop_applications(drivers.folder, drivers, clock=drivers.clock, sleep=drivers.sleep)


def test_all_are_asked_once_and_waited_for(drivers: Drivers) -> None:
    drivers.add("a", 1)
    drivers.add("b", 2, pool="small")
    began = drivers.now
    assert stop(drivers) == ["a", "b"]
    assert (drivers.asked, drivers.killed, drivers.pools_told) == (["a", "b"], [], 1)
    assert 3 <= drivers.now - began < 4


def test_those_that_do_not_end_are_killed(drivers: Drivers) -> None:
    drivers.seconds = 1000
    drivers.add("a", 1)
    began = drivers.now
    assert stop(drivers) == ["a"]
    assert drivers.killed == ["a"]
    assert 60 <= drivers.now - began < 61


def test_one_that_has_just_been_started_is_waited_for(
    drivers: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    drivers.add("a", 1, says=False)
    slept = Drivers.sleep

    def sleep(self: Drivers, seconds: float) -> None:
        slept(self, seconds)
        if self.now > began + 5 and not self.asked:
            self.say("a", 1)

    began = drivers.now
    monkeypatch.setattr(Drivers, "sleep", sleep)
    assert stop(drivers) == ["a"]
    # One that never says anything is not waited for any longer than the service would.
    drivers.add("b", 2, says=False)
    began = drivers.now
    monkeypatch.setattr(Drivers, "sleep", slept)
    assert stop(drivers) == []
    assert 20 <= drivers.now - began < 21


def test_a_service_that_runs_would_start_them_again(tmp_path: Path) -> None:
    folder = ServiceHome(Home.at(tmp_path))
    assert halt(folder) == []
    with exclusive(folder.lock_file), pytest.raises(RunError, match="is running, and would start"):
        halt(folder)
