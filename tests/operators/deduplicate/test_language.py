"""DEDUPLICATE from text to plan: shown, stored, compared with another plan, and written as PQL again."""

from __future__ import annotations

import pytest

from braid.api import compile_text
from braid.lang.compiler import compile_text as compile_query
from braid.plan.kinds.deduplicate import DeduplicateStage
from braid.plan.logical.planner import plan, rewrite
from braid.plan.serialise import dumps, loads
from braid.plan.show.explain import explain_mermaid, explain_text
from braid.plan.show.physical import explain_physical
from braid.plan.show.pql import print_query, print_rewritten
from braid.plan.update.diff import diff

INPUTS = """
CREATE APPLICATION app;
CREATE INPUT TABLE clicks (user STRING, page STRING, n BIGINT, t TIMESTAMP) FROM SCRIBE("clicks") TIME t;
CREATE INPUT TABLE visits (user STRING, t TIMESTAMP) FROM SCRIBE("visits") TIME t;
"""
ONCE = """
CREATE VIEW once AS SELECT c.user, c.page, c.t, c.n + 1 AS n
  FROM DEDUPLICATE(TABLE clicks PARTITION BY user, lower(page), within => INTERVAL '10 minutes') AS c
  WHERE c.n > 0;
"""
STORED = 'CREATE TABLE first AS SELECT user, n FROM once STORAGE SCRIBE(category = "first");'
JOINED = """
CREATE VIEW pairs AS SELECT v.user, o.page FROM visits AS v
  LEFT JOIN once AS o ON o.user = v.user AND o.t BETWEEN v.t AND v.t + INTERVAL '1 minute';
CREATE TABLE second AS SELECT * FROM pairs STORAGE SCRIBE(category = "second");
"""
TWICE = """
CREATE VIEW again AS SELECT d.user, d.t FROM DEDUPLICATE(
  TABLE once PARTITION BY once.user ORDER BY t + INTERVAL '1 second', within => INTERVAL '1 hour') AS d;
CREATE TABLE third AS SELECT * FROM again STORAGE SCRIBE(category = "third");
"""


@pytest.mark.parametrize("rest", [STORED, JOINED, TWICE, STORED + JOINED + TWICE])
def test_a_plan_is_stored_and_the_rewritten_program_means_the_same(rest: str) -> None:
    query = compile_query(INPUTS + ONCE + rest)
    found = plan(query)
    assert loads(dumps(found)) == found
    rewritten = rewrite(query)
    assert plan(compile_query(print_query(query))) == found
    assert plan(compile_query(print_rewritten(rewritten))) == found
    assert print_query(rewrite(rewritten)) == print_query(rewritten)


def test_what_follows_the_operator_is_evaluated_in_its_query() -> None:
    slicer, stage = compile_text(INPUTS + ONCE + STORED).plan.stages
    assert isinstance(stage, DeduplicateStage)
    assert (slicer.name, stage.name, stage.table) == ("once.input", "once", "first")
    assert stage.output == ("user", "n")
    assert [column.sql for column in stage.columns] == ["user", "n + 1"]
    assert stage.filter == "n > 0"


def test_it_is_shown() -> None:
    found = compile_text(INPUTS + ONCE + STORED).plan
    text = explain_text(found)
    assert "deduplicate once -> scribe first" in text
    assert "deduplicate within 10 min" in text
    assert "input slicer -> app.once.input, buffered 10 min" in text
    assert "key: user string, LOWER(page) string" in text
    assert "8 shards in 1 state partition" in explain_physical(found)
    assert '["deduplicate once"]' in explain_mermaid(found)


def test_its_event_time_travels_on_to_a_join() -> None:
    found = {stage.name: stage for stage in compile_text(INPUTS + ONCE + JOINED).plan.stages}
    assert found["once"].sink.time_columns == ("t",)
    assert found["pairs.right"].propagates
    assert "right stream time: the watermark of the operator before" in explain_physical(
        compile_text(INPUTS + ONCE + JOINED).plan
    )


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("10 minutes", "10 minutes", []),
        ("10 minutes", "20 minutes", [("stage.adjusted", "kept")]),
        ("lower(page)", "upper(page)", [("stage.keys", "replayed")]),
        ("c.n > 0", "c.n > 1", [("filter.changed", "kept")]),
        ("c.n + 1", "c.n + 2", [("column.changed", "kept")]),
        ("n BIGINT", "n INT", [("input.column_type", "replayed"), ("column.type", "refused")]),
    ],
)
def test_it_is_compared(old: str, new: str, kinds: list[tuple[str, str]]) -> None:
    text = INPUTS + ONCE + STORED
    changes = diff(compile_text(text).plan, compile_text(text.replace(old, new)).plan).changes
    assert [(change.kind, change.verdict.value) for change in changes] == kinds


def test_it_comes_and_goes() -> None:
    plain = INPUTS + "CREATE TABLE first AS SELECT user, n FROM clicks STORAGE SCRIBE(category = 'first');"
    without, with_it = compile_text(plain).plan, compile_text(INPUTS + ONCE + STORED).plan
    assert [c.kind for c in diff(without, with_it).changes][:2] == ["stage.added", "input.source"]
    assert [c.kind for c in diff(with_it, without).changes][:2] == ["stage.removed", "input.source"]
