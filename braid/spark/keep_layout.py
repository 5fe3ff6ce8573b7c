"""Keeps the shards of a running application as its options, its executors and its users want them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from braid.core.errors import BraidError
from braid.core.logging import Log
from braid.home.control import Rescale, Rescaled
from braid.home.paths import AppHome
from braid.spark.run_queries import RunQueries

_LOOK_SECONDS = 0.25
SETTLED_SECONDS = 20.0
"""How long the same executors must have been there before shards are spread over those that have come: a
cluster starts several of them one after the other."""


@dataclass(frozen=True)
class KeepLayout:
    """Rescales when that is asked for, and when executors have come.

    Parameters
    ----------
    home, log
        Of the application.
    queries
        What is rescaled.
    stopping
        Set when nothing is to be done any more.
    clock
        Seconds, of any origin.
    """

    home: AppHome
    log: Log
    queries: RunQueries
    stopping: threading.Event
    clock: Callable[[], float] = time.monotonic

    def run(self) -> None:
        """Rescale what has another layout than options and executors say; then go on until it is stopped.

        When executors have come, what was asked for last is done again, which spreads shards over them, too.
        When some have gone, the others take over their shards.
        """
        last = Rescale(id="start")
        asked: Rescale | None = last
        new, since = frozenset[str](), self.clock()
        while not self.stopping.is_set():
            if asked is not None:
                last = asked
                self._do(asked)
            self.stopping.wait(_LOOK_SECONDS)
            self.queries.keep_spread()
            asked = Rescale.read(self.home.rescale_file)
            found = self.queries.new_executors()
            if found != new:
                new, since = found, self.clock()
            elif asked is None and new and self.clock() - since >= SETTLED_SECONDS:
                self.log.info("executors have come", executors=len(new))
                asked, since = last, self.clock()

    def _do(self, asked: Rescale) -> None:
        try:
            done = Rescaled(id=asked.id, seconds=self.queries.rescale(asked.shards, asked.partitions))
        except (BraidError, OSError) as error:
            self.log.warning("not rescaled", error=str(error))
            done = Rescaled(id=asked.id, error=str(error))
        done.write(self.home.rescaled_file, durable=False)
        self.home.rescale_file.unlink(missing_ok=True)
