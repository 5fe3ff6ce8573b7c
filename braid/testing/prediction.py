"""What an application will do, from what its plan has done with a sample: rates, rows held, matches, log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from braid.core.columns import HASH, TIME
from braid.core.config import AppConfig
from braid.core.side import Side
from braid.core.times import DAY, SECOND
from braid.kernels.arrays import Mask
from braid.kernels.operator import INPUT
from braid.log import Log, write_file
from braid.log.records import seal_commit
from braid.plan.kinds.join import JoinStage
from braid.plan.kinds.operator import OperatorStage
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.physical.targets import CategoryTarget, target_of
from braid.plan.stages.base import Plan, Stage
from braid.plan.time_words import duration
from braid.testing.costs import COMMIT_SHARE, SHARD_STATE, checkpoint_bytes, memory_bytes
from braid.testing.coverage import Coverage, Times, bounded
from braid.testing.expressions import ROW
from braid.testing.plan_run import LEFT, RIGHT, OperatorOutcome, PlanRun

Floats = npt.NDArray[np.float64]
LEAST_ROWS = 30
"""Rows of which a share says something."""


@dataclass(frozen=True)
class StagePrediction:
    """What a stage will do.

    Parameters
    ----------
    rows_in, rows_out
        Rows per second.
    held
        Rows that it will hold, by input.
    match_rate
        Share of the rows that will have a match, by input, where it can be told.
    state
        Bytes of its state.
    log
        Bytes per day that it writes to the log.
    stateful
        Whether it keeps rows.
    """

    rows_in: float
    rows_out: float
    held: Mapping[str, float] = field(default_factory=dict)
    match_rate: Mapping[str, float] = field(default_factory=dict)
    state: float = 0.0
    log: float = 0.0
    stateful: bool = False


@dataclass(frozen=True)
class Prediction:
    """What an application will do.

    Parameters
    ----------
    stages
        By name.
    rows_in, rows_out
        Rows per second that it reads of its inputs, and that it stores in its tables.
    notes
        What could not be told, and why.
    """

    stages: Mapping[str, StagePrediction]
    rows_in: float
    rows_out: float
    notes: tuple[str, ...] = ()

    @property
    def rows_held(self) -> float:
        """Rows held by all stages."""
        return sum(sum(stage.held.values()) for stage in self.stages.values())

    @property
    def log_per_day(self) -> float:
        """Bytes that are added to the log in a day."""
        return sum(stage.log for stage in self.stages.values())

    @property
    def checkpoint(self) -> float:
        """Bytes of all checkpoints."""
        stateful = [stage for stage in self.stages.values() if stage.stateful]
        return checkpoint_bytes(len(self.stages), len(stateful), sum(stage.state for stage in stateful))

    def memory(self, *, pooled: bool = False) -> float:
        """Bytes of the driver with its workers; of a member of a pool, what it adds to them."""
        return memory_bytes(len(self.stages), self.rows_held, pooled=pooled)


def predict(
    run: PlanRun, plan: Plan, options: AppConfig, rates: Mapping[str, float], folder: Path
) -> Prediction:
    """Predict, from a run over a sample and the rates at which its categories arrive."""
    return _Predictor(run, plan, options, dict(rates), folder).predict()


class _Predictor:
    def __init__(
        self, run: PlanRun, plan: Plan, options: AppConfig, rates: dict[str, float], folder: Path
    ) -> None:
        self._run, self._plan, self._options, self._rates = run, plan, options, rates
        self._log = Log(folder)
        self._inputs = dict(rates)
        self._covered: dict[str, Coverage] = {}
        self._times: dict[str, Times] = {}
        self._notes: list[str] = []

    def predict(self) -> Prediction:
        stages = {}
        for stage in self._plan.stages:
            found = self._slicer(stage) if isinstance(stage, SlicerStage) else self._operator(stage)
            self._rates[stage.sink.name] = found.rows_out
            stages[stage.name] = replace(found, log=self._log_per_day(stage, found.rows_out))
        tables = [stage for stage in self._plan.stages if stage.table is not None]
        return Prediction(
            stages,
            sum(self._inputs.values()),
            sum(stages[stage.name].rows_out for stage in tables),
            tuple(dict.fromkeys(self._notes)),
        )

    # -- stages -----------------------------------------------------------------------------------

    def _slicer(self, stage: SlicerStage) -> StagePrediction:
        outcome, rate = self._run.slicers[stage.name], self._rates[stage.source.name]
        rows = outcome.table
        if stage.join_input is not None:
            micros = rows[TIME].combine_chunks()
            known = micros.is_valid().to_numpy(zero_copy_only=False)
            values = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False)
            times = self._times[stage.sink.name] = Times(rows[ROW].to_numpy(), values, known)
            before = self._covered.get(stage.source.name)
            self._covered[stage.sink.name] = times.coverage() if before is None else before
        share = rows.num_rows / outcome.rows_in if outcome.rows_in else 1.0
        return StagePrediction(rate, rate * share)

    def _operator(self, stage: Stage) -> StagePrediction:
        if isinstance(stage, JoinStage):
            return self._join(stage)
        assert isinstance(stage, OperatorStage)
        outcome, rate = self._run.operators[stage.name], self._rates[stage.input]
        times, covered = self._times[stage.input], self._covered[stage.input]
        judged = Coverage(covered.low + stage.keeps(), covered.high)
        weights = self._weights(stage, times, judged, stage.keeps())
        share = _per_row(outcome.table[LEFT], times, weights)
        self._covered[stage.sink.name] = judged
        held = self._held(outcome, {INPUT: (stage.input, stage.keeps())})
        return StagePrediction(rate, rate * share, held, {}, self._state(outcome, held), stateful=True)

    def _join(self, stage: JoinStage) -> StagePrediction:
        outcome = self._run.operators[stage.name]
        left, right = (self._times[name] for name in (stage.left, stage.right))
        lower, upper = bounded(stage.lower), bounded(stage.upper)
        here, there = self._covered[stage.left], self._covered[stage.right]
        width = upper - lower
        results = pa.concat_tables(outcome.results)
        pairs = results.filter(pc.and_(results[LEFT].is_valid(), results[RIGHT].is_valid()))
        rates: dict[str, float] = {}
        weights = {
            Side.LEFT: self._weights(stage, left, here.inner(there, lower, upper), width),
            Side.RIGHT: self._weights(stage, right, there.inner(here, -upper, -lower), width),
        }
        for side, times, column in ((Side.LEFT, left, LEFT), (Side.RIGHT, right, RIGHT)):
            if _enough(weights[side]):
                matched = _among(times, pairs[column])
                rates[side.value] = float((weights[side] * matched).sum() / weights[side].sum())
        rows = outcome.table
        padded = rows.filter(rows[LEFT].is_null())
        out = self._rates[stage.left] * _per_row(rows[LEFT], left, weights[Side.LEFT])
        out += self._rates[stage.right] * _per_row(padded[RIGHT], right, weights[Side.RIGHT])
        edge = Coverage(max(here.low, there.low), min(here.high, there.high))
        self._covered[stage.sink.name] = edge.shrunk(width)
        needed = width + self._options.slack
        inputs = {Side.LEFT.value: (stage.left, needed), Side.RIGHT.value: (stage.right, needed)}
        held = self._held(outcome, inputs)
        incoming = self._rates[stage.left] + self._rates[stage.right]
        return StagePrediction(incoming, out, held, rates, self._state(outcome, held), stateful=True)

    # -- figures ----------------------------------------------------------------------------------

    def _weights(self, stage: Stage, times: Times, judged: Coverage, window: int) -> Floats:
        """Which rows are judged; all, and a note, if no window lies in the sample."""
        weights = times.weights(judged)
        if _enough(weights):
            return weights
        self._notes.append(
            f"{stage.name}: its window of {duration(window)} is longer than what the newest rows cover, "
            "so that matches cannot be told, and rows out and rows held are estimates"
        )
        return np.zeros(len(weights))

    def _held(self, outcome: OperatorOutcome, inputs: Mapping[str, tuple[str, int]]) -> dict[str, float]:
        """Rows held by input, once as much time has passed as it keeps rows for."""
        held = {}
        last = outcome.held[-max(1, len(outcome.held) // 4) :]
        for name, (category, needed) in inputs.items():
            times = self._times[category]
            seen = [one.pending.get(name, 0) for one in last]
            usual = float(np.mean(seen)) if seen else 0.0
            micros = times.micros[times.known]
            span = int(micros.max() - micros.min()) if len(micros) else 0
            # Nearly all rows that have come are still held: more will be, until windows have passed.
            filling = bool(seen) and seen[-1] >= 0.8 * len(micros)
            if filling and 0 < span < needed:
                usual = max(usual, len(micros) * needed / span)
            held[name] = usual
        return held

    def _state(self, outcome: OperatorOutcome, held: Mapping[str, float]) -> float:
        last = outcome.held[-1] if outcome.held else None
        if last is None:
            return 0.0
        pending = sum(last.pending.values())
        more = sum(held.values()) / pending if pending else 1.0
        return last.state * max(1.0, more) + (self._options.shards - 1) * SHARD_STATE

    def _log_per_day(self, stage: Stage, rate: float) -> float:
        """Bytes that a stage adds to the log in a day: one commit of the usual size is written to see."""
        target = target_of(self._plan.application, stage, self._options)
        if not isinstance(target, CategoryTarget) or rate <= 0:
            return 0.0
        interval = max(SECOND // 20, round(COMMIT_SHARE * max(self._options.latency, self._options.trigger)))
        per_second = min(SECOND / interval, rate)
        found = self._run.slicers if isinstance(stage, SlicerStage) else self._run.operators
        table = found[stage.name].table
        names = [name for name in table.column_names if name not in (ROW, LEFT, RIGHT)]
        rows = table.select(names).slice(max(0, table.num_rows - max(1, round(rate / per_second))))
        if not rows.num_rows:
            return 0.0
        shards = target.shards if HASH in names else 1
        category = self._log.create(f"size.{stage.name}", rows.schema, shards, target.time_columns)
        entry = write_file(category, "size", rows.combine_chunks().to_batches(), self._options.chunk_rows)
        size = entry.size + len(seal_commit(0, [entry], {}, 0))
        return float(size * max(1.0, rate / per_second / rows.num_rows) * per_second * DAY / SECOND)


def _enough(weights: Floats) -> bool:
    return float(weights.sum()) >= LEAST_ROWS


def _among(times: Times, numbers: pa.ChunkedArray) -> Mask:
    """Which rows are among those of some numbers."""
    return np.isin(times.rows, numbers.drop_null().to_numpy())


def _per_row(numbers: pa.ChunkedArray, times: Times, weights: Floats) -> float:
    """How many results there are for each row that counts, or for each row if none does."""
    if not len(times.rows):
        return 0.0
    if not weights.any():
        return len(numbers.drop_null()) / len(times.rows)
    by_number = np.zeros(int(times.rows.max()) + 1)
    by_number[times.rows] = weights
    return float(by_number[numbers.drop_null().to_numpy()].sum() / weights.sum())
