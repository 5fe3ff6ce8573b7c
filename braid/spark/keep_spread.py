"""Keeps the state partitions of a query spread over executors; what is where it is to be is left there."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from braid.core.logging import Log
from braid.plan.physical.layout import spread

LOOK_SECONDS = 1.0
"""Between two looks while executors stay the same: each takes two calls of Java per state partition."""
LEAST_SECONDS, MOST_SECONDS = 1.0, 64.0
"""From a move to the next, unless an executor was lost: the first pause, which doubles, and the longest. What
an executor that is always busy is to run, runs elsewhere again and again; each move builds shards anew."""
CALM_SECONDS = 600.0
"""After so long without a move, pauses begin with the first one again."""
TRIES = 6
"""Micro-batches within which a move is repeated. One that is under way has its places already, and says so as
its tasks begin, so that what was said before that is forgotten."""


class Places(Protocol):
    """Where the state partitions of a query are: see `braid.spark.placement.Register`."""

    def places(self) -> list[str | None]:
        """The executor of each state partition; None of those that have none."""

    def move(self, places: Mapping[int, str]) -> None:
        """Tell which executors are to have state partitions from the next micro-batch on."""

    def batch(self) -> int:
        """The last micro-batch that is done; -1 if there is none."""


class KeepSpread:
    """Looks where state partitions are, and moves as few of them as it takes to have them even.

    Parameters
    ----------
    places
        Where they are.
    log
        For what is moved.
    clock
        Seconds, of any origin.
    """

    def __init__(self, places: Places, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._places = places
        self._log = log
        self._clock = clock
        self._looked_at: object = None
        self._looked = self._ended = clock()
        self._pause = LEAST_SECONDS
        self._known = False
        self._first: int | None = None
        self._told = -1
        self._logged: list[str | None] = []

    def keep(self, alive: Sequence[str], chosen: Collection[str]) -> None:
        """Have state partitions spread evenly.

        Parameters
        ----------
        alive
            Executors that there are.
        chosen
            Those to spread over. Others keep what they have, and get more only if none of these is left.
        """
        now, looked_at = self._clock(), (tuple(alive), frozenset(chosen))
        waits = self._first is None and looked_at == self._looked_at and now - self._looked < LOOK_SECONDS
        if waits or not alive:
            return
        self._looked_at, self._looked = looked_at, now
        found = self._places.places()
        if self._known and None in found:
            return  # the query has ended
        self._known = True
        wanted = spread(found, [one for one in alive if one in chosen or one in found] or alive)
        # Where an executor is gone, the next task would wait for it.
        gone = any(place not in alive for place in found)
        batch = self._places.batch()
        if wanted != found and self._may_move(batch, gone, now):
            self._places.move({number: one for number, one in enumerate(wanted) if one != found[number]})
            self._told = batch
        elif self._first is not None and (wanted != found or batch > self._told + 1):
            # It was given up, or a micro-batch that began after it has been done in the same places.
            self._first, self._ended = None, now
        if self._first is None and found != self._logged:
            self._log.info("shards placed", executors=found)
            self._logged = found

    def _may_move(self, batch: int, gone: bool, now: float) -> bool:
        """Whether something is moved, which may take several tries."""
        if self._first is not None:
            return gone or batch < self._first + TRIES
        if not gone and now - self._ended < self._pause:
            return False
        if not gone:
            again = now - self._ended <= CALM_SECONDS
            self._pause = min(2 * self._pause, MOST_SECONDS) if again else LEAST_SECONDS
        self._first = batch
        return True
