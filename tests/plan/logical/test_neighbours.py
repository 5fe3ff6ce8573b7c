"""Time-series and ASOF joins mean what DuckDB's ASOF join and a distance say."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pytest

from braid.api import compile_text, explain
from braid.plan.serialise import dumps, loads
from tests.plan.interpreter import connection, run
from tests.plan.oracle import rows

SCHEMA = pa.schema(
    [("id", pa.int64()), ("t", pa.timestamp("us", tz="UTC")), ("k", pa.string()), ("x", pa.float64())]
)
COLUMNS = "id BIGINT, t TIMESTAMP, k STRING, x DOUBLE"
KEYS = {"per key": "l.k = r.k", "one series": ""}
WITHIN = {"any distance": None, "at most 40 s": 40}
CONDITIONS = {
    "l.t >= r.t": "l.t >= r.t",
    "l.t > r.t": "l.t > r.t",
    "r.t >= l.t": "l.t <= r.t",
    "l.t < r.t": "l.t < r.t",
}
"""As written, and as DuckDB wants it."""


def series(seed: int, count: int = 60) -> dict[str, pa.Table]:
    """Two streams in any order; no two records of a stream are at the same time."""
    rng = random.Random(seed)
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)

    def maybe(value: object) -> object:
        return None if rng.random() < 0.05 else value

    tables = {}
    for name in ("l", "r"):
        times = rng.sample(range(0, 600, 5), count)
        tables[name] = pa.Table.from_pylist(
            [
                {
                    "id": i,
                    "t": maybe(start + dt.timedelta(seconds=second)),
                    "k": maybe(rng.choice("abc")),
                    "x": maybe(float(rng.randrange(100))),
                }
                for i, second in enumerate(times)
            ],
            SCHEMA,
        )
    return tables


def found(select: str, inputs: dict[str, pa.Table], seed: int) -> pa.Table:
    """The rows that the plan gives; its other forms must say the same."""
    compiled = compile_text(
        "CREATE APPLICATION app;\n"
        + "".join(f'CREATE INPUT TABLE {t} ({COLUMNS}) FROM SCRIBE("{t}") TIME t;\n' for t in "lr")
        + f'CREATE TABLE out AS {select} STORAGE SCRIBE(category = "out");'
    )
    assert loads(dumps(compiled.plan)) == compiled.plan
    assert compile_text(explain(compiled, "pql")).plan == compiled.plan
    return run(compiled.plan, inputs, seed)["out"]


def expected(query: str, inputs: dict[str, pa.Table]) -> pa.Table:
    duck = connection()
    for name, table in inputs.items():
        duck.register(name, table)
    return duck.sql(query).to_arrow_table()


def on(*parts: str) -> str:
    return " AND ".join(part for part in parts if part)


def clause(word: str, *parts: str) -> str:
    return f"{word} {on(*parts)}" if on(*parts) else ""


@pytest.mark.parametrize("within", WITHIN)
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("kind", ["", "LEFT"])
def test_asof(kind: str, condition: str, keys: str, within: str) -> None:
    inputs, limit = series(3), WITHIN[within]
    text = found(
        f"SELECT l.id, r.id AS rid, r.x FROM l ASOF {kind} JOIN r MATCH_CONDITION ({condition}) "
        f"{clause('ON', KEYS[keys], 'r.x > 20', 'l.x < 90')} "
        + (f"WITHIN INTERVAL '{limit} seconds'" if limit else ""),
        inputs,
        seed=1,
    )
    near = f"abs(epoch_us(l.t) - epoch_us(r.t)) <= {(limit or 10**6) * 1_000_000} AND l.x < 90"
    matched = (
        f"SELECT l.id, r.id AS rid, r.x, {near} AS near FROM l ASOF LEFT JOIN (FROM r WHERE x > 20) AS r "
        f"ON {on(KEYS[keys], CONDITIONS[condition])}"
    )
    query = f"SELECT id, CASE WHEN near THEN rid END AS rid, CASE WHEN near THEN x END AS x FROM ({matched})"
    if not kind:
        query = f"SELECT * FROM ({query}) WHERE rid IS NOT NULL"
    assert rows(text) == rows(expected(query, inputs))
    assert text.num_rows > 10


def neighbours(keys: str, mine: str = "l", other: str = "r") -> str:
    """For each row of one stream the rows before and after it in the other."""
    return f"""
        SELECT {mine}.*, b.id AS bid, b.t AS bt, b.x AS bx, a.id AS aid, a.t AS nt, a.x AS ax
        FROM {mine} ASOF LEFT JOIN {other} AS b ON {on(keys.replace(f"{other}.", "b."), f"{mine}.t >= b.t")}
        ASOF LEFT JOIN {other} AS a ON {on(keys.replace(f"{other}.", "a."), f"{mine}.t < a.t")}
    """


@pytest.mark.parametrize("within", WITHIN)
@pytest.mark.parametrize("keys", KEYS)
def test_asof_nearest_and_interpolated(keys: str, within: str) -> None:
    inputs, limit = series(5), WITHIN[within]
    text = found(
        "SELECT l.id, r.id AS rid, INTERPOLATE(r.x) AS x, PREVIOUS(r.id) AS before, NEXT(r.id) AS after "
        f"FROM l ASOF LEFT JOIN r {clause('ON', KEYS[keys])} MATCH NEAREST "
        + (f"WITHIN INTERVAL '{limit} seconds'" if limit else ""),
        inputs,
        seed=2,
    )
    far = (limit or 10**6) * 1_000_000
    gaps = f"""
        SELECT *, epoch_us(t) - epoch_us(bt) AS back, epoch_us(nt) - epoch_us(t) AS ahead
        FROM ({neighbours(KEYS[keys])})
    """
    query = f"""
        SELECT id,
          CASE WHEN back <= {far} AND (ahead IS NULL OR ahead > {far} OR back <= ahead) THEN bid
               WHEN ahead <= {far} THEN aid END AS rid,
          CASE WHEN back = 0 THEN bx WHEN back <= {far} AND ahead <= {far}
               THEN bx + (ax - bx) * (back / (back + ahead)) END AS x,
          CASE WHEN back <= {far} THEN bid END AS before,
          CASE WHEN ahead <= {far} THEN aid END AS after
        FROM ({gaps})
    """
    assert rows(rounded(text)) == rows(rounded(expected(query, inputs)))
    assert text.column("x").null_count < text.num_rows - 5


def rounded(table: pa.Table) -> pa.Table:
    """Values to nine digits: two engines may round the last bit differently."""
    values = [None if x is None else round(x, 9) for x in table.column("x").to_pylist()]
    return table.set_column(table.column_names.index("x"), "x", pa.array(values, pa.float64()))


@pytest.mark.parametrize("within", WITHIN)
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("sparse", ["", "SPARSE"])
@pytest.mark.parametrize("kind", ["", "LEFT", "RIGHT", "FULL"])
def test_timeseries(kind: str, sparse: str, keys: str, within: str) -> None:
    inputs, limit = series(7), WITHIN[within]
    text = found(
        f"SELECT l.id, r.id AS rid FROM l {kind} TIMESERIES {sparse} JOIN r {clause('ON', KEYS[keys])} "
        + (f"WITHIN INTERVAL '{limit} seconds'" if limit else ""),
        inputs,
        seed=3,
    )
    far = (limit or 10**6) * 1_000_000
    chosen = []
    for mine, other in (("l", "r"), ("r", "l")):
        query = neighbours(KEYS[keys], mine, other)
        for near, gap in (
            ("bid", "epoch_us(t) - epoch_us(bt)"),
            ("aid", "epoch_us(nt) - epoch_us(t)"),
        ):
            better = "TRUE"
            if sparse:
                back, ahead = "epoch_us(t) - epoch_us(bt)", "epoch_us(nt) - epoch_us(t)"
                better = f"({ahead} IS NULL OR {back} <= {ahead})"
                better = better if near == "bid" else f"({back} IS NULL OR {ahead} < {back})"
            pair = f"id AS {mine}id, {near} AS {other}id"
            chosen.append(
                f"SELECT lid, rid FROM (SELECT {pair} FROM ({query}) WHERE {gap} <= {far} AND {better})"
            )
    pairs = " UNION ".join(chosen)
    parts = [f"SELECT lid AS id, rid FROM ({pairs})"]
    if kind in ("LEFT", "FULL"):
        parts.append(f"SELECT id, NULL FROM l WHERE id NOT IN (SELECT lid FROM ({pairs}))")
    if kind in ("RIGHT", "FULL"):
        parts.append(f"SELECT NULL, id FROM r WHERE id NOT IN (SELECT rid FROM ({pairs}))")
    assert rows(text) == rows(expected(" UNION ALL ".join(parts), inputs))
    assert text.num_rows > 20


def test_vertica_spellings_are_asof_joins() -> None:
    inputs = series(9)
    select = "SELECT l.id, r.id AS rid FROM l"
    for word, condition in (("PREVIOUS", ">="), ("NEXT", "<=")):
        plain = found(
            f"{select} ASOF LEFT JOIN r MATCH_CONDITION (l.t {condition} r.t) ON l.k = r.k", inputs, 4
        )
        for times in (f"l.t INTERPOLATE {word} VALUE r.t", f"r.t INTERPOLATE {word} VALUE l.t"):
            for join in ("LEFT OUTER JOIN", "ASOF LEFT JOIN"):
                other = found(f"{select} {join} r ON {times} AND l.k = r.k", inputs, 5)
                assert rows(other) == rows(plain)


def test_neighbours_travel_through_a_chain() -> None:
    """Interpolated values, after a further join and with filters, are those of the join alone."""
    inputs = series(11)
    alone = found(
        "SELECT l.id, INTERPOLATE(r.x) AS x FROM l ASOF JOIN r MATCH_CONDITION (l.t >= r.t) ON l.k = r.k "
        "WITHIN INTERVAL '1 minute' WHERE l.id > 9",
        inputs,
        6,
    )
    chain = found(
        "SELECT l.id, INTERPOLATE(r.x) AS x FROM l ASOF JOIN r MATCH_CONDITION (l.t >= r.t) ON l.k = r.k "
        "WITHIN INTERVAL '1 minute' JOIN l AS again ON again.id = l.id AND again.t = l.t WHERE l.id > 9",
        inputs,
        6,
    )
    assert rows(rounded(chain)) == rows(rounded(alone))
    assert alone.num_rows > 10
