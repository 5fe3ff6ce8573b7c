"""An operator in this process, on a real log: the same engine code that Spark's sources and workers run."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from braid.core.counters import Counters, merge
from braid.engine.admission import Admission, AdmissionConfig, Admitted, Facts
from braid.engine.inputs import InputLog
from braid.engine.notes import Notes
from braid.engine.offsets import OperatorOffset
from braid.engine.savepoints import SavedShard, Savepoint
from braid.engine.stepper import OperatorConfig, Stepper, forget_run, unpack_state
from braid.eventtime.pacing.config import PacingConfig
from braid.kernels.operator import OperatorSpec
from braid.kernels.step import Step
from braid.log.layout import shard_range
from braid.log.shared import reader


@dataclass
class MemoryCell:
    """The state of a shard, in memory."""

    value: bytes | None = None

    def get(self) -> bytes | None:
        """What was put last."""
        return self.value

    def put(self, value: bytes) -> None:
        """Keep a value instead."""
        self.value = value


@dataclass
class LocalOperator:
    """Runs an operator, micro-batch by micro-batch.

    Parameters
    ----------
    root
        Root of the log.
    admission
        How inputs are admitted.
    operator
        What runs.
    shards
        Into how many ranges of hashes it is split.
    pacing
        How to pace, if not as `admission` says.
    offset, states, counts
        Where another one has stopped, to go on from there, and what its last step has counted.
    savepoint
        Path of a savepoint to begin with.
    """

    root: str
    admission: AdmissionConfig
    operator: OperatorSpec
    shards: int = 1
    pacing: PacingConfig | None = None
    offset: OperatorOffset | None = None
    states: list[MemoryCell] = field(default_factory=list)
    counts: Counters | None = None
    savepoint: str | None = None

    def __post_init__(self) -> None:
        self.states = self.states or [MemoryCell() for _ in range(self.shards)]
        logs = {name: InputLog(reader(self.root, one)) for name, one in self.admission.inputs.items()}
        self._admission = Admission(self.admission, logs, self.pacing)
        if self.offset is None and self.savepoint is not None:
            self.offset = Savepoint.read(Path(self.savepoint)).offset
        self._config = OperatorConfig(
            self.root,
            self.admission.inputs,
            self.operator,
            tuple(shard_range(shard, self.shards) for shard in range(self.shards)),
            uuid.uuid4().hex,
            savepoint=self.savepoint,
        )
        weakref.finalize(self, forget_run, self._config.run)

    def initial(self, now: int) -> OperatorOffset:
        """Where an operator begins that has no offset yet."""
        return self._admission.initial(now)

    def step(self, start: OperatorOffset, end: OperatorOffset) -> Step:
        """The step that leads from one offset to the next."""
        return self._admission.step(start, end)

    def advance(self, now: int, facts: Facts | None = None) -> tuple[Admitted | None, Step | None]:
        """One decision, and the step that follows from it; no step if there is nothing to do."""
        before = self.initial(now) if self.offset is None else self.offset
        admitted = self._admission.next(before, now, facts or Facts())
        if admitted is None or admitted.offset is before:
            return admitted, None
        self.offset = admitted.offset
        return admitted, self.step(before, admitted.offset)

    def save(self, path: Path) -> None:
        """Write a savepoint of what has been done."""
        assert self.offset is not None
        saved = []
        for hashes, cell in zip(self._config.ranges, self.states, strict=True):
            stored = cell.get()
            assert stored is not None
            _, epoch, state = unpack_state(stored)
            saved.append(SavedShard(hashes, epoch, state))
        Savepoint.of("", 0, self.offset, saved).write(path)

    def rescaled(self, shards: int, path: Path) -> LocalOperator:
        """Go on with other shards, from a savepoint that is written to a path."""
        if not any(cell.get() for cell in self.states):
            return replace(self, shards=shards, states=[])  # no step since the last savepoint, if any
        self.save(path)
        return replace(self, shards=shards, states=[], savepoint=str(path))

    def seal(self, name: str, *, settles: bool = False) -> Step:
        """The step that makes a savepoint."""
        assert self.offset is not None
        before, self.offset = self.offset, self.offset.again(name, settled=settles)
        return self.step(before, self.offset)

    def needed(self, name: str) -> int:
        """The lowest commit of an input that the operator still needs: to go on, or to be opened again."""
        if self.offset is None or self.counts is None:
            return 0
        return self.offset.needed(name, self.counts.input(name).oldest)

    def results(self, step: Step) -> Mapping[int, tuple[pa.Table | None, Notes]]:
        """Take a step with every shard: rows, if there are any, and notes."""
        text = step.to_text()
        found = {shard: self._shard(shard, text) for shard in range(self.shards)}
        self.counts = merge(counts for _, notes in found.values() for counts in notes.counts)
        return found

    def _shard(self, shard: int, text: str) -> tuple[pa.Table | None, Notes]:
        notes = Notes()
        batches = Stepper(self._config, self.states[shard]).step(shard, text)
        rows = list(notes.strip(iter(batches)))
        return pa.Table.from_batches(rows) if rows else None, notes
