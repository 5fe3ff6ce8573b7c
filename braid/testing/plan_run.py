"""A whole plan in this process: slicers by DuckDB, operators by the engine on a log of their own, sinks kept.

Time is simulated: rows are given with when they arrive, are cut into ticks of that, and every operator admits
what pacing lets it, tick by tick. In the end everything is drained, as if the inputs had ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from braid.core.columns import HASH, TIME
from braid.core.config import AppConfig
from braid.core.counters import Counters
from braid.core.side import Side
from braid.core.times import SECOND
from braid.engine.admission import AdmissionConfig, Facts
from braid.engine.output_watermarks import OperatorWatermarks
from braid.eventtime.validity import valid_times
from braid.kernels.arrays import Ints
from braid.kernels.join.spec import OutputColumn
from braid.log import Category, Log, hash_rows, write_file
from braid.plan.kinds.join import JoinStage
from braid.plan.kinds.operator import OperatorStage
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.physical.operation import Facts as PlanFacts
from braid.plan.physical.stepping import Stepping
from braid.plan.stages.base import Plan, Stage
from braid.testing.expressions import ROW, FailedRowError, LookUp, evaluate, sliced, with_lookups
from braid.testing.runtime import LocalOperator

LEFT, RIGHT = "__left", "__right"
"""Numbers of the rows that a result is made of, in what the two slicers of a join read; of other operators,
`LEFT` is that of their input."""
TICKS = 100
"""In how many micro-batches rows arrive, at most."""
_STALLED = 50
"""Decisions without a step after which a drain would never end."""


@dataclass(frozen=True, eq=False)
class Arriving:
    """Rows that a slicer reads.

    Parameters
    ----------
    rows
        Typed, with their numbers as `__row`.
    times
        When the row of each number arrives, in microseconds; never earlier than the one before.
    """

    rows: pa.Table
    times: Ints


@dataclass
class SlicerOutcome:
    """What a slicer has done.

    Parameters
    ----------
    rows_in, rows
        Rows read, and written with their numbers as `__row`.
    """

    rows_in: int = 0
    rows: list[pa.Table] = field(default_factory=list)

    @property
    def table(self) -> pa.Table:
        """All that was written."""
        return pa.concat_tables(self.rows)


@dataclass(frozen=True)
class Held:
    """What an operator holds after a tick.

    Parameters
    ----------
    pending
        Rows by input.
    state
        Bytes of its state.
    """

    pending: Mapping[str, int]
    state: int


@dataclass
class OperatorOutcome:
    """What an operator has done.

    Parameters
    ----------
    rows
        Rows written, with the numbers of the rows that they are made of.
    results
        Those numbers of all that has left the kernel, before lookups and filter.
    held
        What it held after each tick; the drain is not among them.
    """

    rows: list[pa.Table] = field(default_factory=list)
    results: list[pa.Table] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)

    @property
    def table(self) -> pa.Table:
        """All that was written."""
        return pa.concat_tables(self.rows)


@dataclass
class _Input:
    """The category that a slicer writes for an operator."""

    category: Category
    commits: int = 0


class PlanRun:
    """Runs a plan once.

    Parameters
    ----------
    plan, options
        What to run.
    arriving
        By name, the rows for each slicer that reads no other stage.
    folder
        For the log of this run; whoever calls removes it.
    look_up
        How to look up.
    now
        The wall clock, by which event times are too far in the future.
    """

    def __init__(
        self,
        plan: Plan,
        options: AppConfig,
        arriving: Mapping[str, Arriving],
        folder: Path,
        look_up: LookUp,
        now: int,
    ) -> None:
        self._plan, self._options, self._arriving = plan, options, arriving
        self._root, self._look_up, self._wall = str(folder), look_up, now
        self._log = Log(folder)
        self._inputs: dict[str, _Input] = {}
        self._operators: dict[str, tuple[Stage, Stepping, LocalOperator]] = {}
        self.slicers = {s.name: SlicerOutcome() for s in plan.stages if isinstance(s, SlicerStage)}
        self.operators = {s.name: OperatorOutcome() for s in plan.stages if s.stateful}

    def run(self) -> None:
        """Let everything arrive, and drain."""
        parts, (begin, end) = self._sliced(), self._span()
        interval = max(SECOND, -(-(end - begin) // TICKS))
        for stage in self._plan.stages:
            if isinstance(stage, SlicerStage):
                self._prepare(stage, parts)
            else:
                self._open(stage, interval)
        numbered = {name: self._arriving[name].times[table[ROW].to_numpy()] for name, table in parts.items()}
        now = begin - 1
        while now < end:
            before, now = now, max(now, begin) + interval
            for name, table in parts.items():
                low, high = np.searchsorted(numbered[name], [before, now], side="right")
                if high > low:
                    self._emit(self._slicer(name), table.slice(low, high - low), now, {})
            for name in self._operators:
                self._advance(name, now, draining=False)
                self._note(name)
        for name in self._operators:
            self._advance(name, now + interval, draining=True)

    def output(self, stage: Stage) -> pa.Table:
        """What a stage has written, without numbers."""
        found = self.slicers if isinstance(stage, SlicerStage) else self.operators
        return found[stage.name].table.select([column.name for column in stage.columns])

    # -- slicers ----------------------------------------------------------------------------------

    def _slicer(self, name: str) -> SlicerStage:
        found = self._plan.stage(name)
        assert isinstance(found, SlicerStage)
        return found

    def _sliced(self) -> dict[str, pa.Table]:
        """What slicers of external inputs make of all rows, in order of arrival."""
        found = {}
        for name, arriving in self._arriving.items():
            self.slicers[name].rows_in = arriving.rows.num_rows
            found[name] = self._slice(self._slicer(name), arriving.rows).sort_by(ROW)
        return found

    def _slice(self, stage: SlicerStage, rows: pa.Table) -> pa.Table:
        try:
            table = sliced(stage, rows, self._look_up, [ROW])
        except FailedRowError as error:
            number = rows[ROW][error.row].as_py() if error.row < rows.num_rows else 0
            raise FailedRowError(error.what, where=stage.name, row=number) from None
        if stage.join_input is None:
            return table
        times = valid_times(table[TIME], self._wall, self._options.max_future)
        table = table.set_column(table.column_names.index(TIME), TIME, times)
        keys = [table[key.name].combine_chunks() for key in stage.keys]
        hashes = hash_rows(keys) if keys else np.zeros(table.num_rows, np.int64)
        return table.append_column(HASH, pa.array(hashes, pa.int64()))

    def _span(self) -> tuple[int, int]:
        times = [one.times for one in self._arriving.values() if len(one.times)]
        return (min(int(t[0]) for t in times), max(int(t[-1]) for t in times)) if times else (0, 0)

    def _prepare(self, stage: SlicerStage, parts: Mapping[str, pa.Table]) -> None:
        """Make the category of a slicer that feeds an operator; its columns follow from its expressions."""
        if stage.name in parts:
            nothing = parts[stage.name].slice(0, 0)
        else:
            columns = [column.name for column in stage.source.columns]
            empty = self._written(stage.source.name).select(columns)
            nothing = self._slice(stage, empty.append_column(ROW, pa.array([], pa.int64())))
        self.slicers[stage.name].rows.append(nothing)
        if stage.join_input is not None:
            category = self._log.create(stage.sink.name, nothing.schema, 1)
            self._inputs[stage.sink.name] = _Input(category)

    def _written(self, category: str) -> pa.Table:
        """What a stage writes to a category, without rows."""
        writer = self._plan.writer(category)
        assert writer is not None
        found = self.slicers if isinstance(writer, SlicerStage) else self.operators
        return found[writer.name].rows[0].slice(0, 0)

    def _emit(self, stage: Stage, rows: pa.Table, now: int, marks: Mapping[str, int]) -> None:
        """Rows that a stage writes: to the log if an operator reads them, and to all that read its sink."""
        if isinstance(stage, SlicerStage):
            self.slicers[stage.name].rows.append(rows)
            if stage.join_input is not None:
                self._publish(stage, rows, now, marks)
                return
        for reader in self._plan.stages:
            if isinstance(reader, SlicerStage) and reader.reads().get("source") == stage.sink.name:
                self._pass_on(reader, rows, now, marks)

    def _pass_on(self, reader: SlicerStage, rows: pa.Table, now: int, marks: Mapping[str, int]) -> None:
        outcome = self.slicers[reader.name]
        first = outcome.rows_in
        outcome.rows_in += rows.num_rows
        numbers = pa.array(range(first, outcome.rows_in), pa.int64())
        source = rows.select([column.name for column in reader.source.columns])
        passed = {column: marks[origin] for column, origin in reader.watermarks if origin in marks}
        self._emit(reader, self._slice(reader, source.append_column(ROW, numbers)), now, passed)

    def _publish(self, stage: SlicerStage, rows: pa.Table, now: int, marks: Mapping[str, int]) -> None:
        target = self._inputs[stage.sink.name]
        if not rows.num_rows and not marks:
            return
        batches = rows.combine_chunks().to_batches()
        entry = write_file(target.category, f"c{target.commits}", batches, self._options.chunk_rows)
        target.category.publish(target.commits, [entry], marks, wall_time=now)
        target.commits += 1

    # -- operators --------------------------------------------------------------------------------

    def _open(self, stage: Stage, interval: int) -> None:
        """Make the operator of a stage, which tells the numbers of its rows besides its columns."""
        numbered = _numbered(stage)
        stepping = numbered.operation(self._plan, self._options, PlanFacts())
        assert isinstance(stepping, Stepping)
        admission = AdmissionConfig(
            stage.reads(),
            stepping.upper,
            self._options,
            stepping.propagated,
            stepping.disorder,
            stepping.rescued,
            stepping.pad_after,
        )
        pacing = admission.pacing()
        # Time is as coarse as ticks are.
        pacing = replace(pacing, idle_timeout=max(pacing.idle_timeout, 2 * interval))
        local = LocalOperator(self._root, admission, stepping.operator, 1, pacing)
        self._operators[stage.name] = (stage, stepping, local)
        schemas = {name: self._inputs[category].category.schema for name, category in stage.reads().items()}
        self._keep(stage, stepping.operator.output_schema(schemas).empty_table())

    def _advance(self, name: str, now: int, *, draining: bool) -> None:
        """Let an operator admit what it may; in a drain, everything."""
        stage, stepping, local = self._operators[name]
        stalled = 0
        while stalled < _STALLED:
            facts = Facts(
                draining, 0 if local.counts is None else local.counts.pending, self._patient(stepping)
            )
            admitted, step = local.advance(now, facts)
            if step is not None:
                tables = [rows for rows, _ in local.results(step).values() if rows is not None]
                self._step(stage, stepping, local, tables, now)
            if admitted is None or (draining and admitted.offset.at.drained):
                return
            if not draining and not admitted.decision.limited:
                return
            stalled = 0 if step is not None else stalled + 1

    def _patient(self, stepping: Stepping) -> tuple[str, ...]:
        """Inputs for which operators upstream hold rows."""
        counts = {name: local.counts for name, (_, _, local) in self._operators.items()}
        return tuple(
            name
            for name, holders in stepping.held_by.items()
            if any((found := counts[holder]) is not None and found.pending for holder in holders)
        )

    def _step(
        self, stage: Stage, stepping: Stepping, local: LocalOperator, tables: list[pa.Table], now: int
    ) -> None:
        rows = [self._keep(stage, table) for table in tables]
        marks: dict[str, int] = {}
        if stepping.times:
            columns = tuple((c.column, str(c.side), c.input, c.lag) for c in stepping.times)
            watermarks = OperatorWatermarks(stage.reads(), stepping.bounds, columns)
            assert local.offset is not None
            marks = watermarks.of(self._root, local.offset.to_json(), local.counts or Counters())
        written = pa.concat_tables(rows) if rows else self.operators[stage.name].rows[0]
        self._emit(stage, written, now, marks)

    def _keep(self, stage: Stage, table: pa.Table) -> pa.Table:
        """The slicer after an operator; what it gives is kept."""
        outcome = self.operators[stage.name]
        if ROW in table.column_names:
            table = table.rename_columns({ROW: LEFT})
        numbers = [name for name in (LEFT, RIGHT) if name in table.column_names]
        outcome.results.append(table.select(numbers))
        try:
            rows = evaluate(
                with_lookups(stage, table, self._look_up), list(stage.columns), stage.filter, numbers
            )
        except FailedRowError as error:
            raise FailedRowError(error.what, where=stage.name, row=-1) from None
        outcome.rows.append(rows)
        return rows

    def _note(self, name: str) -> None:
        _, _, local = self._operators[name]
        counts = local.counts or Counters()
        pending = {one: counted.pending for one, counted in counts.inputs.items()}
        self.operators[name].held.append(Held(pending, counts.state_bytes))


def _numbered(stage: Stage) -> Stage:
    """A stage whose operator also emits the numbers of the rows that a result is made of."""
    if isinstance(stage, JoinStage):
        numbers = (OutputColumn(LEFT, Side.LEFT, ROW), OutputColumn(RIGHT, Side.RIGHT, ROW))
        return replace(stage, output=(*stage.output, *numbers))
    assert isinstance(stage, OperatorStage)
    return replace(stage, output=(*stage.output, ROW))
