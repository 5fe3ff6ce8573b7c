"""How an operator is called in FROM, apart from what all calls have in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Declaration:
    """An operator over the rows of one table or view, by key and event time.

    It is called as `NAME(TABLE t PARTITION BY key, ... [ORDER BY time], length => INTERVAL '...') AS alias`,
    and has the columns of `t`. The stage of the same `kind` in `braid.plan.kinds` runs it.

    Parameters
    ----------
    name
        The word that it is called by, in capitals.
    lengths
        Names of its arguments, all of which are lengths of time, and must be given.
    """

    name: str
    lengths: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Kind of the stage that runs it."""
        return self.name.lower()
