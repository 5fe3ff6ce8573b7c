"""Ending all applications of a home at a micro-batch, for a machine or a container that is shut down.

What should run stays as it is: a service that begins starts them again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from braid.core.errors import RunError
from braid.home.locks import exclusive
from braid.home.service import Driver, Job, ServiceHome
from braid.service.actual import Actual
from braid.service.backends.base import Backend
from braid.service.backends.local import LocalProcesses
from braid.service.decide.backoff import LIMITS, Limits

_LOOK_SECONDS = 0.2


def halt(folder: ServiceHome) -> list[str]:
    """End all applications that have drivers on this machine, while no service runs; returns which."""
    folder.make()
    with exclusive(folder.lock_file) as alone:
        if not alone:
            raise RunError(
                "the service of this home is running, and would start its applications again",
                where=str(folder.home.root),
                hint="end the service first, or run it with --stop-applications",
            )
        return stop_applications(folder, LocalProcesses(folder))


def stop_applications(
    folder: ServiceHome,
    backend: Backend,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
    limits: Limits = LIMITS,
) -> list[str]:
    """Ask all drivers to end, wait until they have, and kill those that do not; returns whose they were.

    Parameters
    ----------
    folder, backend
        Whose drivers, and where they run. Nobody starts others meanwhile.
    clock, sleep
        In seconds.
    limits
        Time limits of supervision.
    """
    began = clock()
    told: dict[str, str] = {}
    backend.stop_pools()
    while True:
        there = {}
        coming = False
        for name in folder.drivers():
            actual = Actual.of(folder.driver(name))
            if actual.job is None:
                continue
            if actual.driver is None:
                # Its process may not have said yet that it is there.
                coming |= clock() - actual.job.asked < limits.register
            elif actual.driver.state.active and backend.is_alive(actual.driver):
                there[name] = (actual.job, actual.driver)
        _tell(backend, there, told)
        if not there and not coming:
            return sorted(told)
        if clock() - began > limits.stop:
            for name, (job, driver) in there.items():
                backend.kill(name, job, driver)
            return sorted(told)
        sleep(_LOOK_SECONDS)


def _tell(backend: Backend, there: dict[str, tuple[Job, Driver]], told: dict[str, str]) -> None:
    """Ask those to end that have not been asked yet."""
    for name, (job, driver) in there.items():
        if told.get(name) != job.id:
            told[name] = job.id
            backend.stop(name, job, driver)
