"""What the service asks of the place where drivers run."""

from __future__ import annotations

from typing import Protocol

from braid.home.service import Driver


class Backend(Protocol):
    """Starts drivers, finds them again, and ends them. What they are to run, and how it goes, is in files."""

    def start(self, application: str) -> None:
        """Start a driver for the job that has been written down; returns without waiting for it."""

    def is_alive(self, driver: Driver) -> bool:
        """Whether the process of a driver is there."""

    def stop(self, driver: Driver) -> None:
        """Ask a driver to end in good order."""

    def kill(self, driver: Driver) -> None:
        """End a driver at once, with all that it has started."""
