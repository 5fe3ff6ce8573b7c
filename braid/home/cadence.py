"""How often the stages of an application run: told by its driver when that changes, obeyed by sources."""

from __future__ import annotations

from braid.home.records import Record


class Cadence(Record):
    """When a source starts a micro-batch, in microseconds.

    Parameters
    ----------
    interval
        Inputs of the application are read once per interval, all at the same moments: when the wall clock is
        a multiple of it, and `phase` more. 0 is back to back.
    phase
        Is another one for other applications, so that those of a machine do not all run at the same moments.
    grace
        How long an operator that has something to read of one input waits for the others, which were read at
        the same moment: their rows then need no micro-batch of their own.
    look
        How long a source that waits leaves between two looks at the log.
    patience
        How long a source waits for something to read before it tells Spark that there is nothing: asking
        costs Spark more than waiting costs the source. Spark cannot stop a query meanwhile.
    """

    interval: int = 0
    phase: int = 0
    grace: int = 0
    look: int = 0
    patience: int = 0


AT_ONCE = Cadence()
"""Nothing waits: a caller waits for what is there."""
