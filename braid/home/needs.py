"""What the queries of an application still need of the log, so that upkeep of the home leaves it there."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from braid.home.records import Record

KEPT = 12
"""Micro-batches that are remembered. Spark's checkpoints go back ten, and a query may begin again at any of
them."""


class BatchNeeds(Record):
    """What a query needs that begins again after, or with, a micro-batch.

    Parameters
    ----------
    batch
        Its number.
    commits
        The lowest commit needed, by category.
    """

    batch: int
    commits: dict[str, int] = Field(default_factory=dict)


class QueryNeeds(Record):
    """What a query needs, as its last micro-batches have told.

    It belongs to the checkpoint, and goes with it. An older record asks for more than is needed, never for
    less: what a query needs moves only upwards.

    Parameters
    ----------
    recent
        The last micro-batches, oldest first.
    since
        When the lowest commit needed moved last, in seconds, by category.
    written
        The last commit that the query is known to have written, under the number of its sink; -1 if none.
    """

    recent: tuple[BatchNeeds, ...] = ()
    since: dict[str, float] = Field(default_factory=dict)
    written: int = -1

    @property
    def batch(self) -> int:
        """The last micro-batch that is known; -1 if there is none."""
        return self.recent[-1].batch if self.recent else -1

    def needed(self, category: str) -> int:
        """The lowest commit of a category that is needed; 0, which is everything, before the first batch."""
        return min((batch.commits.get(category, 0) for batch in self.recent), default=0)

    def after(self, batch: int, commits: Mapping[str, int], written: int, now: float) -> QueryNeeds:
        """The needs after a further micro-batch."""
        recent = (*self.recent, BatchNeeds(batch=batch, commits=dict(commits)))[-KEPT:]
        moved = QueryNeeds(recent=recent, written=max(written, self.written))
        since = {
            name: self.since.get(name, now) if moved.needed(name) == self.needed(name) else now
            for name in commits
        }
        return moved.model_copy(update={"since": since})
