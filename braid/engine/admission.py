"""Admission: what an operator takes in next, and the step that follows from it.

A runtime passes in the clock and what only it can know; everything else is in the log and in the offset, so
that a replayed micro-batch is the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from braid.core.config import AppConfig, stored_options
from braid.core.json_values import Json
from braid.core.times import MIN_TIME
from braid.engine.inputs import InputLog
from braid.engine.offsets import OperatorOffset
from braid.engine.waiting import Full, limited, padding_due
from braid.eventtime.offset import InputOffset, Offset
from braid.eventtime.pacing.config import PacingConfig
from braid.eventtime.pacing.decide import next_offset
from braid.eventtime.pacing.decision import Decision
from braid.kernels.step import Step

_FIRST_GROWTH = 8
"""A new operator is likely to begin with a backlog."""


@dataclass(frozen=True)
class AdmissionConfig:
    """How the inputs of an operator are admitted.

    Parameters
    ----------
    inputs
        The categories that it reads, by the names of its inputs.
    upper
        Of two inputs whose rows meet in a window: how far the second one is kept ahead of the first.
    options
        The application's options.
    propagated
        Inputs that carry the watermarks of an upstream join.
    disorder
        Inputs whose order is declared, with how far a record may be behind an earlier one.
    rescued
        Inputs whose late rows find their partners in the log.
    pad_after
        How long rows wait by the wall clock; None if they wait for stream time.
    """

    inputs: Mapping[str, str]
    upper: int | None
    options: AppConfig
    propagated: tuple[str, ...] = ()
    disorder: Mapping[str, int] = field(default_factory=dict)
    rescued: tuple[str, ...] = ()
    pad_after: int | None = None

    def pacing(self) -> PacingConfig:
        """How the inputs are paced."""
        return PacingConfig.of(
            self.options, self.inputs, self.upper, self.propagated, self.disorder, self.rescued
        )

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values; durations are microseconds."""
        return {
            "inputs": dict(self.inputs),
            "upper": self.upper,
            "options": self.options.model_dump(),
            "propagated": list(self.propagated),
            "disorder": dict(self.disorder),
            "rescued": list(self.rescued),
            "pad_after": self.pad_after,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> AdmissionConfig:
        """Read back what `to_json` gave."""
        read: dict[str, object] = dict(value)
        lists = {name: tuple(_list(value[name])) for name in ("propagated", "rescued")}
        return cls(**{**read, **lists, "options": stored_options(value["options"])})  # type: ignore[arg-type]


class Facts(NamedTuple):
    """What only the runtime knows when it asks for a decision.

    Parameters
    ----------
    draining
        Whether what is in the log is all there will be.
    buffered
        Rows that the operator buffers, as of its last step.
    patient
        Inputs for which there is more upstream, sliced or held by joins: they are not taken for idle.
    """

    draining: bool = False
    buffered: int = 0
    patient: tuple[str, ...] = ()


class Admitted(NamedTuple):
    """The offset to go on to, and how it came about; `offset` is the one before if there is nothing to do."""

    offset: OperatorOffset
    decision: Decision
    full: Full


class Admission:
    """Decides what an operator takes in next.

    Parameters
    ----------
    config
        How inputs are admitted.
    logs
        The inputs by name.
    pacing
        How to pace, if not as `config` says.
    """

    def __init__(
        self, config: AdmissionConfig, logs: Mapping[str, InputLog], pacing: PacingConfig | None = None
    ) -> None:
        self._config = config
        self._logs = logs
        self._pacing = config.pacing() if pacing is None else pacing
        self._since: int | None = None

    def initial(self, now: int) -> OperatorOffset:
        """Before the oldest chunks that are left."""
        inputs = {name: InputOffset(log.before_first(), MIN_TIME, now) for name, log in self._logs.items()}
        return OperatorOffset(Offset(inputs, _FIRST_GROWTH), now=now)

    def next(self, start: OperatorOffset, now: int, facts: Facts) -> Admitted | None:
        """What to admit after `start`; None if the operator is drained and nothing has come since.

        Silence of inputs is counted from the first call on, so that after an outage an input is not taken for
        idle while its writer is still starting.
        """
        self._since = now if self._since is None else self._since
        before = start
        if start.at.drained:
            if not any(log.more(start.at.inputs[name].position) for name, log in self._logs.items()):
                return None
            # What comes after a drain finds all windows closed: a new epoch begins.
            inputs = {name: InputOffset(one.position, MIN_TIME, now) for name, one in start.at.inputs.items()}
            before = OperatorOffset(Offset(inputs), start.epoch + 1)
        pacing, full, at = self._limited(before, facts)
        records = {name: log.records(at.inputs[name].needed) for name, log in self._logs.items()}
        decision = next_offset(at, records, pacing, now, draining=facts.draining, watching_since=self._since)
        if decision.offset is at and not self._due(before, now):
            return Admitted(start, decision, full)
        clock = max(now, before.now)
        return Admitted(OperatorOffset(decision.offset, before.epoch, clock, full), decision, full)

    def step(self, start: OperatorOffset, end: OperatorOffset) -> Step:
        """The step that leads from one offset to the next."""
        inputs = end.at.inputs
        seals = end.sealed is not None and end.sealed != start.sealed
        return Step(
            {
                name: log.between(start.at.inputs[name].position, inputs[name].position)
                for name, log in self._logs.items()
            },
            {name: inputs[name].stream_time for name in self._logs},
            0 if self._config.pad_after is None else end.now,
            end.epoch,
            seals,
            seals and end.settled,
        )

    def _limited(self, before: OperatorOffset, facts: Facts) -> tuple[PacingConfig, Full, Offset]:
        """How to pace with so many rows buffered, since when buffers are full, and where to go on from."""
        pacing = replace(self._pacing, patient=facts.patient)
        limit = self._config.options.max_buffered_rows
        if limit is None:
            return pacing, before.full, before.at
        full = before.full.after(facts.buffered, limit)
        pacing = limited(pacing, facts.buffered, limit, before.at.growth)
        # Full buffers take one chunk, whatever the budget had grown to.
        return pacing, full, replace(before.at, growth=1) if full.steps else before.at

    def _due(self, before: OperatorOffset, now: int) -> bool:
        """Whether rows have waited for long enough by the clock."""
        if self._config.pad_after is None or before.at.drained:
            return False
        newest = max(log.arrived(before.at.inputs[name].position) for name, log in self._logs.items())
        return padding_due(now, before.now, newest, self._config.pad_after)


def _list(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value
