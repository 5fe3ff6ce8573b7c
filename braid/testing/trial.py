"""A trial of a program: its plan runs in this process over the newest rows of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from braid.core.columns import RAW_COLUMN
from braid.core.config import AppConfig
from braid.core.errors import BraidError, StoreError
from braid.core.times import SECOND, now_micros
from braid.eventtime.validity import valid_times
from braid.home.paths import Home
from braid.kernels.arrays import Ints
from braid.kernels.join.spec import JoinType
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.stages.base import LookupJoin, Plan
from braid.stores.lookup import LookupStore, enrich
from braid.testing.expressions import (
    ROW,
    FailedRowError,
    LookUp,
    NotEvaluatedError,
    arrow_type,
    evaluate,
)
from braid.testing.plan_run import Arriving, PlanRun
from braid.testing.prediction import Prediction, predict
from braid.testing.records import Typed, typed
from braid.testing.sample import SAMPLE_ROWS, Basis, Sample, newest


class NotTriedError(BraidError):
    """A trial cannot be done, which says nothing against the program."""


class TrialFailedError(BraidError):
    """The program fails on rows of its inputs."""


@dataclass(frozen=True)
class InputSample:
    """What was taken of an input.

    Parameters
    ----------
    rows, dead
        Rows, and how many of these are dead letters.
    rate, basis
        Rows per second, and what that is taken from.
    """

    rows: int
    dead: int
    rate: float
    basis: Basis


@dataclass(frozen=True, eq=False)
class Trial:
    """What a trial has come to.

    Parameters
    ----------
    prediction
        What to expect.
    inputs
        What was taken of the inputs, by category.
    outputs
        What each table would have stored, by its name, without anything being stored.
    """

    prediction: Prediction
    inputs: Mapping[str, InputSample]
    outputs: Mapping[str, pa.Table]


def try_plan(
    plan: Plan,
    home: Home,
    options: AppConfig,
    folder: Path,
    *,
    rows: int = SAMPLE_ROWS,
    now: int | None = None,
) -> Trial:
    """Run a plan over the newest rows of its inputs; nothing is written but to a folder.

    Parameters
    ----------
    plan, options
        What to try.
    home
        Where its inputs and lookup tables are.
    folder
        For what is written meanwhile; whoever calls removes it.
    rows
        Most rows of all inputs.
    now
        The wall clock, in microseconds.
    """
    now = now_micros() if now is None else now
    try:
        return _try(plan, home, options, folder, rows, now)
    except NotEvaluatedError as error:
        raise NotTriedError(error.what, where=error.where) from None


def _try(plan: Plan, home: Home, options: AppConfig, folder: Path, rows: int, now: int) -> Trial:
    slicers = [s for s in plan.stages if isinstance(s, SlicerStage) and not s.source.internal]
    samples = _samples(slicers, home, rows)
    read = {stage.name: typed(samples[stage.source.name].rows, stage.source) for stage in slicers}
    live = all(sample.is_live(now) for sample in samples.values())
    times = {s.name: _arrivals(s, read[s.name], samples[s.source.name], live, options, now) for s in slicers}
    arriving = {name: Arriving(one.rows, times[name]) for name, one in read.items()}
    run = PlanRun(plan, options, arriving, folder / "log", _look_up(home, plan, now), now)
    try:
        run.run()
    except FailedRowError as error:
        raise _failed(error, plan, samples) from None
    inputs = {}
    for stage in slicers:
        sample = samples[stage.source.name]
        rate, basis = _rate(sample, times[stage.name], now)
        inputs[sample.category] = InputSample(sample.rows.num_rows, read[stage.name].dead, rate, basis)
    prediction = predict(
        run, plan, options, {name: one.rate for name, one in inputs.items()}, folder / "sizes"
    )
    notes = [
        f"{name}: neither its commits nor its event times tell how many rows arrive"
        for name, one in inputs.items()
        if one.basis is Basis.NOTHING
    ]
    outputs = {stage.name: run.output(stage) for stage in plan.stages if stage.table is not None}
    return Trial(replace(prediction, notes=(*notes, *prediction.notes)), inputs, outputs)


def _samples(slicers: list[SlicerStage], home: Home, rows: int) -> dict[str, Sample]:
    log, found = home.log(), dict[str, Sample]()
    most = max(1, rows // len({stage.source.name for stage in slicers}))
    for stage in slicers:
        source = stage.source
        if not source.kind.connector.logged:
            raise NotTriedError(
                f"it reads {source.kind.value} {source.name!r}, and only categories are tried"
            )
        if source.name in found:
            _check_columns(stage, found[source.name])
            continue
        sample = newest(log.open(source.name), most) if log.has(source.name) else None
        if sample is None or not sample.rows.num_rows:
            raise NotTriedError(f"there are no rows yet in category {source.name!r}")
        _check_columns(stage, sample)
        found[source.name] = sample
    return found


def _check_columns(stage: SlicerStage, sample: Sample) -> None:
    """Raise if columns are read that a category of typed rows does not have."""
    existing = sample.rows.column_names
    unknown = [column.name for column in stage.source.columns if column.name not in existing]
    if unknown and existing != [RAW_COLUMN]:
        raise TrialFailedError(
            f"column {unknown[0]!r} does not exist; existing columns: {', '.join(existing)}",
            where=f"category {sample.category}",
        )


def _arrivals(
    stage: SlicerStage, read: Typed, sample: Sample, live: bool, options: AppConfig, now: int
) -> Ints:
    """When each row arrives: as its commit did, or of a backlog as soon as it had happened."""
    count, source = sample.rows.num_rows, stage.source
    if live:
        return np.maximum.accumulate(sample.arrivals())
    if source.time is None or source.time not in read.rows.column_names:
        return np.full(count, sample.walls[-1], np.int64)
    times = valid_times(read.rows[source.time], now, options.max_future)
    known = times.is_valid().to_numpy(zero_copy_only=False)
    if not known.any():
        return np.full(count, sample.walls[-1], np.int64)
    micros = times.drop_null().to_numpy(zero_copy_only=False)
    found = np.full(count, micros.min(), np.int64)
    found[read.rows[ROW].to_numpy()[known]] = micros
    return np.maximum.accumulate(found)


def _rate(sample: Sample, times: Ints, now: int) -> tuple[float, Basis]:
    """Rows per second, and what that is taken from."""
    if sample.is_live(now):
        return sample.rate(), Basis.COMMITS
    # The first and last rows may have times that have nothing to do with the others.
    low, high = np.percentile(times, [1, 99])
    if high <= low:
        return 0.0, Basis.NOTHING
    return 0.98 * len(times) / float(high - low) * SECOND, Basis.EVENT_TIMES


def _look_up(home: Home, plan: Plan, now: int) -> LookUp:
    """Looks up in the tables of a home; one that the plan is to make is empty."""
    store = LookupStore(home.root)
    written = {stage.sink.name for stage in plan.stages if stage.sink.kind.connector.keyed}

    def look_up(table: pa.Table, lookup: LookupJoin) -> pa.Table:
        inner = lookup.type is JoinType.INNER
        if lookup.table not in store.tables():
            if lookup.table not in written:
                raise NotTriedError(f"there is no lookup table {lookup.table!r}")
            for column in lookup.columns:
                table = table.append_column(column.name, pa.nulls(table.num_rows, arrow_type(column.type)))
            return table.slice(0, 0) if inner else table
        keys = evaluate(table, lookup.keys, None)
        arrays = {key.name: keys[key.name].combine_chunks() for key in lookup.keys}
        names = {column.name: column.column for column in lookup.columns}
        batch = _batch(table)
        found = pa.table(enrich(home.root, lookup.table, batch, arrays, names, inner=inner, now_us=now))
        for column in lookup.columns:
            place = found.column_names.index(column.name)
            found = found.set_column(place, column.name, found[column.name].cast(arrow_type(column.type)))
        return found

    def checked(table: pa.Table, lookup: LookupJoin) -> pa.Table:
        try:
            return look_up(table, lookup)
        except StoreError as error:
            raise NotTriedError(error.what, where=error.where) from None

    return checked


def _batch(table: pa.Table) -> pa.RecordBatch:
    """A table in one piece."""
    if not table.num_rows:
        return pa.RecordBatch.from_pylist([], table.schema)
    return table.combine_chunks().to_batches()[0]


def _failed(error: FailedRowError, plan: Plan, samples: Mapping[str, Sample]) -> TrialFailedError:
    """What the program fails with, and where the row is; not what is in it."""
    stage = plan.stage(error.where or "")
    place = f"in what {stage.name} gives"
    if isinstance(stage, SlicerStage) and stage.source.name in samples:
        place = samples[stage.source.name].place(error.row)
    return TrialFailedError(
        f"the program fails on rows that there are: {error.what}",
        where=f"{stage.title()}, {place}",
    )
