"""Figures of all applications of a service: looked at together, and not more often than every two seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from braid.client.models import ApplicationInfo
from braid.home.figures import HomeFigures
from braid.home.paths import Home
from braid.home.top import Figures, Top

FRESH_SECONDS = 2.0
"""How old figures may be."""


class ServiceFigures:
    """Looks at all applications, for as many as ask.

    Parameters
    ----------
    home
        The home.
    clock, sleep
        Seconds since the epoch; and what waits for some.
    """

    def __init__(
        self,
        home: Home,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._figures = HomeFigures(home, clock, sleep)
        self._clock = clock
        self._looking = threading.Lock()
        self._last: Top | None = None

    def top(self, applications: Callable[[], Sequence[ApplicationInfo]]) -> Top:
        """All applications with their figures, as of a moment ago; `applications` is asked if need be."""
        with self._looking:
            if self._last is None or not 0 <= self._clock() - self._last.at < FRESH_SECONDS:
                self._last = self._figures.top([_known(one) for one in applications()])
            return self._last


def _known(one: ApplicationInfo) -> Figures:
    return Figures(
        application=one.name,
        state=one.state,
        version=one.version if one.running_version is None else one.running_version,
        pool=one.pool,
        restarts=one.restarts,
        pid=one.pid,
    )
