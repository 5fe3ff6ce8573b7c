"""What all loops have in common: a thread that takes turns, goes on after an error, and says so.

Errors that are expected, as of a disk or a database, pass. Anything else is a bug: it ends the service, whose
applications go on, and whoever has started it starts it again.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from abc import ABC, abstractmethod

from sqlalchemy.exc import SQLAlchemyError

from braid.core.errors import BraidError
from braid.core.logging import Log

_LONGEST_PAUSE = 30.0


class Loop(ABC):
    """A loop.

    Parameters
    ----------
    log
        Where it says what fails.
    seconds
        Between two turns.
    """

    name: str

    def __init__(self, log: Log, seconds: float) -> None:
        self._log = log.bind(loop=self.name)
        self._seconds = seconds
        self._stopping = threading.Event()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"loop {self.name}", daemon=True)
        self.last_turn: float | None = None
        """When the last turn ended well, in seconds since the epoch."""
        self.trouble: str | None = None
        """What the last turn has failed with."""
        self.died: BaseException | None = None
        """What it has ended with, if nobody has told it to."""

    @abstractmethod
    def turn(self) -> None:
        """Take one turn."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def hurry(self) -> None:
        """Take a turn soon: something has changed."""
        self._hurry.set()

    def end(self) -> None:
        """Have it end after the turn that is being taken."""
        self._stopping.set()
        self._hurry.set()

    def stop(self) -> None:
        """Have it end, and wait for that."""
        self.end()
        self._thread.join(30)

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._take_turns()
        except BaseException as error:  # noqa: BLE001  whoever serves raises it
            self.died = error
            os.kill(os.getpid(), signal.SIGTERM)

    def _take_turns(self) -> None:
        pause = self._seconds
        while not self._stopping.is_set():
            self._hurry.clear()
            try:
                self.turn()
                pause, self.trouble, self.last_turn = self._seconds, None, time.time()
            except (BraidError, OSError, SQLAlchemyError) as error:
                if self.trouble is None:
                    self._log.warning("a turn has failed", error=str(error))
                self.trouble, pause = str(error), min(pause * 2, _LONGEST_PAUSE)
            self._hurry.wait(pause)
