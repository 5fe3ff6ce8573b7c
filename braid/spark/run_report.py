"""What a run tells of itself: metrics of every micro-batch, the status, and what follows from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from braid.core.config import AppConfig
from braid.core.errors import RunError
from braid.core.logging import Log
from braid.engine.cadence import Cadences
from braid.engine.needs import RunNeeds
from braid.engine.run_metrics import Progress, RunStatus, StageMetrics
from braid.engine.silences import Silences
from braid.home.files import is_full
from braid.home.lease import check_lease
from braid.home.metrics import MicroBatch
from braid.home.paths import AppHome
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.physical.slicing import may_leave_out
from braid.plan.physical.targets import relay_name
from braid.plan.stages.base import Plan, Stage
from braid.spark.run_queries import RunQueries
from braid.spark.supervised import Numbered

_STATUS_SECONDS = 1.0
"""How old the status may be."""


@dataclass
class RunReport:
    """Takes what queries report.

    Parameters
    ----------
    home, plan, options
        Of the application.
    cadences
        What follows from how long micro-batches take; None if nothing does.
    on_progress
        Called with the metrics of every micro-batch.
    holder
        Of the application's lease, once this run has it: what a later holder says is not overwritten.
    metrics, needs, status
        What is told of stages, of what they need of the log, and of the run.
    """

    home: AppHome
    plan: Plan
    options: AppConfig
    cadences: Cadences | None
    on_progress: Callable[[MicroBatch], None] | None
    holder: str | None = None
    metrics: dict[str, StageMetrics] = field(init=False)
    needs: RunNeeds = field(init=False)
    status: RunStatus = field(init=False)
    _written: float = 0.0
    _full: bool = False

    def __post_init__(self) -> None:
        self.metrics = {stage.name: _metrics(self.home, stage) for stage in self.plan.stages}
        self.needs = RunNeeds(self.home, self.plan)
        self.status = RunStatus(self.home)

    def begin(self) -> None:
        """Go on from what earlier runs have told. Nothing runs yet."""
        self.needs.write()
        for metrics in self.metrics.values():
            metrics.begin()
        self.status.write(self.metrics)
        if self.cadences is not None:
            self.cadences.tell()

    def check(self) -> None:
        """Raise `RunError` if another run has taken the place of this one."""
        if self.holder is not None:
            check_lease(self.home.lease_file, self.holder)

    def turn(self, queries: RunQueries, silences: Silences, log: Log) -> None:
        """Take what is new. On a full disk, metrics and status are not written, which is no reason to end."""
        try:
            self.collect(queries, silences)
        except OSError as error:
            if not is_full(error):
                raise
            if not self._full:
                log.warning("status not written: the disk is full", path=self.home.status_file)
            self._full = True
        else:
            self._full = False

    def collect(self, queries: RunQueries, silences: Silences) -> None:
        """Take what is new, and write the status if that, or the time, has come."""
        self.check()
        changed = False
        for name, query in list(queries.stages.items()):
            reports = query.progress(expected=self.metrics[name].expects())
            done = self._take(name, reports)
            changed = changed or bool(done)
            by_batch = {one.batch: one for one in done}
            for report in reports:
                self._note_needs(name, report, by_batch.get(report.batch))
        for stage in self.plan.stages:
            relay = queries.relays.get(stage.name)
            for report in () if relay is None else relay.progress(expected=False):
                self._note_needs(relay_name(stage), report, None)
        if changed or time.time() - self._written > _STATUS_SECONDS:
            self._written = time.time()
            for metrics in self.metrics.values():
                metrics.save()
            status = self.status.write(self.metrics)
            if self.options.idle == "wait":
                silences.tell(status.stages)
            if self.cadences is not None:
                self.cadences.tell()

    def end(self) -> None:
        """Take and write what is left. Java may be gone: what sinks have published is in files."""
        try:
            self.check()
        except RunError:
            return  # the run ends with the same error, if with no other
        for metrics in self.metrics.values():
            metrics.take((), final=True)
            metrics.save()
        self.status.write(self.metrics)
        self.needs.write()

    def _take(self, stage: str, reports: Sequence[Numbered]) -> list[MicroBatch]:
        """The micro-batches of a stage that are done."""
        done = self.metrics[stage].take(
            Progress(batch, one["timestamp"], one["numInputRows"], one["durationMs"])
            for batch, one in reports
        )
        for one in done:
            if self.cadences is not None:
                self.cadences.took(stage, one.duration_ms)
            if self.on_progress is not None:
                self.on_progress(one)
        return done

    def _note_needs(self, query: str, progress: Numbered, done: MicroBatch | None) -> None:
        """Note what a micro-batch, if it was one, has left for the log to keep."""
        batch, report = progress
        if "addBatch" in report["durationMs"]:
            start = report["sources"][0]["startOffset"]
            counts, written = (None, -1) if done is None else (done.counters, done.commit)
            self.needs.take(query, batch, start, counts, time.time(), written)


def _metrics(home: AppHome, stage: Stage) -> StageMetrics:
    what = stage.summary() + ", lookup" * bool(stage.lookups)
    files = isinstance(stage, SlicerStage) and not stage.categories()
    return StageMetrics(
        home,
        stage.name,
        stage.kind,
        f"{what} to a lookup table" if stage.sink.kind.connector.keyed else what,
        stage.stateful,
        stage.categories(),
        isinstance(stage, SlicerStage) and files and may_leave_out(stage),
    )
