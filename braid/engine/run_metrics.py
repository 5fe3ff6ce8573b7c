"""Collects what the micro-batches of a running application report, for its metrics and its status."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import NamedTuple

from braid.core.counters import Counters, difference
from braid.core.times import FAR, SECOND, iso_millis
from braid.home.counted import Counted
from braid.home.files import is_full
from braid.home.metrics import MicroBatch
from braid.home.pacing import read_pacing
from braid.home.paths import AppHome
from braid.home.status import InputStatus, Period, RunState, StageStatus, Status
from braid.home.totals import RunningTotals

MINUTES = (1, 5, 15)
"""Times over which rates are told."""
_SAMPLE_SECONDS = 5.0
"""Totals are remembered this often, so that a period is that much longer at most than it is said to be."""


class Progress(NamedTuple):
    """A micro-batch as Spark reports it: number, when it began, rows read, how long its phases took."""

    batch: int
    at: str
    rows: int
    duration_ms: Mapping[str, float]


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
    paced
        Whether the stage paces its inputs.
    reads
        The categories that it reads, by input: name, and event-time column if any.
    counted_by_spark
        Whether only Spark knows how many rows were read: those of files and topics, before a filter.
    trouble
        What keeps it from getting ahead, if anything does.
    """

    home: AppHome
    stage: str
    kind: str
    what: str = ""
    paced: bool = False
    reads: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    counted_by_spark: bool = False
    trouble: str | None = None
    last: MicroBatch | None = None
    _totals: RunningTotals | None = None
    _before: Counters = field(default_factory=Counters)
    _samples: deque[tuple[float, Counters]] = field(default_factory=deque)
    _sampling: Lock = field(default_factory=Lock)

    def begin(self) -> None:
        """Go on from what earlier runs have counted. The stage is not running yet."""
        self._totals = RunningTotals(self.home, self.stage)
        for counted in self._totals.waiting():
            self._totals.add(counted)
        self._totals.save()
        self._before = self._totals.value.counters
        self._samples = deque([(time.time(), self._before)])

    def expects(self) -> bool:
        """Whether a micro-batch is published that has not been taken."""
        return self._totals is not None and self._totals.expects()

    def take(self, reported: Iterable[Progress], *, final: bool = False) -> list[MicroBatch]:
        """Add the micro-batches that are done, those that Spark has reported and those before them.

        With `final`, all that are published: nothing more will be reported.
        """
        if self._totals is None:
            return []
        known = {one.batch: one for one in reported if "addBatch" in one.duration_ms}
        newest = max(known, default=-1)
        done = []
        if final or newest > self._totals.value.batch:
            for counted in self._totals.waiting():
                if final or counted.batch <= newest:
                    done.append(self._add(counted, known.get(counted.batch)))
        return done

    def save(self) -> None:
        """Make the totals durable; until then what was counted stays in the sink's files."""
        if self._totals is not None:
            self._totals.save()

    def _add(self, counted: Counted, progress: Progress | None) -> MicroBatch:
        if progress is not None and self.counted_by_spark and not counted.counts.files_in:
            counts, arrived = counted.counts, counted.counts.rows_in
            rows = max(progress.rows, arrived)
            counted = replace(counted, counts=replace(counts, rows_in=rows, filtered=rows - arrived))
        counts = counted.counts
        self.last = MicroBatch(
            stage=self.stage,
            kind=self.kind,
            batch=counted.batch,
            commit=counted.commit,
            at=iso_millis(round(counted.time * SECOND)) if progress is None else progress.at,
            time=counted.time,
            duration_ms={} if progress is None else dict(progress.duration_ms),
            match_rate=counts.input("left").match_rate,
            lag_ms=_lags(counts, time.time()),
            counters=counts,
        )
        assert self._totals is not None
        self._totals.add(counted)
        try:
            self.last.append(self.home.metrics_file(self.stage))
        except OSError as error:
            if not is_full(error):
                raise
        return self.last

    def status(self) -> StageStatus:
        """The stage as it stands."""
        pacing = read_pacing(self.home.control_file(self.stage, "pacing")) if self.paced else None
        totals = None if self._totals is None else self._totals.value
        counted = Counters() if totals is None else totals.counters
        last = Counters() if self.last is None else self.last.counters
        doing = {} if pacing is None else pacing.inputs
        return StageStatus(
            kind=self.kind,
            what=self.what,
            totals=counted,
            since=0.0 if totals is None else totals.since,
            run=difference(counted, self._before),
            recent=self._periods(counted, time.time()),
            inputs={
                name: InputStatus(
                    category=category,
                    time=column,
                    doing=doing.get(name),
                    stream_time=last.input(name).stream_time,
                )
                for name, (category, column) in self.reads.items()
            },
            last=self.last,
            pacing=pacing,
            trouble=self.trouble,
        )

    def _periods(self, counted: Counters, now: float) -> tuple[Period, ...]:
        """What was counted in the last minutes. Several threads ask for the status."""
        with self._sampling:
            if not self._samples:
                return ()
            if now - self._samples[-1][0] >= _SAMPLE_SECONDS:
                self._samples.append((now, counted))
            while len(self._samples) > 1 and self._samples[1][0] <= now - MINUTES[-1] * 60:
                self._samples.popleft()
            samples = list(self._samples)
        found = []
        for minutes in MINUTES:
            start = now - minutes * 60
            at, before = next((one for one in reversed(samples) if one[0] <= start), samples[0])
            seconds = max(0.0, round(now - at, 3))
            found.append(Period(minutes=minutes, seconds=seconds, counters=difference(counted, before)))
        return tuple(found)


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
        status.write(self.home.status_file, durable=False)
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


def _lags(counts: Counters, now: float) -> dict[str, int | None]:
    """How far stream times are behind the wall clock."""
    return {name: _lag(counted.stream_time, now) for name, counted in counts.inputs.items()}


def _lag(at: int | None, now: float) -> int | None:
    return round((now * 1_000_000 - at) / 1000) if at is not None and abs(at) < FAR else None
