"""Collects what the micro-batches of a running application report, for its metrics and its status."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from braid.core.counters import Counters, merge
from braid.core.times import FAR
from braid.engine.counters import Counted
from braid.home.metrics import MicroBatch
from braid.home.pacing import read_pacing
from braid.home.paths import AppHome
from braid.home.status import RunState, StageStatus, Status


@dataclass
class StageMetrics:
    """Collects what a stage's micro-batches report, from Spark's progress and from its sink.

    Parameters
    ----------
    home, stage
        The application and its stage.
    kind
        `slicer` or `join`.
    what
        The stage in a few words.
    trouble
        What keeps it from getting ahead, if anything does.
    """

    home: AppHome
    stage: str
    kind: str
    what: str = ""
    trouble: str | None = None
    seen: int = -1
    last: MicroBatch | None = None
    totals: Counters = field(default_factory=Counters)

    def take(self, batch: int, at: str, rows: int, duration_ms: Mapping[str, float]) -> MicroBatch | None:
        """Add a micro-batch that Spark reports; None if it is known, or was no micro-batch.

        Parameters
        ----------
        batch
            Its number.
        at
            When it began.
        rows
            Rows that Spark has read, for stages that do not count them themselves.
        duration_ms
            How long its phases took.
        """
        if batch <= self.seen:
            return None
        counted = Counted.take(self.home.counts_folder, self.stage, batch)
        if counted is None:
            return None
        self.seen = batch
        counts = replace(counted.counts, rows_in=_rows_in(counted.counts, rows))
        self.last = MicroBatch(
            stage=self.stage,
            kind=self.kind,
            batch=counted.batch,
            commit=counted.commit,
            at=at,
            time=counted.time,
            duration_ms=dict(duration_ms),
            match_rate=_match_rate(counts) if self.kind == "join" else None,
            lag_ms=_lags(counts, time.time()),
            counters=counts,
        )
        self.totals = merge([self.totals, counts.cumulative()])
        self.last.append(self.home.metrics_file(self.stage))
        return self.last

    def status(self) -> StageStatus:
        """The stage as it stands."""
        pacing = read_pacing(self.home.control_file(self.stage, "pacing")) if self.kind == "join" else None
        return StageStatus(
            kind=self.kind,
            what=self.what,
            totals=self.totals,
            last=self.last,
            pacing=pacing,
            trouble=self.trouble,
        )


@dataclass
class RunStatus:
    """The state of a running application, and the file that tells of it."""

    home: AppHome
    state: RunState = RunState.STARTING
    error: str | None = None
    started: float = field(default_factory=time.time)
    troubles: tuple[str, ...] = ()

    def write(self, stages: Mapping[str, StageMetrics]) -> Status:
        """Write the status file, and return what it says."""
        status = self.now(stages)
        status.write(self.home.status_file)
        return status

    def now(self, stages: Mapping[str, StageMetrics]) -> Status:
        """The status as it stands."""
        return Status(
            application=self.home.name,
            state=self.state,
            error=self.error,
            pid=os.getpid(),
            started=self.started,
            updated=time.time(),
            stages={name: metrics.status() for name, metrics in stages.items()},
            troubles=self.troubles,
        )


def _rows_in(counts: Counters, read: int) -> int:
    """Rows taken in; what Spark has read are references, file names, or indeed the rows."""
    if counts.inputs:
        return sum(counted.rows for counted in counts.inputs.values())
    return counts.rows_in if counts.files_in else read


def _match_rate(counts: Counters) -> float | None:
    """Share of decided left rows that had a match."""
    left = counts.input("left")
    return None if left.decided <= 0 else max(0.0, 1 - left.unmatched / left.decided)


def _lags(counts: Counters, now: float) -> dict[str, int | None]:
    """How far stream times are behind the wall clock."""
    return {name: _lag(counted.stream_time, now) for name, counted in counts.inputs.items()}


def _lag(at: int | None, now: float) -> int | None:
    return round((now * 1_000_000 - at) / 1000) if at is not None and abs(at) < FAR else None
