"""Follows what the queries of a running application still need of the log, micro-batch by micro-batch."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping

from braid.core.counters import Counters
from braid.core.errors import RunError
from braid.core.json_values import Json
from braid.engine.offsets import OperatorOffset, ReadOffset
from braid.home.needs import QueryNeeds
from braid.home.paths import AppHome
from braid.plan.physical.readers import CategoryReader, category_readers
from braid.plan.stages.base import Plan


def needed_commits(
    reader: CategoryReader, start: Mapping[str, Json] | None, counts: Counters | None
) -> dict[str, int]:
    """The lowest commit of every category that a query needs to repeat a micro-batch, or to go on after it.

    Parameters
    ----------
    reader
        The query.
    start
        The offset that the micro-batch began with; None if it was the first one.
    counts
        What an operator has counted, with the oldest blocks that its state refers to.
    """
    if start is None or not reader.inputs:
        return dict.fromkeys(reader.inputs.values(), 0)
    found: dict[str, int] = {}
    if reader.stateful:
        offset = OperatorOffset.from_json(start)
        for name in offset.at.inputs:
            lowest = offset.needed(name, None if counts is None else counts.input(name).oldest)
            category = reader.inputs[name]
            found[category] = min(lowest, found.get(category, lowest))
    else:
        found = dict.fromkeys(reader.inputs.values(), ReadOffset.from_json(start).next.commit)
    # Watermarks are those of the last commit that was read whole, which may be the one before.
    return {category: max(0, commit - 1) for category, commit in found.items()}


class RunNeeds:
    """The needs of all queries of a run: told by the thread that watches them, written by upkeep."""

    def __init__(self, home: AppHome, plan: Plan) -> None:
        self._home = home
        self._readers = {reader.query: reader for reader in category_readers(plan)}
        self._needs = {query: self._stored(query) for query in self._readers}
        # Of a query that begins anew, what its predecessor needed must not be believed.
        self._changed = {query for query in self._readers if not home.checkpoint(query).exists()}
        self._lock = threading.Lock()

    def take(
        self,
        query: str,
        batch: int,
        start: str | None,
        counts: Counters | None,
        now: float,
        written: int = -1,
    ) -> None:
        """Add a micro-batch that is over.

        Parameters
        ----------
        query, batch
            The query and the number of its micro-batch.
        start
            The JSON text of the offset that it began with; None, or the text of null, for the first one.
        counts
            What it has counted; None if that is not known.
        now
            The wall clock in seconds.
        written
            The commit that it wrote.
        """
        reader, before = self._readers[query], self._needs[query]
        if batch <= before.batch or (reader.stateful and counts is None):
            return
        offset = None if start in (None, "None") else json.loads(start)
        if offset is None and batch > 0:
            return  # the first one of a generation: those before it have told what is needed
        commits = needed_commits(reader, offset, counts)
        with self._lock:
            self._needs[query] = before.after(batch, commits, written, now)
            self._changed.add(query)

    def write(self) -> None:
        """Write what has changed since the last time; at first, of queries that have no checkpoint yet."""
        with self._lock:
            changed = {query: self._needs[query] for query in self._changed}
            self._changed.clear()
        for query, needs in changed.items():
            needs.write(self._home.control_file(query, "needs"))

    def _stored(self, query: str) -> QueryNeeds:
        """What an earlier run has told; nothing if the query begins anew, or the file cannot be read."""
        if not self._home.checkpoint(query).exists():
            return QueryNeeds()
        try:
            return QueryNeeds.read(self._home.control_file(query, "needs")) or QueryNeeds()
        except RunError:
            return QueryNeeds()
