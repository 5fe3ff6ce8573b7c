"""Chains of joins of streams and of lookups mean what DuckDB says of the same text."""

from __future__ import annotations

import itertools
import re

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braid.api import compile_text, explain
from braid.core.columns import TIME
from braid.core.side import Side
from braid.kernels.join.spec import JoinType
from braid.plan.kinds.join import JoinStage
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.serialise import dumps, loads
from braid.plan.stages.base import LookupColumn, Plan
from braid.plan.stages.event_times import TimeColumn
from tests.plan.interpreter import connection, run, to_duckdb
from tests.plan.oracle import rows
from tests.plan.programs import COLUMNS, TYPES, random_inputs

NAMES = pa.table(
    {"key": ["a", "b", "B", None], "name": ["first", "second", "", "none"], "rank": [1, 2, 3, 4]}
)
LOOKUP = re.compile(r'LOOKUP\("(\w+)"\)')
MINUTE = 60_000_000


def plan_of(select: str) -> Plan:
    """The plan of one table; its other forms must say the same."""
    inputs = "".join(f'CREATE INPUT TABLE {t} ({COLUMNS}) FROM SCRIBE("{t}") TIME t;\n' for t in "abc")
    text = f'CREATE APPLICATION app;\n{inputs}CREATE TABLE out AS {select} STORAGE SCRIBE(category = "out");'
    compiled = compile_text(text)
    assert loads(dumps(compiled.plan)) == compiled.plan
    assert compile_text(explain(compiled, "pql")).plan == compiled.plan
    return compiled.plan


def check(select: str, seed: int, least: int = 0) -> int:
    """Compare with DuckDB, to which a lookup table is a table; returns the number of rows."""
    inputs = {**random_inputs(seed, least), "names": NAMES}
    duck = connection()
    for name, table in inputs.items():
        duck.register(name, table)
    expected = duck.sql(to_duckdb(LOOKUP.sub(r"\1", select))).to_arrow_table()
    assert rows(run(plan_of(select), inputs, seed)["out"]) == rows(expected), select
    return expected.num_rows


WINDOW = "BETWEEN {0}.t - INTERVAL '1 minute' AND {0}.t + INTERVAL '2 minutes'"
CHAINS = {
    "before a join": (
        'SELECT a.id, d.name, b.id AS bid FROM a JOIN LOOKUP("names") AS d ON d.key = a.s '
        f"LEFT JOIN b ON b.k = a.k AND d.rank >= b.n AND b.t {WINDOW.format('a')}"
    ),
    "after a join": (
        f"SELECT a.id, d.name, b.id AS bid FROM a LEFT JOIN b ON b.k = a.k AND b.t {WINDOW.format('a')} "
        'LEFT JOIN LOOKUP("names") AS d ON d.key = COALESCE(b.s, a.s) WHERE d.rank IS NULL OR d.rank < 3'
    ),
    "on both sides of a join": (
        'SELECT a.id, d.name, e.rank + d.rank AS ranks FROM a JOIN LOOKUP("names") AS d ON a.s = d.key '
        f"FULL JOIN b ON b.k = a.k AND b.t {WINDOW.format('a')} "
        'LEFT JOIN LOOKUP("names") AS e ON e.key = b.s AND e.rank = b.n'
    ),
    "one through the other": (
        'SELECT a.id, e.rank FROM a JOIN LOOKUP("names") AS d ON d.key = a.s '
        'LEFT JOIN LOOKUP("names") AS e ON e.rank = d.rank + 1 WHERE a.n > 0'
    ),
    "alone, by a constant": (
        "SELECT a.id, d.name, a.n + 1 AS n FROM a LEFT JOIN LOOKUP(\"names\") AS d ON d.key = 'b'"
    ),
    "only to see if it is there": 'SELECT a.id FROM a JOIN LOOKUP("names") AS d ON d.key = a.s',
}


@pytest.mark.parametrize("name", CHAINS)
def test_lookups(name: str) -> None:
    assert check(CHAINS[name], seed=4, least=30) > 5


def test_views_with_lookups_keep_apart() -> None:
    inputs = f'CREATE APPLICATION app; CREATE INPUT TABLE a ({COLUMNS}) FROM SCRIBE("a") TIME t;'
    views = """
        CREATE VIEW one AS SELECT a.id, d.name FROM a JOIN LOOKUP("names") AS d ON d.key = a.s;
        CREATE VIEW two AS SELECT one.id, one.name, d.rank FROM one
        LEFT JOIN LOOKUP("ranks") AS d ON d.key = one.name;
        CREATE TABLE out AS SELECT * FROM two WHERE rank IS NULL OR rank > 1 STORAGE CONSOLE;
    """
    [stage] = compile_text(inputs + views).plan.stages
    assert isinstance(stage, SlicerStage)
    first, second = stage.lookups
    assert (first.table, first.type, first.columns) == (
        "names",
        JoinType.INNER,
        (LookupColumn("d__name", "name", "string"),),
    )
    assert (second.table, second.type, second.keys[0].sql) == ("ranks", JoinType.LEFT, "d__name")
    assert second.columns == (LookupColumn("d_2__rank", "rank", "double"),)
    assert stage.filter == "d_2__rank IS NULL OR d_2__rank > 1"


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kinds=st.tuples(*[st.sampled_from(TYPES)] * 3),
    bases=st.tuples(st.sampled_from("a"), st.sampled_from("ab"), st.sampled_from("abc")),
    keyed=st.tuples(*[st.booleans()] * 3),
    where=st.sampled_from(["", " WHERE a.n > 0", " WHERE b.n IS NULL AND d.id > 3", " WHERE c.n > 1"]),
    seed=st.integers(0, 1000),
)
def test_four_streams(
    kinds: tuple[str, ...], bases: tuple[str, ...], keyed: tuple[bool, ...], where: str, seed: int
) -> None:
    """Any types, bounds against any earlier stream, and joins by time alone."""
    select = "SELECT a.id AS aid, b.id AS bid, c.id AS cid, d.id AS did FROM a"
    for (alias, table), kind, base, key in zip(
        {"b": "b", "c": "c", "d": "a"}.items(), kinds, bases, keyed, strict=True
    ):
        keys = (
            f"{alias}.k = {base}.k AND {alias}.n = {base}.n AND " if key else f"{alias}.n = {base}.n + 1 AND "
        )
        bounds = WINDOW.format(base) if key else f"BETWEEN {base}.t AND {base}.t + INTERVAL '30 seconds'"
        select += f" {kind} JOIN {table} AS {alias} ON {keys}{alias}.t {bounds}"
    check(select + where, seed)


@pytest.mark.parametrize(
    ("kind", "mode", "broadcast", "single"),
    [
        ("INNER", "", Side.RIGHT, False),
        ("LEFT", "", Side.RIGHT, False),
        ("LEFT", "MATCH NEAREST", Side.RIGHT, False),
        ("RIGHT", "", Side.LEFT, False),
        ("RIGHT", "MATCH NEAREST", None, True),
        ("FULL", "", None, True),
        ("INNER", "MATCH FIRST CONSUME", None, True),
    ],
)
def test_what_shards_of_a_time_only_join_read(
    kind: str, mode: str, broadcast: Side | None, single: bool
) -> None:
    stage = plan_of(f"SELECT a.id FROM a {kind} JOIN b ON b.t {WINDOW.format('a')} {mode}").stages[-1]
    assert isinstance(stage, JoinStage)
    assert (stage.broadcast, stage.single_shard) == (broadcast, single)
    keyed = plan_of(f"SELECT a.id FROM a {kind} JOIN b ON a.k = b.k AND b.t {WINDOW.format('a')} {mode}")
    assert isinstance(keyed.stages[-1], JoinStage)
    assert (keyed.stages[-1].broadcast, keyed.stages[-1].single_shard) == (None, False)


def test_what_shards_of_a_keyless_series_read() -> None:
    asof = plan_of("SELECT a.id FROM a ASOF LEFT JOIN b MATCH_CONDITION (a.t >= b.t)").stages[-1]
    pairs = plan_of("SELECT a.id FROM a TIMESERIES JOIN b").stages[-1]
    assert isinstance(asof, JoinStage)
    assert isinstance(pairs, JoinStage)
    assert (asof.broadcast, asof.single_shard) == (Side.RIGHT, False)
    assert (pairs.broadcast, pairs.single_shard) == (None, True)


def test_each_event_time_is_held_back_by_what_is_buffered() -> None:
    """The three streams of Hazelcast's design, -1/+3 and -1/+4, and a fourth join that needs them."""
    plan = plan_of(
        "SELECT a.id FROM a "
        "JOIN b ON b.t BETWEEN a.t - INTERVAL '1 minute' AND a.t + INTERVAL '3 minutes' "
        "JOIN c ON c.t BETWEEN b.t - INTERVAL '1 minute' AND b.t + INTERVAL '4 minutes' "
        "JOIN a AS d ON d.t BETWEEN c.t - INTERVAL '2 minutes' AND c.t "
        "JOIN b AS e ON e.t = a.t"
    )
    joins = [stage for stage in plan.stages if isinstance(stage, JoinStage)]
    assert joins[0].watermarks == (
        TimeColumn("a__t", Side.LEFT, TIME, 0),
        TimeColumn("b__t", Side.RIGHT, TIME, 0),
    )
    assert joins[1].watermarks == (
        # A row that waits with b.t may have an a.t that is three minutes before it.
        TimeColumn("a__t", Side.LEFT, "a__t", 3 * MINUTE),
        TimeColumn("b__t", Side.LEFT, TIME, 0),
        TimeColumn("c__t", Side.RIGHT, TIME, 0),
    )
    assert joins[2].watermarks == (
        TimeColumn("a__t", Side.LEFT, "a__t", 7 * MINUTE),
        TimeColumn("b__t", Side.LEFT, "b__t", 4 * MINUTE),
        TimeColumn("c__t", Side.LEFT, TIME, 0),
        TimeColumn("a_2__t", Side.RIGHT, TIME, 0),
    )
    slicers = {stage.name: stage for stage in plan.stages if isinstance(stage, SlicerStage)}
    assert slicers["out.left"].watermarks == ((TIME, "a__t"),)
    assert slicers["out__2.left"].watermarks[0] == (TIME, "b__t")
    assert ("a__t", "a__t") in slicers["out__2.left"].watermarks
    assert slicers["out__2.right"].watermarks == ()


def test_lags_hold_in_every_row_that_joins_can_give() -> None:
    """The bound between any two event times, through a chain with outer joins, on DuckDB's own rows."""
    for kinds in itertools.product(["INNER", "LEFT", "FULL"], repeat=2):
        select = (
            f"SELECT a.t AS at, b.t AS bt, c.t AS ct FROM a {kinds[0]} JOIN b ON b.k = a.k AND b.t "
            f"{WINDOW.format('a')} {kinds[1]} JOIN c ON c.n = b.n AND c.t {WINDOW.format('b')}"
        )
        tables = random_inputs(8, 40)
        duck = connection()
        for name, table in tables.items():
            duck.register(name, table)
        second = next(
            s
            for s in plan_of(select.replace(" FROM a", ", d.id FROM a") + " JOIN a AS d ON d.t = a.t").stages
            if isinstance(s, JoinStage) and s.name == "out__2"
        )
        lags = {time.column: time.lag for time in second.watermarks}
        query = f'SELECT max(epoch_us(bt) - epoch_us("at")) FROM ({to_duckdb(select)})'
        [(worst,)] = duck.sql(query.replace("AS at", 'AS "at"')).fetchall()
        assert worst <= lags["a__t"] == 2 * MINUTE


def test_a_symmetric_join_chooses_rows_that_are_further_back() -> None:
    plan = plan_of(
        "SELECT a.id FROM a TIMESERIES JOIN b ON a.k = b.k WITHIN INTERVAL '5 minutes' JOIN c ON c.t = b.t"
    )
    first = next(stage for stage in plan.stages if isinstance(stage, JoinStage))
    assert [(time.column, time.lag) for time in first.watermarks] == [("a__t", 5 * MINUTE), ("b__t", 0)]
    assert (first.lower, first.upper) == (-5 * MINUTE, 5 * MINUTE)


def test_types_of_a_lookup_are_those_of_the_table_that_stores_it() -> None:
    text = f"""
        CREATE APPLICATION app; CREATE INPUT TABLE a ({COLUMNS}) FROM SCRIBE("a") TIME t;
        CREATE TABLE last AS SELECT k, m, t FROM a STORAGE LASER(table = "last", key = (k));
        CREATE TABLE out AS SELECT a.id, d.m, d.T AS seen FROM a JOIN LOOKUP("last") AS d ON d.k = a.s
        STORAGE CONSOLE;
    """
    out = next(stage for stage in compile_text(text).plan.stages if stage.name == "out")
    assert [(c.column, c.type) for c in out.lookups[0].columns] == [("T", "timestamp"), ("m", "int")]


def test_one_to_one_matches_go_by_event_time_then_arrival() -> None:
    select = f"SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.k = b.k AND b.t {WINDOW.format('a')}"
    inputs = random_inputs(12, 40)
    found = rows(run(plan_of(f"{select} MATCH FIRST CONSUME"), inputs, 12)["out"])
    left, right = (
        [{**row, "n": n} for n, row in enumerate(inputs[name].to_pylist()) if row["t"] and row["k"]]
        for name in "ab"
    )
    taken: dict[int, int] = {}
    for row in sorted(left, key=lambda row: (row["t"], row["n"])):
        near = [
            other
            for other in sorted(right, key=lambda other: (other["t"], other["n"]))
            if other["k"] == row["k"]
            and -60 <= (other["t"] - row["t"]).total_seconds() <= 120
            and other["id"] not in taken.values()
        ]
        if near:
            taken[row["id"]] = near[0]["id"]
    # Columns are in order of name: bid, id.
    expected = {(taken.get(row["id"]), row["id"]): 1 for row in inputs["a"].to_pylist()}
    assert found == expected
    assert len(taken) > 10


def test_a_table_is_maintained_before_it_is_looked_up() -> None:
    """Also by what reads it through other stages, and unless it is made of what was looked up in it."""
    text = f"""
        CREATE APPLICATION app;
        CREATE INPUT TABLE a ({COLUMNS}) FROM SCRIBE("a") TIME t;
        CREATE INPUT TABLE b ({COLUMNS}) FROM SCRIBE("b") TIME t;
        CREATE TABLE early AS SELECT a.id, d.n AS m FROM a JOIN LOOKUP("last") AS d ON d.k = a.s
        STORAGE SCRIBE(category = "early");
        CREATE VIEW j AS SELECT a.k AS k, b.n AS n FROM a JOIN b ON a.k = b.k AND b.t {WINDOW.format("a")};
        CREATE TABLE kept AS SELECT k, n FROM j STORAGE LASER(table = "last", key = (k));
        CREATE TABLE own AS SELECT a.s AS k, d.n + 1 AS n FROM a JOIN LOOKUP("own") AS d ON d.k = a.s
        STORAGE LASER(table = "own", key = (k));
    """
    stages = [stage.name for stage in compile_text(text).plan.stages]
    assert stages == ["j.left", "j.right", "j", "early", "own"]
