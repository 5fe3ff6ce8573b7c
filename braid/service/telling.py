"""What the driver of a job says of itself, in files of the home, until it has been replaced."""

from __future__ import annotations

import os
import sys
import threading
import time

from braid.core.errors import BraidError
from braid.core.processes import began
from braid.home.service import Domain, Driver, DriverHome, DriverState, Job

BEAT_SECONDS = 5.0
"""How often a driver says that it is alive."""
LOOK_SECONDS = 0.5
"""How often it looks whether something else is wanted of it."""
PLACE = "BRAID_PLACE"
"""The variable that tells a process which pod it is in."""


class Teller:
    """Says how a job goes.

    Parameters
    ----------
    folder
        Of the driver.
    job
        The job.
    """

    def __init__(self, folder: DriverHome, job: Job) -> None:
        self._folder = folder
        self._job = job
        self._telling = threading.RLock()  # a signal may come while the main thread has it
        self._over = False
        self._told = False
        pid = os.getpid()
        self.said = Driver(
            job=job.id,
            version=job.version,
            pid=pid,
            began=began(pid) or "",
            beat=time.time(),
            place=os.environ.get(PLACE),
        )

    def say(self, **changes: object) -> None:
        """Write down what has changed, and that it is alive."""
        with self._telling:
            if not self._over and not self.is_replaced():
                self._write(changes)

    def end(self, error: str | None = None, domain: Domain | None = None) -> None:
        """Write down how it has ended, after which there is nothing more to say."""
        state = DriverState.ENDED if error is None else DriverState.FAILED
        with self._telling:
            if not self._over and not self.is_replaced():
                self._write({"state": state, "phase": None, "error": error, "domain": domain})
            self._over = True
        if error is not None:
            print(error, file=sys.stderr, flush=True)  # noqa: T201  its output is a file

    def told(self) -> None:
        """Take note that it was asked to end; that is written with whatever is said next."""
        self._told = True

    def is_replaced(self) -> bool:
        """Whether another job has taken the place of this one."""
        try:
            job = Job.read(self._folder.job_file)
        except (OSError, BraidError):
            return False  # whoever replaces it kills it, too
        return job is None or job.id != self._job.id

    def _write(self, changes: dict[str, object]) -> None:
        self.said = self.said.model_copy(update={**changes, "told": self._told, "beat": time.time()})
        try:
            self.said.write(self._folder.driver_file, durable=False)
        except OSError as error:
            print(f"cannot say how it goes: {error}", file=sys.stderr, flush=True)  # noqa: T201
