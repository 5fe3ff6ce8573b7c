"""A new kind of stage needs no more than its own class: everything else has defaults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import pytest

from braid.api import compile_text
from braid.core.config import AppConfig
from braid.core.connectors import SinkKind
from braid.core.json_values import Json
from braid.plan.dependencies import upstream
from braid.plan.kinds.registry import KINDS
from braid.plan.physical.operation import Facts, Operation
from braid.plan.serialise import dumps, loads
from braid.plan.show.explain import explain_mermaid, explain_text
from braid.plan.show.physical import explain_physical
from braid.plan.stages.base import Plan, Projection, Sink, Stage
from braid.plan.stages.fields import Fields, projection_json, read_projection, read_sink, sink_json
from braid.plan.update.diff import diff

PROGRAM = """
CREATE APPLICATION app;
CREATE INPUT TABLE a (k STRING, t TIMESTAMP) FROM SCRIBE("a") TIME t;
CREATE INPUT TABLE b (k STRING, t TIMESTAMP) FROM SCRIBE("b") TIME t;
CREATE VIEW v AS SELECT l.k AS k FROM a AS l JOIN b AS r ON l.k = r.k AND r.t = l.t;
CREATE TABLE pairs AS SELECT k FROM v STORAGE SCRIBE(category = "pairs");
"""


@dataclass(frozen=True, kw_only=True)
class DistinctStage(Stage):
    """Rows of a category, each key once within a time."""

    kind: ClassVar[str] = "distinct"
    stateful: ClassVar[bool] = True

    category: str
    within: int

    def reads(self) -> dict[str, str]:
        return {"rows": self.category}

    def to_json(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "category": self.category,
            "within": self.within,
            "columns": [projection_json(c) for c in self.columns],
            "sink": sink_json(self.sink),
        }

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        return cls(
            name=fields.text("name"),
            category=fields.text("category"),
            within=fields.integer("within"),
            columns=tuple(read_projection(item) for item in fields.items("columns")),
            sink=read_sink(fields.get("sink")),
        )

    def operation(self, plan: Plan, options: AppConfig, facts: Facts) -> Operation:
        return Remembering(self.within)


@dataclass(frozen=True)
class Remembering(Operation):
    """Keeps the keys of some time."""

    within: int

    @property
    def texts(self) -> list[str]:
        return [f"keys are remembered for {self.within}"]


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setitem(KINDS, DistinctStage.kind, DistinctStage)
    compiled = compile_text(PROGRAM).plan
    slicer = compiled.stages[0]
    distinct = DistinctStage(
        name="once",
        category=slicer.sink.name,
        within=60,
        columns=(Projection("k", "k", "string"),),
        sink=Sink(SinkKind.SCRIBE, "once"),
    )
    return replace(compiled, stages=(*compiled.stages, distinct))


def test_it_is_stored_and_read_back(plan: Plan) -> None:
    assert loads(dumps(plan)) == plan


def test_it_knows_what_comes_before(plan: Plan) -> None:
    assert upstream(plan, plan.stages[-1]) == [plan.stages[0]]


def test_it_is_shown(plan: Plan) -> None:
    text = explain_text(plan)
    assert "distinct once -> scribe once" in text
    assert "slicer v.left -> scribe app.v.left" in text
    assert "keys are remembered for 60" in explain_physical(plan)
    assert '["distinct once"]' in explain_mermaid(plan)


def test_it_is_compared(plan: Plan) -> None:
    *rest, distinct = plan.stages
    assert isinstance(distinct, DistinctStage)
    wider = replace(plan, stages=(*rest, replace(distinct, within=90)))
    without = replace(plan, stages=tuple(rest))
    assert [c.kind for c in diff(plan, plan).changes] == []
    assert [(c.kind, c.verdict.value) for c in diff(plan, wider).changes] == [("stage.changed", "replayed")]
    assert [c.kind for c in diff(without, plan).changes] == ["stage.added", "table.added"]
    assert [c.kind for c in diff(plan, without).changes] == ["stage.removed", "table.removed"]


def test_the_summary_of_a_join_is_its_title_without_the_name() -> None:
    plan = compile_text("""
      CREATE APPLICATION app;
      CREATE INPUT TABLE l (k bigint, t timestamp) FROM SCRIBE("l") TIME t;
      CREATE INPUT TABLE r (k bigint, t timestamp) FROM SCRIBE("r") TIME t;
      CREATE VIEW j AS SELECT l.k AS k FROM l LEFT JOIN r ON l.k = r.k
        AND r.t BETWEEN l.t AND l.t + INTERVAL '1 minute';
      CREATE TABLE out AS SELECT * FROM j STORAGE SCRIBE(category = "out");
    """).plan
    stage = plan.stages[-1]
    assert stage.title() == "left join j, match all"
    assert stage.summary() == "left join, match all"
