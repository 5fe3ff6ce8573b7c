"""What the service asks of the place where drivers run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from braid.home.service import Driver, Job


class Backend(Protocol):
    """Starts drivers, finds them again, and ends them. What they are to run, and how it goes, is in files."""

    def start(self, application: str, job: Job) -> None:
        """Start a driver for a job that has been written down; returns without waiting for it."""

    def waits_for(self, application: str, job: Job) -> str | None:
        """What keeps a driver that has said nothing yet from being there; None if nothing does.

        A start that has failed in passing is made up for.
        """

    def is_alive(self, driver: Driver) -> bool:
        """Whether the process of a driver is there."""

    def stop(self, application: str, job: Job, driver: Driver) -> None:
        """Ask a driver to end in good order."""

    def kill(self, application: str, job: Job, driver: Driver) -> None:
        """End a driver at once, with all that it has started, and with all that share it."""

    def clear(self, application: str, job: Job, driver: Driver | None) -> None:
        """End what a driver that is over may have left behind; None if it has never said that it is there."""

    def keep_pools(self, wanted: Collection[str]) -> None:
        """See to it that the pools of jobs that are not over are there, and that no others stay for long."""

    def stop_pools(self) -> None:
        """Ask all pools to end, with their applications, in good order."""
