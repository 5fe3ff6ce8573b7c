"""Whole programs to typed queries."""

from __future__ import annotations

import pytest
from sqlglot import exp

from braid.kernels.join.spec import JoinType, MatchMode
from braid.lang import compile_text
from braid.lang.query import JoinSelect, Select
from tests.lang.programs import FIGURE_3, HOUR, STREAMS, column_types, joined


def test_figure_3_of_the_paper():
    query = compile_text(FIGURE_3, "figure3.sql")
    assert query.application.name == "sample_app"
    assert query.warnings == ()
    left, right = query.inputs
    assert (left.source.kind, left.source.name, left.time, left.time_unit) == (
        "scribe",
        "left",
        "eventtime",
        "seconds",
    )
    assert column_types(query, "left") == {
        "eventtime": "timestamp",
        "key": "string",
        "dim_one": "string",
        "metric": "double",
    }
    assert right.time_columns == ("eventtime",)
    [view] = query.views
    assert isinstance(view.select, JoinSelect)
    assert [(r.alias, r.table) for r in view.select.relations] == [("l", "left"), ("r", "right")]
    [join] = view.select.joins
    assert (join.type, join.match) == (JoinType.LEFT, MatchMode.ALL)
    assert [(key.left.sql(), key.right.sql(), key.type) for key in join.keys] == [
        ("l.key", "r.key", "string")
    ]
    assert (join.bounds.left.sql(), join.bounds.right.sql()) == ("l.eventtime", "r.eventtime")
    assert (join.bounds.lower, join.bounds.upper) == (-180_000_000, 180_000_000)
    assert not join.residual
    assert not join.left_only
    assert not join.right_only
    sides = {column.name: set(column.relations) for column in view.select.columns}
    assert sides == {
        "eventtime": {"l"},
        "key": {"l"},
        "dim_one": {"l"},
        "dim_two": {"r"},
        "dim_three": {"r"},
        "metric": {"l"},
    }
    [table] = query.tables
    assert isinstance(table.select, Select)
    assert (table.storage.kind, table.storage.name) == ("scribe", "result")
    assert column_types(query, "result")["metric"] == "double"


def test_everything_is_read_in_any_case_and_order_with_comments():
    text = """
    create table Out as select K as key from V /* a block */ storage console;  -- a line
    Create View v As Select L.K From Stream As l Where l.X > 1;
    CREATE input TABLE stream (k, x) FROM scribe('s');
    create application App;
    """
    query = compile_text(text)
    assert [t.name for t in query.tables] == ["Out"]
    assert query.tables[0].select.columns[0].expression.sql() == "V.K"
    assert column_types(query, "stream") == {"k": "string", "x": "double"}


def test_views_come_in_dependency_order():
    text = STREAMS + (
        "CREATE VIEW a AS SELECT k FROM b; CREATE VIEW b AS SELECT k FROM c;CREATE VIEW c AS SELECT k FROM l;"
    )
    query = compile_text(text)
    assert [view.name for view in query.views] == ["c", "b", "a"]
    assert query.relation("b") is query.views[1]
    assert query.relation("l") is query.inputs[0]


def test_names_are_spelled_as_declared():
    query = compile_text(
        "CREATE APPLICATION a; CREATE INPUT TABLE T (Key) FROM SCRIBE('t');"
        "CREATE VIEW v AS SELECT t.KEY FROM t;"
    )
    [column] = query.views[0].select.columns
    assert (column.name, column.expression.sql()) == ("KEY", "t.Key")


@pytest.mark.parametrize(
    "name", ["left", "right", "full", "inner", "time", "input", "match", "key", "storage_", "user"]
)
def test_words_of_the_language_are_names_too(name):
    text = f"""CREATE APPLICATION {name};
    CREATE INPUT TABLE {name} ({name}, t) FROM SCRIBE("s") TIME t;
    CREATE VIEW v AS SELECT {name}.{name}, b.{name} AS other FROM {name} LEFT JOIN {name} AS b
    ON {name}.{name} = b.{name} AND {name}.t = b.t;
    CREATE TABLE w AS SELECT {name} FROM v STORAGE CONSOLE;"""
    query = compile_text(text)
    assert query.views[0].select.columns[0].expression.sql() == f"{name}.{name}"


def test_byte_order_mark_and_line_ends_of_other_systems():
    query = compile_text("\ufeff" + FIGURE_3.replace("\n", "\r\n"))
    assert query.application.name == "sample_app"


def test_quoted_names():
    query = compile_text(
        "CREATE APPLICATION a; CREATE INPUT TABLE t (`a b`, `select`) FROM SCRIBE('t');"
        "CREATE VIEW v AS SELECT `a b`, `select` AS `from` FROM t;"
    )
    assert [c.name for c in query.views[0].columns] == ["a b", "from"]
    assert query.views[0].select.columns[0].expression.sql("spark") == "t.`a b`"


@pytest.mark.parametrize(
    ("text", "kind", "match"),
    [
        ("JOIN", JoinType.INNER, ""),
        ("INNER JOIN", JoinType.INNER, "MATCH ALL"),
        ("LEFT JOIN", JoinType.LEFT, "MATCH FIRST"),
        ("LEFT OUTER JOIN", JoinType.LEFT, "MATCH NEAREST"),
        ("RIGHT JOIN", JoinType.RIGHT, "MATCH EARLIEST"),
        ("RIGHT OUTER JOIN", JoinType.RIGHT, "MATCH LATEST"),
        ("FULL JOIN", JoinType.FULL, ""),
        ("FULL OUTER JOIN", JoinType.FULL, ""),
    ],
)
def test_join_types_and_match_modes(text, kind, match):
    join = joined(HOUR, text, match)
    assert join.type is kind
    assert join.match.name == (match.split() or ["ALL"])[-1]


def test_on_is_taken_apart():
    join = joined(
        f"UPPER(l.k) = r.k AND (l.n = r.m + 1 AND {HOUR}) AND l.n > 1 AND r.y <> 'a' AND l.n < r.m AND 1 = 1"
    )
    assert [(k.left.sql(), k.right.sql(), k.type) for k in join.keys] == [
        ("UPPER(l.k)", "r.k", "string"),
        ("l.n", "r.m + 1", "int"),
    ]
    assert [c.expression.sql() for c in join.left_only] == ["l.n > 1", "1 = 1"]
    assert [c.expression.sql() for c in join.right_only] == ["r.y <> 'a'"]
    assert [c.expression.sql() for c in join.residual] == ["l.n < r.m"]
    assert join.residual[0].relations == {"l", "r"}


def test_null_safe_equality_is_a_residual():
    join = joined(f"l.k <=> r.k AND {HOUR}")
    assert join.keys == ()
    assert [type(c.expression) for c in join.residual] == [exp.NullSafeEQ]


def test_keys_of_two_number_types_have_a_common_type():
    query = compile_text(
        "CREATE APPLICATION a; CREATE INPUT TABLE l (t, k INT) FROM SCRIBE('l') TIME t;"
        "CREATE INPUT TABLE r (t, k BIGINT) FROM SCRIBE('r') TIME t;"
        "CREATE VIEW v AS SELECT l.k FROM l JOIN r ON r.k = l.k AND l.t = r.t;"
    )
    select = query.views[0].select
    assert isinstance(select, JoinSelect)
    assert [(k.left.sql(), k.right.sql(), k.type) for k in select.joins[0].keys] == [("l.k", "r.k", "bigint")]


def test_a_chain_of_joins_and_a_join_of_views():
    text = (
        STREAMS
        + f"""
    CREATE VIEW j AS SELECT l.k AS k, l.t AS lt, r.t AS rt, s.z, l.x || r.y || s.z AS all_three
    FROM l JOIN r ON l.k = r.k AND {HOUR}
    LEFT JOIN s ON s.k = r.k AND s.t BETWEEN r.t - INTERVAL '1 minute' AND r.t MATCH LATEST
    WHERE l.n > 1 AND (r.m = 2 OR s.z IS NULL);
    CREATE VIEW jj AS SELECT j.k FROM j JOIN s ON j.k = s.k AND s.t = j.rt;
    """
    )
    query = compile_text(text)
    select = query.views[0].select
    assert isinstance(select, JoinSelect)
    first, second = select.joins
    assert (second.bounds.left.sql(), second.bounds.right.sql()) == ("r.t", "s.t")
    assert second.match is MatchMode.LATEST
    assert select.columns[-1].relations == {"l", "r", "s"}
    assert [c.relations for c in select.where] == [{"l"}, {"r", "s"}]
    assert first.right.alias == "r"
    assert query.inputs[1].time_columns == ("t",)


def test_event_times_are_found_through_views():
    text = """CREATE APPLICATION a;
    CREATE INPUT TABLE l (seen, other, k) FROM SCRIBE("l");
    CREATE INPUT TABLE r (at, k) FROM SCRIBE("r");
    CREATE VIEW c AS SELECT seen AS w, other AS o, k FROM l WHERE k <> "";
    CREATE VIEW v AS SELECT c.k FROM c JOIN r ON c.k = r.k AND r.at BETWEEN c.w AND c.w + INTERVAL '1 hour';
    CREATE VIEW w AS SELECT c.k FROM c JOIN r ON c.k = r.k AND r.at BETWEEN c.o AND c.o + INTERVAL '1 hour';
    """
    query = compile_text(text)
    assert (query.inputs[0].time, query.inputs[0].time_columns) == ("seen", ("seen", "other"))
    assert query.inputs[1].time_columns == ("at",)
    assert column_types(query, "l") == {"seen": "timestamp", "other": "timestamp", "k": "string"}


def test_stars_are_expanded():
    query = compile_text(
        STREAMS
        + f"""
    CREATE VIEW v AS SELECT *, 1 AS one FROM s;
    CREATE VIEW w AS SELECT l.*, r.* EXCEPT (t, k, u) FROM l JOIN r ON {HOUR};"""
    )
    assert [c.name for c in query.views[0].columns] == ["t", "k", "z", "one"]
    assert [c.name for c in query.views[1].columns] == ["t", "k", "x", "n", "u", "y", "m"]


def test_sources_storages_and_options():
    query = compile_text("""CREATE APPLICATION a WITH (shards = 4, slack = "2 minutes", late_lookup = FALSE);
    CREATE INPUT TABLE k (t, a) FROM KAFKA("topic", brokers = "host:9092", `kafka.security.protocol` = "SSL")
        TIME t IN MILLISECONDS;
    CREATE INPUT TABLE f (t, a) FROM FILES("in/*.csv", format = "CSV", header = TRUE) TIME t IN MICROSECONDS;
    CREATE TABLE x AS SELECT a, t FROM k STORAGE KAFKA(topic = "out", brokers = "h:1") SHARD BY hash(a);
    CREATE TABLE y AS SELECT a, t FROM f STORAGE HIVE(table = "db.y", time = "t");
    CREATE TABLE z AS SELECT a FROM f STORAGE CONSOLE;""")
    assert query.application.options == (("shards", "4"), ("slack", "2 minutes"), ("late_lookup", "false"))
    kafka, files = query.inputs
    assert (kafka.source.kind, kafka.source.name, kafka.source.options) == (
        "kafka",
        "topic",
        (("brokers", "host:9092"), ("kafka.security.protocol", "SSL")),
    )
    assert (files.source.format, files.source.options, files.time_unit) == (
        "csv",
        (("header", "true"),),
        "microseconds",
    )
    x, y, z = (table.storage for table in query.tables)
    assert (x.kind, x.name, x.shard_by and x.shard_by.sql()) == ("kafka", "out", "HASH(a)")
    assert (y.kind, y.name, y.options) == ("hive", "db.y", (("time", "t"),))
    assert (z.kind, z.name) == ("console", "")


@pytest.mark.parametrize(
    ("clause", "unit", "disorder"),
    [
        ("TIME t", "seconds", None),
        ("TIME t IN MILLISECONDS", "milliseconds", None),
        ("TIME t ORDERED", "seconds", 0),
        ("TIME t IN MICROSECONDS ORDERED", "microseconds", 0),
        ("TIME t ORDERED WITHIN INTERVAL '0 seconds'", "seconds", 0),
        ("TIME t IN MILLISECONDS ORDERED WITHIN INTERVAL '1 minute 20 seconds'", "milliseconds", 80_000_000),
        ("TIME t ordered within interval 250 milliseconds", "seconds", 250_000),
    ],
)
def test_event_time(clause, unit, disorder):
    query = compile_text(f"CREATE APPLICATION a; CREATE INPUT TABLE s (t, a) FROM SCRIBE('s') {clause};")
    (table,) = query.inputs
    assert (table.time, table.time_unit, table.disorder) == ("t", unit, disorder)


def test_functions_are_kept_as_written():
    query = compile_text(
        STREAMS + "CREATE VIEW v AS SELECT date_add(t, 1) AS a, nvl(k, 'x') AS b, LEFT(k, 2) AS c FROM l;"
    )
    shown = [c.expression.sql("spark") for c in query.views[0].select.columns]
    assert shown == ["DATE_ADD(l.t, 1)", "NVL(l.k, 'x')", "LEFT(l.k, 2)"]
