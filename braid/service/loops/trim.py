"""Forgets what the registry need not know any more, so that it does not grow without bound."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import ColumnElement, CursorResult, delete, func, select

from braid.core.logging import Log
from braid.service.decide.retention import Kept, Started, before, superfluous
from braid.service.loops.base import Loop
from braid.service.registry.database import Database
from braid.service.registry.tables import Audit, Event, Start, Token

TURN_SECONDS = 3600.0
MOST_AT_ONCE = 2_000
"""Rows that one transaction removes: nobody waits for long until it is over."""


class Trim(Loop):
    """The loop.

    Parameters
    ----------
    database
        The registry.
    log
        Of the service.
    kept
        How long what has happened is kept.
    clock
        In seconds since the epoch.
    """

    name = "trim"

    def __init__(
        self, database: Database, log: Log, kept: Kept, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(log, TURN_SECONDS)
        self._database = database
        self._kept = kept
        self._clock = clock

    def turn(self) -> None:
        """Remove all that may go."""
        now = self._clock()
        moments = before(self._kept, now)
        gone = {
            "events": self._remove(Event, Event.at < moments.events),
            "audit": self._remove(Audit, Audit.at < moments.audit),
            "tokens": self._remove(Token, Token.expires < moments.tokens),
            "starts": self._remove_starts(now),
        }
        if any(gone.values()):
            self._log.info("trimmed the registry", **gone)

    def _remove(self, table: type[Event | Audit | Token], old: ColumnElement[bool]) -> int:
        """Remove rows that are old, some at a time; how many there were."""
        count = 0
        while not self._stopping.is_set():
            some = select(table.id).where(old).limit(MOST_AT_ONCE)
            with self._database.transaction() as session:
                done = session.execute(delete(table).where(table.id.in_(some)))
                assert isinstance(done, CursorResult)
            count += done.rowcount
            if done.rowcount < MOST_AT_ONCE:
                break
        return count

    def _remove_starts(self, now: float) -> int:
        """Remove starts that nobody goes by, application by application; how many there were."""
        many = select(Start.application).group_by(Start.application).having(func.count() > self._kept.starts)
        with self._database.reading() as session:
            names = session.scalars(many).all()
        count = 0
        for name in names:
            with self._database.reading() as session:
                query = select(Start.job, Start.at, Start.ended).where(Start.application == name)
                starts = [Started(job, at, ended) for job, at, ended in session.execute(query)]
            jobs = superfluous(starts, self._kept, now)
            for first in range(0, len(jobs), MOST_AT_ONCE):
                with self._database.transaction() as session:
                    part = jobs[first : first + MOST_AT_ONCE]
                    session.execute(delete(Start).where(Start.job.in_(part)))
            count += len(jobs)
        return count
