"""A plan in this process, by the engine on a log of its own, gives what DuckDB gives for the text."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braid.api import compile_text
from braid.core.config import AppConfig
from braid.core.times import DAY, SECOND, now_micros
from braid.plan.kinds.slicer import SlicerStage
from braid.testing.expressions import ROW
from braid.testing.plan_run import Arriving, PlanRun
from tests.plan.interpreter import look_up_in
from tests.plan.interpreter import run as interpret
from tests.plan.oracle import answer, rows
from tests.plan.programs import programs, random_inputs
from tests.plan.test_meaning import ON, _program

TABLES = dict[str, pa.Table]


def ran(text: str, inputs: TABLES, folder: Path, *, in_order: bool = False) -> tuple[PlanRun, TABLES]:
    """A plan run over whole inputs, all at once or in order of event time; and what its tables store."""
    plan = compile_text(text).plan
    arriving = {}
    for stage in plan.stages:
        if isinstance(stage, SlicerStage) and not stage.source.internal:
            table = inputs[stage.source.name]
            count = table.num_rows
            table = table.select([column.name for column in stage.source.columns])
            times = np.zeros(count, np.int64) + 1_800_000_000_000_000
            if in_order:
                times = np.maximum.accumulate(table["t"].cast(pa.int64()).fill_null(0).to_numpy())
            arriving[stage.name] = Arriving(
                table.append_column(ROW, pa.array(range(count), pa.int64())), times
            )
    run = PlanRun(plan, AppConfig(), arriving, folder, look_up_in(inputs), now_micros() + DAY)
    run.run()
    return run, {stage.sink.name: run.output(stage) for stage in plan.stages if stage.table is not None}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), st.integers(0, 10_000))
def test_random_programs(text: str, seed: int) -> None:
    inputs = random_inputs(seed)
    with tempfile.TemporaryDirectory() as folder:
        _, found = ran(text, inputs, Path(folder))
    for name, table in answer(text, inputs).items():
        assert rows(found[name]) == rows(table), text


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
def test_rows_in_order_are_joined_tick_by_tick(kind: str, tmp_path: Path) -> None:
    select = f"SELECT l.id AS lid, r.id AS rid FROM a AS l {kind} JOIN b AS r\nON {ON['key']}"
    inputs = {name: table.sort_by("t").slice(0, 40) for name, table in random_inputs(3, 60).items()}
    run, found = ran(_program(select), inputs, tmp_path, in_order=True)
    assert rows(found["result"]) == rows(answer(_program(select), inputs)["result"])
    held = run.operators["joined"].held
    assert max(sum(one.pending.values()) for one in held) > 0
    assert len(held) > 50
    assert any(one.state for one in held)


def test_deduplicate_time_series_and_lookups(tmp_path: Path) -> None:
    columns = "id bigint, t timestamp, k string"
    text = f"""
        CREATE APPLICATION app;
        CREATE INPUT TABLE a ({columns}) FROM SCRIBE("a") TIME t;
        CREATE INPUT TABLE b ({columns}) FROM SCRIBE("b") TIME t;
        CREATE VIEW first AS SELECT d.id, d.k FROM DEDUPLICATE(
          TABLE a PARTITION BY k, within => INTERVAL '10 seconds') AS d;
        CREATE TABLE once AS SELECT d.id, n.name FROM first AS d
          LEFT JOIN LOOKUP("names") AS n (key STRING, name STRING) ON n.key = d.k
          STORAGE SCRIBE(category = "once");
        CREATE TABLE near AS SELECT l.id AS lid, r.id AS rid FROM a AS l ASOF JOIN b AS r
          MATCH_CONDITION (l.t >= r.t) ON l.k = r.k WITHIN INTERVAL '5 seconds'
          STORAGE SCRIBE(category = "near");
    """
    begin = 1_700_000_000 * SECOND

    def table(shift: int) -> pa.Table:
        times = [begin + (shift + 4 * n) * SECOND for n in range(20)]
        keys = ["x" if n % 2 else "y" for n in range(20)]
        return pa.table(
            {"id": range(20), "t": pa.array(times, pa.timestamp("us", tz="UTC")), "k": pa.array(keys)}
        )

    names = pa.table({"key": ["x"], "name": ["ex"]})
    inputs = {"a": table(0), "b": table(-1), "names": names}
    _, found = ran(text, inputs, tmp_path, in_order=True)
    # Every 8 seconds a row of each key, of which every other one is within 10 seconds of one that was kept.
    assert sorted(found["once"]["id"].to_pylist()) == [n for n in range(20) if n % 4 in (0, 1)]
    assert set(found["once"]["name"].to_pylist()) == {"ex", None}
    assert rows(found["near"]) == rows(pa.table({"lid": range(20), "rid": range(20)}))


def test_it_does_what_the_interpreter_of_stages_does(tmp_path: Path) -> None:
    select = f"SELECT l.id AS lid, r.id AS rid, l.t AS t FROM a AS l LEFT JOIN b AS r\nON {ON['residual']}"
    inputs = random_inputs(9, 40)
    _, found = ran(_program(select), inputs, tmp_path)
    other = interpret(compile_text(_program(select)).plan, inputs, 9)
    assert rows(found["result"]) == rows(other["result"])
