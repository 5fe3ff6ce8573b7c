"""Totals of a stage over all its runs: what its micro-batches have counted, each of them once.

A sink leaves one file per micro-batch (`braid.home.counted`). The driver adds it to the totals, writes these
with the number of the last micro-batch that is in them, and only then removes the file. So whoever is killed
in between, a file is either still to be added, or known by its number to be in the totals already.
"""

from __future__ import annotations

import time

from pydantic import Field

from braid.core.counters import Counters, merge
from braid.core.errors import RunError
from braid.home.counted import Counted, counted_file, counted_files
from braid.home.files import read_json
from braid.home.paths import AppHome
from braid.home.records import CountersField, Record


class StageTotals(Record):
    """What adds up, as long as a stage has its checkpoint.

    Parameters
    ----------
    checkpoint
        The checkpoint, by the id that Spark gave it; None before the first micro-batch.
    first, batch
        The first micro-batch that is counted, and the last one. The first is not 0 if the checkpoint is from
        a version that kept no totals.
    since
        When counting began, in seconds.
    counters
        What has been counted.
    """

    checkpoint: str | None = None
    first: int = 0
    batch: int = -1
    since: float = 0.0
    counters: CountersField = Field(default_factory=Counters)

    def plus(self, counted: Counted) -> StageTotals:
        """With a micro-batch after the last one."""
        first = counted.batch if self.batch < 0 else self.first
        counters = merge([self.counters, counted.counts.cumulative()])
        return self.model_copy(update={"first": first, "batch": counted.batch, "counters": counters})


class RunningTotals:
    """The totals of a stage while it runs.

    They begin anew with the stage's checkpoint. Opened before the stage is started.
    """

    def __init__(self, home: AppHome, stage: str) -> None:
        self._home, self._stage = home, stage
        here = _checkpoint_id(home, stage)
        stored = StageTotals.read(home.totals_file(stage))
        if here is None or (stored is not None and stored.checkpoint not in (None, here)):
            home.totals_file(stage).unlink(missing_ok=True)
            for path in counted_files(home.counts_folder, stage).values():
                path.unlink(missing_ok=True)
            stored = None
        for path in home.counts_folder.glob(f".{stage}.*.json.*"):
            # A sink was killed while it was writing.
            path.unlink(missing_ok=True)
        self.value = stored or StageTotals(since=time.time())
        self._saved = self.value.batch

    def expects(self) -> bool:
        """Whether the next micro-batch is published."""
        return counted_file(self._home.counts_folder, self._stage, self.value.batch + 1).exists()

    def waiting(self) -> list[Counted]:
        """Micro-batches that are published and not yet in the totals."""
        return _waiting(self._home, self._stage, self.value.batch)

    def add(self, counted: Counted) -> None:
        """Add a micro-batch; nothing if it is in already."""
        if counted.batch > self.value.batch:
            self.value = self.value.plus(counted)

    def save(self) -> None:
        """Make the totals durable, then remove the files that are in them."""
        if self.value.batch != self._saved:
            if self.value.checkpoint is None:
                here = _checkpoint_id(self._home, self._stage)
                self.value = self.value.model_copy(update={"checkpoint": here})
            self.value.write(self._home.totals_file(self._stage))
            self._saved = self.value.batch
        for batch, path in counted_files(self._home.counts_folder, self._stage).items():
            if batch <= self._saved:
                path.unlink(missing_ok=True)


def read_totals(home: AppHome, stage: str) -> StageTotals | None:
    """The totals of a stage that nobody runs, with what its last run has not added any more."""
    totals = StageTotals.read(home.totals_file(stage))
    waiting = _waiting(home, stage, -1 if totals is None else totals.batch)
    if totals is None and not waiting:
        return None
    totals = totals or StageTotals()
    for counted in waiting:
        totals = totals.plus(counted)
    return totals


def _waiting(home: AppHome, stage: str, after: int) -> list[Counted]:
    files = counted_files(home.counts_folder, stage)
    found = (Counted.read(path) for batch, path in files.items() if batch > after)
    return [counted for counted in found if counted is not None]


def _checkpoint_id(home: AppHome, stage: str) -> str | None:
    """What Spark calls the checkpoint of a stage; None if there is none."""
    path = home.checkpoint(stage) / "metadata"
    value = read_json(path)
    if value is None:
        return None
    if not isinstance(value, dict) or "id" not in value:
        raise RunError("Spark's checkpoint has no id", where=str(path), hint="restore the file")
    return str(value["id"])
