"""A plan survives its JSON form, and the rewritten application compiles to the same plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from braid.api import FORMATS, compile_text, explain
from braid.core.errors import SchemaError
from braid.kernels.join.spec import JoinType
from braid.plan.kinds.join import JoinStage
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.serialise import dumps, loads, plan_from_json, plan_to_json
from tests.plan.programs import other_programs, programs

FIGURE_3 = (Path(__file__).parent / "figure3.sql").read_text()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs() | other_programs())
def test_random_programs(text: str) -> None:
    compiled = compile_text(text)
    assert loads(dumps(compiled.plan)) == compiled.plan
    rewritten = explain(compiled, "pql")
    again = compile_text(rewritten)
    assert again.plan == compiled.plan
    assert explain(again, "pql") == rewritten


def test_figure_3_compiles_to_two_slicers_and_a_join() -> None:
    compiled = compile_text(FIGURE_3)
    left, right, join = compiled.plan.stages
    assert isinstance(left, SlicerStage)
    assert isinstance(right, SlicerStage)
    assert isinstance(join, JoinStage)
    assert {c.name: c.sql for c in left.columns}["metric"] == "ABS(metric)"
    assert {c.name: c.sql for c in join.columns}["dim_three"].startswith("COALESCE(")
    assert (join.type, join.lower, join.upper) == (JoinType.LEFT, -180_000_000, 180_000_000)
    assert compile_text(explain(compiled, "pql")).plan == compiled.plan
    assert all(FORMATS[form](compiled) for form in FORMATS)


def test_odd_names_sources_and_options_survive() -> None:
    text = """
        CREATE APPLICATION app WITH (shards = 4, slack = '5 minutes');
        CREATE INPUT TABLE `left` (`order` STRING, `a b` STRING, ts TIMESTAMP, d DECIMAL(10, 2),
          tags ARRAY<STRING>) FROM FILES("in/*.csv", format = "csv", header = "true") TIME ts IN MILLISECONDS;
        CREATE INPUT TABLE r (`order` STRING, ts TIMESTAMP) FROM KAFKA("it's");
        CREATE VIEW v AS SELECT l.`a b` AS `a b`, l.tags AS tags, l.d AS d, r.ts AS rts
        FROM `left` AS l FULL JOIN r ON l.`order` = r.`order`
          AND r.ts BETWEEN l.ts - INTERVAL '1.5 seconds' AND l.ts + INTERVAL '2' DAY MATCH LATEST;
        CREATE TABLE t AS SELECT `a b`, d FROM v STORAGE KAFKA(topic = "out") SHARD BY `a b`;
    """
    compiled = compile_text(text)
    assert compile_text(explain(compiled, "pql")).plan == compiled.plan
    assert loads(dumps(compiled.plan)) == compiled.plan


EXPRESSIONS = [
    "l.m['a']",
    "l.st.`order`",
    "filter(l.arr, y -> y > 1)[0]",
    "CASE l.n WHEN 1 THEN 'a' ELSE \"b\" END",
    "EXTRACT(HOUR FROM l.t)",
    "l.s LIKE 'a!%b' ESCAPE '!'",
    "l.s RLIKE '\\\\d+'",
    "CAST(l.n AS DECIMAL(10, 2))",
    "l.t - INTERVAL '90 minutes'",
    "TIMESTAMP '2024-01-01 00:00:00'",
    '"it\'s é ☃"',
    "- (-l.n) % 3",
    "l.n NOT BETWEEN 1 AND 2 AND (l.b OR NOT l.n <=> 2)",
    "(l.n + 1) * 2 - (3 - l.n)",
    "named_struct('Mixed', l.n)",
    "1.5D",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_survive(expression: str) -> None:
    text = f"""
        CREATE APPLICATION app;
        CREATE INPUT TABLE a (t TIMESTAMP, k STRING, n BIGINT, s STRING, b BOOLEAN, m MAP<STRING, STRING>,
          arr ARRAY<BIGINT>, st STRUCT<F: INT, `order`: STRING>) FROM SCRIBE("a");
        CREATE INPUT TABLE b (t TIMESTAMP, k STRING) FROM SCRIBE("b");
        CREATE VIEW v AS SELECT {expression} AS c FROM a AS l LEFT JOIN b AS r
        ON l.k = r.k AND r.t BETWEEN l.t AND l.t + INTERVAL '1 minute';
        CREATE TABLE result AS SELECT c FROM v STORAGE SCRIBE(category = "result");
    """
    compiled = compile_text(text)
    assert compile_text(explain(compiled, "pql")).plan == compiled.plan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 99}, "schema version 99"),
        ({"stages": [{"stage": "sorter"}]}, "must be one of deduplicate, join, slicer"),
        ({"stages": [{"stage": "join"}]}, "lacks the field 'residual'"),
        ({"stages": 3}, "must be a list"),
        ({"application": None}, "must be text"),
        ({"options": [["a"]]}, "a pair of texts"),
    ],
)
def test_a_malformed_plan_is_refused(change: dict[str, object], message: str) -> None:
    value = {**plan_to_json(compile_text(FIGURE_3).plan), **change}
    with pytest.raises(SchemaError, match=message):
        plan_from_json(value)


def test_plans_of_the_first_version_are_still_read() -> None:
    plan = compile_text(FIGURE_3).plan
    value = plan_to_json(plan)
    assert isinstance(value["stages"], list)
    for stage in value["stages"]:
        assert isinstance(stage, dict)
        for name in ("lookups", "watermarks", "series", "within", "inclusive", "consume", "pad_after"):
            stage.pop(name, None)
        for name in ("broadcast", "single_shard"):
            stage.pop(name, None)
        for part, names in (("sink", ("keys", "values")), ("source", ("disorder",))):
            for name in names:
                inner = stage.get(part, {})
                assert isinstance(inner, dict)
                inner.pop(name, None)
        for column in stage.get("output") or ():
            del column["neighbour"]
    assert plan_from_json({**value, "schema_version": 1}) == plan


def test_text_that_is_not_json_is_refused() -> None:
    with pytest.raises(SchemaError, match="not JSON"):
        loads("{")
