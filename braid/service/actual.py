"""What there is of applications, as files of their drivers say: read again only when they have changed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from braid.home.service import Driver, DriverHome, Job, ServiceHome
from braid.home.unchanged import Unchanged


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
        return cls.fitting(Job.read(folder.job_file), Driver.read(folder.driver_file))

    @classmethod
    def fitting(cls, job: Job | None, driver: Driver | None) -> Actual:
        """A job, and what a driver has said if it is the driver of that."""
        fits = job is not None and driver is not None and driver.job == job.id
        return cls(job, driver if fits else None)


class Actuals:
    """What there is of every application of a service, for those who ask again and again.

    Parameters
    ----------
    home
        The service's folder.
    """

    def __init__(self, home: ServiceHome) -> None:
        self._home = home
        self._files: dict[str, tuple[Unchanged[Job], Unchanged[Driver]]] = {}

    def of(self, application: str) -> Actual:
        """What there is of an application."""
        files = self._files.get(application)
        if files is None:
            folder = self._home.driver(application)
            files = Unchanged(folder.job_file, Job.read), Unchanged(folder.driver_file, Driver.read)
            self._files[application] = files
        job, driver = files
        return Actual.fitting(job.get(), driver.get())

    def keep(self, applications: Collection[str]) -> None:
        """Forget all others."""
        for name in list(self._files):
            if name not in applications:
                self._files.pop(name, None)
