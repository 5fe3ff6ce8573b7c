"""What is in the log, for as many as ask: looked at so seldom that looking takes a twentieth of the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from braid import api
from braid.client.models import CategoryTold
from braid.home.paths import Home

_SHARE = 20
"""What was found is told for so many times as long as it took to find."""


class Categories:
    """The categories of a home.

    Parameters
    ----------
    home
        The home.
    clock
        In seconds.
    """

    def __init__(self, home: Home, clock: Callable[[], float] = time.monotonic) -> None:
        self._home = home
        self._clock = clock
        self._looking = threading.Lock()
        self._last: list[CategoryTold] | None = None
        self._until = 0.0

    def get(self) -> list[CategoryTold]:
        """All categories, by name; while somebody else looks, those that were found before."""
        last = self._last
        if last is not None and self._clock() < self._until:
            return last
        if last is not None and self._looking.locked():
            return last
        with self._looking:
            if self._last is None or self._clock() >= self._until:
                began = self._clock()
                self._last = [
                    CategoryTold(
                        name=one.name, owner=one.owner, commits=one.commits, rows=one.rows, bytes=one.bytes
                    )
                    for one in api.categories(self._home)
                ]
                now = self._clock()
                self._until = now + _SHARE * (now - began)
            return self._last
