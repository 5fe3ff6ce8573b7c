"""Updates: each kind of change, and its verdict."""

from __future__ import annotations

import itertools

import pytest

from braid.api import compile_text, diff, diff_json, diff_text
from braid.plan.update.diff import Diff
from braid.plan.update.rules import UPDATE_RULES, Verdict, Way

BASE = """
CREATE APPLICATION app;
CREATE INPUT TABLE a (id BIGINT, t TIMESTAMP, u TIMESTAMP, k STRING, n BIGINT, x DOUBLE)
FROM SCRIBE("a") TIME t;
CREATE INPUT TABLE b (id BIGINT, t TIMESTAMP, k STRING, n BIGINT, s STRING) FROM SCRIBE("b") TIME t;
CREATE VIEW j AS SELECT l.id AS id, ABS(l.x) AS x, r.s AS s, r.n AS n
FROM a AS l LEFT JOIN b AS r
ON l.k = r.k AND r.t BETWEEN l.t - INTERVAL '3 minutes' AND l.t + INTERVAL '2 minutes'
  AND l.n > 1 AND l.n < r.n
WHERE l.id > 0;
CREATE TABLE result AS SELECT id, x, s, n FROM j WHERE n IS NULL OR n > 2 STORAGE SCRIBE(category = "result");
CREATE TABLE plain AS SELECT id, n FROM a STORAGE KAFKA(topic = "plain");
CREATE VIEW near AS SELECT l.id AS id, r.n AS n FROM a AS l
ASOF JOIN b AS r MATCH_CONDITION (l.t >= r.t) ON l.k = r.k WITHIN INTERVAL '1 minute';
CREATE TABLE named AS SELECT near.id, d.name FROM near JOIN LOOKUP("names") AS d ON d.id = near.id
STORAGE LASER(table = "named", key = (id), ttl = '1 day');
"""
SERIES = "MATCH_CONDITION (l.t >= r.t) ON l.k = r.k WITHIN INTERVAL '1 minute'"
BACK = (3 + 2 + 1) * 60_000_000
"""Window and slack."""

SECOND = 'CREATE TABLE second AS SELECT id FROM j STORAGE SCRIBE(category = "second");'

CASES: list[tuple[str, str, list[str], Verdict]] = [
    ("APPLICATION app;", "APPLICATION other;", ["application.renamed"], Verdict.REFUSED),
    ("app;", "app WITH (shards = 16);", ["shards.changed"], Verdict.KEPT),
    ("app;", "app WITH (stream_time = 'ascending');", ["stream_time.changed"], Verdict.KEPT),
    ("app;", "app WITH (max_per_key = 10);", ["option.changed"], Verdict.KEPT),
    ("app;", "app WITH (retention = '1 hour');", ["retention.shortened"], Verdict.KEPT),
    ("app;", "app WITH (shards = 8);", [], Verdict.KEPT),
    ("LEFT JOIN", "INNER JOIN", ["join.type"], Verdict.KEPT),
    ("l.n < r.n\n", "l.n < r.n MATCH NEAREST\n", ["join.match"], Verdict.KEPT),
    ("l.k = r.k", "UPPER(l.k) = r.k", ["join.keys"], Verdict.REPLAYED),
    ("l.k = r.k AND", "l.k = r.k AND l.id = r.id AND", ["join.keys"], Verdict.REPLAYED),
    (
        "l.t - INTERVAL '3 minutes' AND l.t +",
        "l.u - INTERVAL '3 minutes' AND l.u +",
        ["join.time"],
        Verdict.REPLAYED,
    ),
    ('SCRIBE("b")', 'KAFKA("b")', ["join.input"], Verdict.REFUSED),
    ("'3 minutes'", "'9 minutes'", ["join.window_widened"], Verdict.KEPT),
    ("'3 minutes'", "'1 minute'", ["join.window_narrowed"], Verdict.KEPT),
    (
        "l.t - INTERVAL '3 minutes' AND l.t + INTERVAL '2 minutes'",
        "l.t - INTERVAL '1 minute' AND l.t + INTERVAL '5 minutes'",
        ["join.window_moved"],
        Verdict.KEPT,
    ),
    ("l.n < r.n", "l.n <= r.n", ["join.residual"], Verdict.KEPT),
    ("l.n < r.n", "l.n + 1 < r.n", ["join.residual_operands"], Verdict.REPLAYED),
    ("LEFT JOIN", "FULL JOIN", ["join.type", "join.type_operands"], Verdict.REPLAYED),
    ("AND l.n > 1", "AND l.n > 1 AND r.n > 1", ["join.live_added"], Verdict.REPLAYED),
    ("AND l.n > 1", "AND l.n > 2", ["join.live_changed"], Verdict.KEPT),
    ("AND l.n > 1", "", ["join.live_removed"], Verdict.KEPT),
    ("WHERE l.id > 0", "WHERE l.id > 5", ["filter.changed"], Verdict.KEPT),
    ("n > 2 STORAGE", "n > 3 STORAGE", ["filter.changed"], Verdict.KEPT),
    ("r.n AS n\n", "r.n AS n, l.u AS u\n", ["column.added"], Verdict.KEPT),
    ("SELECT id, x, s, n FROM j", "SELECT id, x, s FROM j", ["column.dropped"], Verdict.KEPT),
    ("SELECT id, x, s, n FROM j", "SELECT n, id, x, s FROM j", ["column.reordered"], Verdict.KEPT),
    ("ABS(l.x) AS x", "SQRT(l.x) AS x", ["column.changed"], Verdict.KEPT),
    (
        "ABS(l.x) AS x",
        "CAST(l.x AS STRING) AS x",
        ["input.column_type", "column.type"],
        Verdict.REFUSED,
    ),
    ("s STRING) FROM", "s BIGINT) FROM", ["input.column_type", "column.type"], Verdict.REFUSED),
    ("SELECT id, n FROM a", "SELECT id, CAST(n AS INT) AS n FROM a", ["column.type"], Verdict.REFUSED),
    (
        'SELECT id, n FROM a STORAGE KAFKA(topic = "plain")',
        'SELECT id, CAST(n AS INT) AS n FROM a STORAGE KAFKA(topic = "other")',
        ["column.type", "sink.changed"],
        Verdict.REFUSED,
    ),
    (
        'SELECT id, n FROM a STORAGE KAFKA(topic = "plain")',
        'SELECT id, CAST(n AS INT) AS n FROM a STORAGE SCRIBE(category = "plain")',
        ["column.retyped", "sink.changed"],
        Verdict.KEPT,
    ),
    (
        "n FROM a STORAGE",
        "n FROM b STORAGE",
        ["input.source"],
        Verdict.REPLAYED,
    ),
    ('SCRIBE("b") TIME t', 'SCRIBE("b") TIME t IN MILLISECONDS', ["input.time_unit"], Verdict.REPLAYED),
    (
        'SCRIBE("a") TIME t',
        'SCRIBE("a") TIME t IN MILLISECONDS',
        ["input.time_unit", "table.time_unit"],
        Verdict.REPLAYED,
    ),
    (BASE[-1:], f"\n{SECOND}\n", ["table.moved", "table.added", "sink.changed"], Verdict.KEPT),
    (
        'CREATE TABLE plain AS SELECT id, n FROM a STORAGE KAFKA(topic = "plain");',
        "",
        ["table.removed"],
        Verdict.KEPT,
    ),
    ("l.n < r.n\n", "l.n < r.n MATCH FIRST CONSUME\n", ["join.match", "join.consume"], Verdict.KEPT),
    (
        "l.n < r.n\n",
        "l.n < r.n EMIT UNMATCHED AFTER INTERVAL '1 minute'\n",
        ["join.unmatched"],
        Verdict.KEPT,
    ),
    (SERIES, SERIES.replace("'1 minute'", "'2 minutes'"), ["join.within_widened"], Verdict.REPLAYED),
    (SERIES, SERIES.replace("'1 minute'", "'9 seconds'"), ["join.within_narrowed"], Verdict.KEPT),
    (SERIES, SERIES.replace(">=", ">"), ["join.kind"], Verdict.REPLAYED),
    ("JOIN LOOKUP(", "LEFT JOIN LOOKUP(", ["lookup.changed"], Verdict.KEPT),
    ('SCRIBE("b") TIME t', 'SCRIBE("b") TIME t ORDERED', ["input.ordered"], Verdict.KEPT),
    ("key = (id)", "key = (id, name)", ["sink.keys"], Verdict.REFUSED),
    ("ttl = '1 day'", "ttl = '2 days'", ["sink.options"], Verdict.KEPT),
    ('category = "result"', 'category = "elsewhere"', ["sink.changed"], Verdict.KEPT),
    ('topic = "plain")', 'topic = "plain") SHARD BY id', ["sink.options"], Verdict.KEPT),
    ('category = "result")', 'category = "result") SHARD BY id', ["sink.sharded"], Verdict.REFUSED),
]


def changed(old: str, new: str) -> Diff:
    head, _, tail = BASE.rpartition(old) if old == BASE[-1:] else BASE.partition(old)
    assert head or tail
    return diff(compile_text(BASE).plan, compile_text(head + new + tail).plan)


@pytest.mark.parametrize(("old", "new", "kinds", "verdict"), CASES, ids=[str(case[2:]) for case in CASES])
def test_verdicts(old: str, new: str, kinds: list[str], verdict: Verdict) -> None:
    found = changed(old, new)
    assert found.verdict is verdict
    assert set(kinds) <= {change.kind for change in found.changes}
    # Nothing else is worse than what the case is about.
    assert {c.kind for c in found.changes if c.verdict is not Verdict.KEPT} <= set(kinds)


def test_no_change() -> None:
    found = diff(
        compile_text(BASE).plan, compile_text(BASE.replace("AS l", "AS ll").replace("l.", "ll.")).plan
    )
    assert found.changes == ()
    assert diff_text(found) == "no changes\n"


def test_a_replay_says_how_far_back() -> None:
    found = changed("l.n < r.n", "l.n + 1 < r.n")
    [change] = [c for c in found.changes if c.kind == "join.residual_operands"]
    assert change.replay == BACK
    assert "the last 6 min" in diff_text(found)


@pytest.mark.parametrize(
    ("old", "new", "detail"),
    [
        ("", " ORDERED WITHIN INTERVAL '20 seconds'", "in any order -> ordered within 20 s"),
        (" ORDERED WITHIN INTERVAL '20 seconds'", " ORDERED", "ordered within 20 s -> ordered"),
        (" ORDERED WITHIN INTERVAL '90 seconds'", "", "ordered within 1 min 30 s -> in any order"),
    ],
)
def test_the_declared_order_can_change(old: str, new: str, detail: str) -> None:
    source = 'SCRIBE("b") TIME t'
    plans = [compile_text(BASE.replace(source, source + order)).plan for order in (old, new)]
    found = diff(*plans)
    assert {(c.kind, c.detail, c.verdict) for c in found.changes} == {("input.ordered", detail, Verdict.KEPT)}


def test_a_refusal_names_alternatives() -> None:
    found = changed('SCRIBE("b")', 'KAFKA("b")')
    change = diff_json(found)["changes"][0]
    assert change["verdict"] == "refused"
    assert any("new name" in text for text in change["alternatives"])
    assert "alternative: " in diff_text(found)


def test_joins_can_be_added_and_removed() -> None:
    smaller = BASE[: BASE.index("CREATE VIEW")] + BASE[BASE.index("CREATE TABLE plain") :]
    plans = [compile_text(text).plan for text in (smaller, BASE)]
    assert {c.kind for c in diff(*plans).changes} == {"join.added", "table.added"}
    assert {c.kind for c in diff(*plans[::-1]).changes} == {"join.removed", "table.removed"}
    assert diff(*plans).verdict is Verdict.KEPT


JOINED = """
CREATE TABLE one AS SELECT a.id AS id, b.n AS n FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t AND a.t
STORAGE SCRIBE(category = "one");
"""
PLAIN = 'CREATE TABLE one AS SELECT id, n FROM {} STORAGE SCRIBE(category = "one");'
VIEWS = [
    "CREATE VIEW v AS SELECT a.id AS id, b.n AS n FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t AND a.t;",
    "CREATE VIEW v AS SELECT d.id, d.n "
    "FROM DEDUPLICATE(TABLE a PARTITION BY k, within => INTERVAL '1 minute') AS d;",
]


def ways(before: str, after: str) -> dict[str, Way]:
    inputs = BASE[: BASE.index("CREATE VIEW j")]
    return diff(*(compile_text(inputs + text).plan for text in (before, after))).ways


def test_what_reads_something_else_begins_anew() -> None:
    assert ways(PLAIN.format("a"), PLAIN.format("b")) == {"one": Way.ANEW}
    assert ways(PLAIN.format("a"), JOINED) == {"one": Way.ANEW}
    assert ways(JOINED, PLAIN.format("a")) == {"one": Way.ANEW}
    for before, after in (VIEWS, VIEWS[::-1]):
        found = ways(before + PLAIN.format("v"), after + PLAIN.format("v"))
        assert found["v"] is Way.ANEW


def test_what_a_table_reads_of_an_operator_is_finished_when_it_moves() -> None:
    one, two = VIEWS[0] + PLAIN.format("v"), PLAIN.format("v").replace("one", "two")
    assert ways(one, one + two) == {"v": Way.FINISH}
    assert ways(one + two, one) == {"v": Way.FINISH, "one": Way.FINISH}


def test_a_category_has_hashes_in_all_rows_or_in_none() -> None:
    plain = PLAIN.format("a")
    sharded = plain.replace(";", " SHARD BY {};")
    inputs = BASE[: BASE.index("CREATE VIEW j")]
    texts = [plain, sharded.format("id"), sharded.format("n"), plain]
    plans = [compile_text(inputs + text).plan for text in texts]
    kinds = [change.kind for pair in itertools.pairwise(plans) for change in diff(*pair).changes]
    assert kinds == ["sink.sharded", "sink.options", "sink.sharded"]


def test_a_residual_needs_operands_of_its_types() -> None:
    typed = BASE.replace("SELECT l.id AS id, ABS(l.x) AS x, r.s AS s, r.n AS n", "SELECT l.id AS id")
    typed = typed.replace("l.n < r.n", "l.n + 1 < r.n + 1").replace("l.n > 1", "l.id > 1")
    typed = typed[: typed.index("CREATE TABLE result")] + PLAIN.replace("id, n", "id").format("j")
    found = diff(*(compile_text(text).plan for text in (typed, typed.replace("n BIGINT", "n INT"))))
    assert [change.kind for change in found.changes if change.stage == "j"] == ["join.residual_operands"]


def test_adding_a_column_renames_nothing() -> None:
    wide = BASE.replace("SELECT l.id AS id, ABS", "SELECT l.n AS extra, r.id AS rid, l.id AS id, ABS")
    found = diff(compile_text(BASE).plan, compile_text(wide).plan)
    assert {c.kind for c in found.changes} == {"column.added"}


def test_every_rule_is_met_by_a_case() -> None:
    met = {kind for case in CASES for kind in case[2]} | {"join.added", "join.removed"}
    assert set(UPDATE_RULES) - met == {"input.options"}


def test_options_of_a_source() -> None:
    old = BASE.replace('SCRIBE("b")', 'KAFKA("b", maxOffsetsPerTrigger = "10")')
    new = old.replace('"10"', '"20"')
    assert {c.kind for c in diff(compile_text(old).plan, compile_text(new).plan).changes} == {"input.options"}


def test_queries_that_run_otherwise_are_named() -> None:
    filtered = " WHERE n IS NULL OR n > 2"
    wider = BASE.replace("INTERVAL '2 minutes'", "INTERVAL '9 minutes'").replace(filtered, "")
    found = diff(compile_text(BASE).plan, compile_text(wider).plan)
    assert [(query.name, query.before, query.after) for query in found.queries] == [
        (
            "j",
            (
                "the right input is kept 2 min ahead of the left one",
                "results are stored after Catalyst",
            ),
            (
                "the right input is kept 9 min ahead of the left one",
                "results are stored by the workers of the operator if types allow, else after Catalyst",
            ),
        )
    ]
    assert "query j will run otherwise:\n  - the right input is kept 2 min ahead" in diff_text(found)
    assert diff_json(found)["queries"]
    assert diff(compile_text(BASE).plan, compile_text(BASE).plan).queries == ()
