"""Decisions about drivers, in a world where they start late, hang, die and are stopped."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from braid.home.service import Domain, Driver, DriverState, Job
from braid.service.decide.backoff import LIMITS, Run
from braid.service.decide.supervise import Seen, Step, Wanted, What, decide

JOB = Job(id="1", version=1, asked=100.0)
DRIVER = Driver(job="1", version=1, pid=7, began="", beat=110.0, state=DriverState.RUNNING)
SEEN = Seen(job=JOB, restart=0, driver=DRIVER, alive=True)
RUN_ONE = Wanted(version=1)


def step(wanted: Wanted = RUN_ONE, seen: Seen = SEEN, now: float = 111.0, runs: tuple[Run, ...] = ()) -> Step:
    return decide(wanted, seen, True, runs, now)


def test_what_runs_as_it_should_is_left_alone() -> None:
    assert step().what is What.NOTHING


def test_a_process_that_never_says_that_it_is_there_counts_as_dead() -> None:
    silent = replace(SEEN, driver=None, alive=False)
    assert step(seen=silent, now=100 + LIMITS.register - 1).what is What.NOTHING
    found = step(seen=silent, now=100 + LIMITS.register)
    assert (found.what, found.failed) == (What.CLOSE, True)


def test_a_driver_that_is_silent_for_long_is_killed_and_then_closed() -> None:
    assert step(now=110 + LIMITS.dead).what is What.NOTHING
    assert step(now=111 + LIMITS.dead).what is What.KILL
    assert step(seen=replace(SEEN, alive=False), now=200).what is What.CLOSE


def test_what_should_not_run_is_stopped_and_killed_if_it_does_not() -> None:
    nothing = Wanted(version=None)
    assert step(nothing).what is What.STOP
    told = replace(SEEN, stopping=111.0, driver=DRIVER.model_copy(update={"beat": 171.0}))
    assert step(nothing, told, now=171).what is What.NOTHING
    assert step(nothing, told, now=172).what is What.KILL
    gone = step(nothing, replace(told, alive=False), now=120)
    assert (gone.what, gone.failed) == (What.CLOSE, False)


@pytest.mark.parametrize("wanted", [Wanted(version=2), Wanted(version=1, restart=1)])
def test_another_version_or_another_start_ends_the_one_that_runs(wanted: Wanted) -> None:
    assert step(wanted).what is What.STOP
    ended = replace(SEEN, driver=DRIVER.model_copy(update={"state": DriverState.ENDED}), alive=False)
    found = step(wanted, ended)
    assert (found.what, found.failed) == (What.CLOSE, False)


def test_what_ends_by_itself_has_failed() -> None:
    ended = replace(SEEN, driver=DRIVER.model_copy(update={"state": DriverState.ENDED}))
    assert step(seen=ended).failed
    shut_down = DRIVER.model_copy(update={"state": DriverState.ENDED, "told": True})
    found = step(seen=replace(SEEN, driver=shut_down))
    assert (found.what, found.failed) == (What.CLOSE, False)
    wrong = DRIVER.model_copy(update={"state": DriverState.FAILED, "error": "x", "domain": Domain.USER})
    assert step(seen=replace(SEEN, driver=wrong)).failed


@dataclass
class World:
    """Drivers that behave at random, and the records of them."""

    rng: random.Random
    now: float = 1000.0
    wanted: Wanted = RUN_ONE
    seen: Seen = field(default_factory=Seen)
    is_open: bool = False
    runs: list[Run] = field(default_factory=list)
    hangs: bool = False
    dies: float = 0.0
    processes: int = 0
    starts: int = 0

    def turn(self) -> None:
        self.now += self.rng.random() * 3
        self._live()
        step = decide(self.wanted, self.seen, self.is_open, self.runs, self.now)
        if step.what is What.START:
            assert self.processes == 0  # never two at once
            self.starts += 1
            job = Job(id=str(self.starts), version=self.wanted.version or 0, asked=self.now)
            self.seen, self.is_open = Seen(job=job, restart=self.wanted.restart), True
            self.processes = self.rng.random() < 0.9
            self.hangs = self.rng.random() < 0.1
        elif step.what is What.STOP:
            self.seen = replace(self.seen, stopping=self.now)
        elif step.what is What.KILL:
            self.processes, self.seen = 0, replace(self.seen, alive=False)
        elif step.what is What.CLOSE:
            assert not self.seen.alive
            assert self.seen.job is not None
            self.processes = 0
            self.is_open = False
            if step.failed:
                self.runs.append(Run(self.seen.job.asked, self.now, True, None))
            self.seen = replace(self.seen, driver=None, stopping=None)

    def _live(self) -> None:
        """What processes do meanwhile."""
        job, driver = self.seen.job, self.seen.driver
        if not self.processes or job is None:
            return
        if driver is None:
            driver = Driver(job=job.id, version=job.version, pid=self.starts, began="", beat=self.now)
            self.seen = replace(self.seen, driver=driver, alive=True)
        elif self.rng.random() < self.dies or (self.seen.stopping is not None and not self.hangs):
            self.processes, self.seen = 0, replace(self.seen, alive=False)
        elif not self.hangs:
            state = DriverState.RUNNING
            self.seen = replace(
                self.seen, driver=driver.model_copy(update={"beat": self.now, "state": state})
            )


@pytest.mark.parametrize("seed", range(300))
def test_whatever_happens_what_should_run_does_in_the_end_and_never_twice(seed: int) -> None:
    world = World(random.Random(seed), dies=0.05)
    for _ in range(300):
        world.turn()
        if world.rng.random() < 0.03:
            version = world.rng.choice([None, 1, 2, 3])
            world.wanted = Wanted(version, world.wanted.restart + 1)
            world.runs.clear()
    world.dies, world.wanted = 0.0, Wanted(9, 10_000)
    world.runs.clear()
    for _ in range(2000):
        world.turn()
    driver = world.seen.driver
    assert driver is not None
    assert (driver.version, driver.state, world.processes) == (9, DriverState.RUNNING, 1)
    before = world.starts
    for _ in range(200):
        world.turn()
    assert world.starts == before
