"""What a simulated join did: matches, buffered rows, late rows and delays, row by row and over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braid.core.config import AppConfig
from braid.core.counters import Counters
from braid.core.times import MAX_TIME, MIN_TIME
from braid.kernels.arrays import Ints, Mask
from braid.kernels.lost import Loss
from braid.testing.accuracy import Accuracy


@dataclass(frozen=True, eq=False)
class Timeline:
    """The join, micro-batch by micro-batch: arrays of equal length.

    Parameters
    ----------
    wall_time
        When the micro-batch ran.
    left_time, right_time
        Stream times after it.
    pending_left, pending_right
        Rows held after it: left rows that are not decided, and the right window.
    rows_left, rows_right
        Rows admitted.
    late_left, late_right
        Rows admitted of whose window a part had left memory.
    rescued
        Matches that were found in the log.
    """

    wall_time: Ints
    left_time: Ints
    right_time: Ints
    pending_left: Ints
    pending_right: Ints
    rows_left: Ints
    rows_right: Ints
    late_left: Ints
    late_right: Ints
    rescued: Ints

    def live(self) -> Mask:
        """The micro-batches in which both inputs had a stream time and neither had ended."""
        known = np.minimum(self.left_time, self.right_time) > MIN_TIME
        return known & (np.maximum(self.left_time, self.right_time) < MAX_TIME)


@dataclass(frozen=True, eq=False)
class Simulation:
    """What a simulated join did.

    Parameters
    ----------
    bounds, options, interval
        The join's window, the application's options, and the simulated time between commits.
    matched, batch_matched
        For each left row, whether it was matched: by the streaming join, and by the batch join with the
        same window.
    output_delay
        For each left row, the time from its arrival to its first row of output, in microseconds; -1 if it
        had none (unmatched in an inner join).
    left, right
        Accuracy and delay of the two stream times, chunk by chunk.
    timeline
        The join, micro-batch by micro-batch.
    window_rows
        For each micro-batch, the rows of the right stream that happened between the beginning of the join's
        window and its end plus slack, at that left stream time: what the right window may hold.
    counts
        The kernels' counters, over all shards and micro-batches.
    """

    bounds: tuple[int, int]
    options: AppConfig
    interval: int
    matched: Mask
    batch_matched: Mask
    output_delay: Ints
    left: Accuracy
    right: Accuracy
    timeline: Timeline
    window_rows: Ints
    counts: Counters

    @property
    def match_rate(self) -> float:
        """Share of left rows that were matched."""
        return float(self.matched.mean())

    @property
    def batch_match_rate(self) -> float:
        """Share of left rows that a batch join with the same window matches."""
        return float(self.batch_matched.mean())

    @property
    def recall(self) -> float:
        """Share of the left rows matched by the batch join that the streaming join matched too."""
        wanted = int(self.batch_matched.sum())
        return float((self.matched & self.batch_matched).sum()) / wanted if wanted else 1.0

    @property
    def late_rows(self) -> int:
        """Rows of both sides that arrived when a part of their window had left memory."""
        return sum(counted.late for counted in self.counts.inputs.values())

    @property
    def rescued(self) -> int:
        """Matches that were found in the log."""
        return self.counts.rescued

    @property
    def missed(self) -> int:
        """Left rows that the batch join matches and the streaming join did not."""
        return int((self.batch_matched & ~self.matched).sum())

    @property
    def lost(self) -> dict[str, int]:
        """Rows counted as lost, by reason."""
        found: dict[str, int] = {}
        for side, counted in self.counts.inputs.items():
            for loss, rows in counted.lost.items():
                reason = Loss(loss).reason(side)
                found[reason] = found.get(reason, 0) + rows
        return found

    @property
    def peak_pending(self) -> int:
        """Most left rows that waited for a decision at once."""
        return int(self.timeline.pending_left.max(initial=0))

    @property
    def peak_window(self) -> int:
        """Most rows that the right window held."""
        return int(self.timeline.pending_right.max(initial=0))

    @property
    def window_limit(self) -> int:
        """Most rows of the right stream within window plus slack, while the join ran."""
        return int(self.window_rows[self.timeline.live()].max(initial=0))

    def output_delay_percentile(self, percent: float, *, matched: bool = True) -> float:
        """A percentile of the output delay of the rows that were matched, or were not, in microseconds."""
        chosen = self.output_delay[(self.matched == matched) & (self.output_delay >= 0)]
        return float(np.percentile(chosen, percent)) if len(chosen) else 0.0
