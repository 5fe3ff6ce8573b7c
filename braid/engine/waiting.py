"""What makes a join's source take less, or step without input: full buffers, and rows waiting by the clock.

Whatever is decided here becomes part of the offset, so that a replayed micro-batch is the same one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from braid.core.errors import RunError
from braid.eventtime.pacing.config import PacingConfig

PATIENCE = 8
"""Chunks that a join with full buffers takes, one by one, before fewer rows must wait than at first."""


@dataclass(frozen=True)
class Full:
    """Since when a join's buffers have been full.

    Parameters
    ----------
    steps
        Micro-batches since then.
    rows
        Rows that were buffered at the beginning.
    """

    steps: int = 0
    rows: int = 0

    def after(self, buffered: int, limit: int) -> Full:
        """The next state, with so many rows buffered; raise `RunError` if waiting does not help."""
        if buffered < limit:
            return Full()
        if self.steps < PATIENCE:
            return Full(self.steps + 1, self.rows or buffered)
        if buffered >= self.rows:
            raise RunError(
                f"{buffered:,} rows wait in the join, and max_buffered_rows is {limit:,}: "
                f"the time window alone holds more than that, so that pausing inputs does not help",
                hint="raise max_buffered_rows, or narrow the window of the join",
            )
        return Full(1, buffered)


def limited(config: PacingConfig, buffered: int, limit: int, growth: int) -> PacingConfig:
    """Pacing that keeps buffers within a limit.

    The budget ends where buffers would be full. When they are, the input that is behind is read chunk by
    chunk, since its stream time lets rows go, and the one that is ahead is paused.
    """
    if buffered >= limit:
        return replace(config, batch_rows=1, slack=0)
    return replace(config, batch_rows=max(1, min(config.batch_rows, (limit - buffered) // growth)))


def padding_due(now: int, last: int, newest: int, pad_after: int) -> bool:
    """Whether a step is due only because rows have waited for so long that they come out padded.

    Parameters
    ----------
    now, last
        The clock, and what it was at the last step.
    newest
        When the last rows that were admitted had arrived.
    pad_after
        How long a row waits.
    """
    if newest + pad_after <= last:
        return False
    return now >= min(newest + pad_after, last + max(pad_after // 4, 1))
