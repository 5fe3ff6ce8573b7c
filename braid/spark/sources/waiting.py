"""Waiting in a source: until there is something to read, and until it is time to read it.

Spark asks a source again and again whether there is anything new. Each time costs it about a millisecond of
CPU time, whereas a look at the log costs a source some microseconds: so it is the source that waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from braid.core.times import SECOND, now_micros
from braid.engine.cadence import QUIET, Due, input_due, operator_due, until_due, until_next_look
from braid.home.cadence import AT_ONCE, Cadence


class Waiting:
    """Waits on behalf of a source.

    Parameters
    ----------
    path
        Where the driver tells the cadence; None if the source never waits.
    clock, sleep
        The wall clock in microseconds, and what passes time in seconds: if it returns true, waiting ends.
    """

    def __init__(
        self,
        path: str | None,
        clock: Callable[[], int] = now_micros,
        sleep: Callable[[float], bool | None] = time.sleep,
    ) -> None:
        self._path = None if path is None else Path(path)
        self._clock = clock
        self._sleep = sleep
        self._version: tuple[int, int] | None = None
        self._cadence = AT_ONCE
        self._began = 0
        self._since: int | None = None
        self._busy = clock()

    def began(self) -> None:
        """A micro-batch begins."""
        self._began = self._clock()
        self._since = None

    def input(self, fresh: Callable[[], bool]) -> Due:
        """Wait until an input of the application is due, or for as long as a source may."""
        return self._wait(lambda now, told: input_due(fresh(), now, self._began, told), until_due)

    def operator(self, fresh: Callable[[], Sequence[bool]]) -> Due:
        """Wait until an operator is due, or for as long as a source may."""

        def look(now: int, told: Cadence) -> Due:
            found = fresh()
            if not any(found):
                self._since = None
            elif self._since is None:
                self._since = now
            return operator_due(found, now, now if self._since is None else self._since, told)

        return self._wait(look)

    def _wait(
        self,
        look: Callable[[int, Cadence], Due],
        until_due: Callable[[int, Cadence], int] | None = None,
    ) -> Due:
        """Look until something is due; `until_due` tells how long what can wait has to."""
        began = self._clock()
        while True:
            now, told = self._clock(), self._told()
            due = look(now, told)
            if due is not Due.NOTHING:
                self._busy = now
            if due is Due.NOW or now - began >= told.patience:
                return due
            pause = until_next_look(now - self._busy, told)
            if due is Due.LATER and until_due is not None:
                # Nothing that comes meanwhile changes that, but the driver may be in a hurry.
                pause = min(until_due(now, told), until_next_look(QUIET, told))
            if self._sleep(pause / SECOND):
                return due

    def _told(self) -> Cadence:
        """What the driver has told last."""
        version = None if self._path is None else _version(self._path)
        if version != self._version:
            assert self._path is not None
            self._version, self._cadence = version, Cadence.read(self._path) or AT_ONCE
        return self._cadence


def _version(path: Path) -> tuple[int, int] | None:
    """What changes with a file that is replaced; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_ino
