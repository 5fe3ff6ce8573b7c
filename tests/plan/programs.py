"""Random programs and rows for them."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
from hypothesis import strategies as st

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("k", pa.string()),
        ("n", pa.int64()),
        ("m", pa.int32()),
        ("x", pa.float64()),
        ("s", pa.string()),
    ]
)
COLUMNS = "id bigint, t timestamp, k string, n bigint, m int, x double, s string"

LEFT = [
    "l.n",
    "l.s",
    "l.n + 1",
    "COALESCE(l.s, 'none')",
    "ABS(l.x)",
    "CASE WHEN l.n > 2 THEN 'big' ELSE 'small' END",
    "l.n IS NULL",
    "l.t + INTERVAL '1 minute'",
    "CONCAT(l.k, 'x')",
    "'constant'",
    "7",
]
RIGHT = ["r.n", "r.s", "r.n * 2 - 1", "COALESCE(r.s, 'example')", "r.x IS NULL", "UPPER(r.k)"]
BOTH = [
    "COALESCE(r.s, l.s)",
    "l.n + r.n",
    "CASE WHEN r.id IS NULL THEN 'left' WHEN l.id IS NULL THEN 'right' ELSE 'both' END",
]
KEYS = [
    "l.k = r.k",
    "l.n = r.n",
    "r.m = l.n",
    "UPPER(l.s) = UPPER(r.s)",
    "l.x = r.x",
    "l.m = r.x",
    "l.n + 1 = r.n",
]
RESIDUALS = [
    "l.n < r.n",
    "r.x <= l.x",
    "l.m + 1 <> r.n",
    "(l.n > r.n OR l.s = r.s)",
    "NOT (l.n = r.n)",
    "NOT (l.n < r.n AND l.s = r.s)",
    "l.s <=> r.s",
    "r.n BETWEEN l.n - 1 AND l.n + 2",
    "l.n IN (r.n, 3)",
    "l.n NOT IN (r.n, r.m)",
    "l.n + r.n > 3",
    "l.n - r.n = 1",
    "ABS(l.n - r.n) < 2",
    "3 <= ABS(r.m - l.m)",
    "(l.x > 1 OR r.n > l.n)",
    "(r.s IS NULL OR r.s <> l.s)",
]
POST_ONLY = ["(l.n = r.n) = (l.m = 1)", "l.n * r.n > 2", "CONCAT(l.s, r.s) = 'ab'", "l.x + r.x > 1"]
ONE_SIDED = ["l.n > 1", "r.s IS NOT NULL", "r.x > 0.5", "l.s = 'a' OR l.n = 2"]
WHERE = [
    "l.n > 0",
    "r.n IS NULL",
    "r.n > 1",
    "l.n < r.n",
    "COALESCE(r.n, 5) > 2",
    "l.s = 'a' OR r.s = 'a'",
    "l.x IS NOT NULL",
]
BOUNDS = [
    "r.t BETWEEN l.t - INTERVAL '3 minutes' AND l.t + INTERVAL '3 minutes'",
    "r.t >= l.t AND r.t < l.t + INTERVAL '5' MINUTE",
    "l.t = r.t",
    "r.t - INTERVAL '1 minute' > l.t AND l.t + INTERVAL '4 minutes' >= r.t",
]
TYPES = ["INNER", "LEFT", "RIGHT", "FULL"]
MODES = ["", "MATCH FIRST", "MATCH NEAREST", "MATCH EARLIEST", "MATCH LATEST"]


def some(pool: list[str], most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(pool), max_size=most, unique=True)


def where(conditions: list[str]) -> str:
    return "\nWHERE " + " AND ".join(f"({c})" for c in conditions) if conditions else ""


@st.composite
def join_selects(draw: st.DrawFn, left: str, right: str, extra: str = "") -> str:
    """A SELECT of two relations with all that may come in ON, MATCH and WHERE."""
    kind, mode = draw(st.sampled_from(TYPES)), draw(st.sampled_from(MODES))
    residuals = RESIDUALS + (POST_ONLY if kind == "INNER" and not mode else [])
    on = [
        *draw(some(KEYS, 2)),
        draw(st.sampled_from(BOUNDS)),
        *draw(some(residuals, 2)),
        *(f"({c})" for c in draw(some(ONE_SIDED, 2))),
    ]
    items = draw(some(LEFT + RIGHT + BOTH, 5))
    columns = ["l.id AS lid", "r.id AS rid", *(f"{item} AS c{i}" for i, item in enumerate(items))]
    if extra:
        columns.append(extra)
    on = draw(st.permutations(on))
    text = f"SELECT {', '.join(columns)}\nFROM {left} AS l {kind} JOIN {right} AS r\nON {' AND '.join(on)}"
    return f"{text}\n{mode}{where(draw(some(WHERE, 2)))}" if mode else text + where(draw(some(WHERE, 2)))


@st.composite
def programs(draw: st.DrawFn) -> str:
    """One join view, with or without views around it, and one or several tables."""
    shape = draw(st.sampled_from(["plain", "plain", "views", "tables", "chain", "nested"]))
    statements = ["CREATE APPLICATION app;"]
    statements += [
        f'CREATE INPUT TABLE {name} ({COLUMNS}) FROM SCRIBE("{name}");' for name in ("a", "b", "c")
    ]
    left, right = "a", "b"
    if shape == "views":
        statements.append(
            "CREATE VIEW narrow AS SELECT id, t, k, n + 0 AS n, m, x, LOWER(s) AS s FROM a "
            "WHERE n IS NOT NULL;"
        )
        left = "narrow"
    if shape == "chain":
        first, second = draw(st.sampled_from(TYPES)), draw(st.sampled_from(TYPES))
        statements.append(
            "CREATE VIEW joined AS SELECT l.id AS lid, r.id AS rid, q.id AS qid, "
            "COALESCE(r.n, q.n, l.n) AS n, l.n + 1 AS ln\n"
            f"FROM a AS l {first} JOIN b AS r ON l.k = r.k AND {draw(st.sampled_from(BOUNDS))}\n"
            f"{second} JOIN c AS q ON q.k = COALESCE(r.k, l.k) AND "
            f"q.t BETWEEN {draw(st.sampled_from('lr'))}.t - INTERVAL '2 minutes' AND "
            + draw(st.sampled_from(["r.t + INTERVAL '2 minutes'", "l.t + INTERVAL '1 minute'"]))
        )
        # Both bounds must be on the same relation.
        text = statements[-1]
        base = "r" if "AND r.t + INTERVAL '2 minutes'" in text else "l"
        text = text.replace("BETWEEN l.t - INTERVAL '2", f"BETWEEN {base}.t - INTERVAL '2")
        text = text.replace("BETWEEN r.t - INTERVAL '2", f"BETWEEN {base}.t - INTERVAL '2")
        statements[-1] = text + where(draw(some(["l.n > 0", "q.n IS NULL", "r.n > 1"], 2))) + ";"
    else:
        time = "l.t AS t" if shape == "nested" else ""
        select = draw(join_selects(left, right, time))
        statements.append(f"CREATE VIEW joined AS {select};")
    if shape == "nested":
        statements.append(
            "CREATE VIEW outer_view AS SELECT j.lid, j.rid, r.id AS cid, COALESCE(r.s, 'none') AS cs\n"
            f"FROM joined AS j {draw(st.sampled_from(TYPES))} JOIN c AS r "
            "ON r.id = j.lid AND r.t BETWEEN j.t - INTERVAL '9 minutes' AND j.t + INTERVAL '9 minutes';"
        )
        statements.append(_table("result", "SELECT * FROM outer_view"))
    else:
        filtered = draw(st.sampled_from(["", " WHERE lid > 2"]))
        statements.append(_table("result", f"SELECT * FROM joined{filtered}"))
    if shape == "tables":
        statements.append(_table("second", "SELECT lid + 1 AS next, rid FROM joined WHERE rid IS NOT NULL"))
    return "\n\n".join(statements) + "\n"


def _table(name: str, select: str) -> str:
    return f'CREATE TABLE {name} AS\n{select}\nSTORAGE SCRIBE (category = "{name}");'


def random_rows(rng: random.Random, count: int, first: int = 0) -> pa.Table:
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)

    def maybe(value: object) -> object:
        return None if rng.random() < 0.12 else value

    rows = [
        {
            "id": first + i,
            "t": maybe(start + dt.timedelta(seconds=rng.randrange(0, 900, 15))),
            "k": maybe(rng.choice("ab")),
            "n": maybe(rng.randint(0, 4)),
            "m": maybe(rng.randint(0, 4)),
            "x": maybe(rng.choice([0.0, -0.0, 1.0, 2.0, 0.75, float("nan")])),
            "s": maybe(rng.choice(["a", "b", "B", ""])),
        }
        for i in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def random_inputs(seed: int, least: int = 0) -> dict[str, pa.Table]:
    rng = random.Random(seed)
    return {name: random_rows(rng, rng.randint(least, least + 30)) for name in ("a", "b", "c")}


SERIES_HEADS = [
    "{kind} TIMESERIES JOIN {right}",
    "{kind} TIMESERIES SPARSE JOIN {right}",
    "ASOF {left} JOIN {right} MATCH_CONDITION (l.t >= r.t)",
    "ASOF {left} JOIN {right} MATCH_CONDITION (l.t < r.t)",
    "ASOF {left} JOIN {right} MATCH_CONDITION (l.t <= r.t)",
]
LOOKUPS = [
    'LEFT JOIN LOOKUP("names") AS d ON d.key = l.k',
    'JOIN LOOKUP("names") AS d ON d.key = l.s AND d.n = l.n + 1',
    'JOIN LOOKUP("x") AS l2 ON l2.id = l.id LEFT JOIN LOOKUP("names") AS d ON d.key = l2.name',
]


@st.composite
def other_programs(draw: st.DrawFn) -> str:
    """Joins that DuckDB has no text for: time series, lookups, one-to-one matches, in chains."""
    statements = ["CREATE APPLICATION app;"]
    order = draw(st.sampled_from(["", " ORDERED", " ORDERED WITHIN INTERVAL '1 minute 0.5 seconds'"]))
    statements += [
        f'CREATE INPUT TABLE {name} ({COLUMNS}) FROM SCRIBE("{name}") TIME t{order};'
        for name in ("a", "b", "c")
    ]
    items = [
        "l.id AS lid",
        "r.id AS rid",
        *(f"{e} AS c{i}" for i, e in enumerate(draw(some(LEFT + BOTH, 3)))),
    ]
    head = draw(st.sampled_from([*SERIES_HEADS, "", ""]))
    before, after = draw(st.sampled_from([(), *[(lookup,) for lookup in LOOKUPS]])), ""
    if before:
        items.append("d.name AS name")
    elif draw(st.booleans()):
        after = draw(st.sampled_from(LOOKUPS)).replace("= l.s ", "= COALESCE(r.s, l.s) ")
        items.append("UPPER(d.name) AS name")
    if head:
        kind, left = draw(st.sampled_from(TYPES)), draw(st.sampled_from(["", "LEFT"]))
        join = head.format(kind=kind, left=left, right="b AS r")
        on = [*draw(some(KEYS, 2)), *(f"({c})" for c in draw(some(ONE_SIDED, 2)))]
        join += f" ON {' AND '.join(on)}" if on else ""
        if "ASOF" in join and draw(st.booleans()):
            join += " MATCH NEAREST"
        if "ASOF" in join and "<=" in join:
            items += ["INTERPOLATE(r.x) AS ix", "COALESCE(PREVIOUS(r.n), NEXT(r.n)) AS near"]
        join += " WITHIN INTERVAL '2 minutes'"
    else:
        on = [*draw(some(KEYS, 1)), draw(st.sampled_from(BOUNDS)), *draw(some(RESIDUALS, 1))]
        join = f"LEFT JOIN b AS r ON {' AND '.join(on)}"
        join += draw(st.sampled_from([" MATCH FIRST CONSUME", " EMIT UNMATCHED AFTER INTERVAL '3 seconds'"]))
    chain = ""
    if draw(st.booleans()):
        items.append("q.id AS qid")
        chain = "LEFT JOIN c AS q ON q.k = l.k AND q.t BETWEEN l.t AND l.t + INTERVAL '1 minute'"
    parts = ["FROM a AS l", *before, join, after, chain]
    select = f"SELECT {', '.join(items)}\n" + "\n".join(part for part in parts if part)
    statements.append(f"CREATE VIEW joined AS {select}{where(draw(some(WHERE, 2)))};")
    storage = draw(st.sampled_from(["CONSOLE", "LASER(table = 'out', key = (lid), ttl = '1 day')"]))
    statements.append(f"CREATE TABLE result AS SELECT * FROM joined STORAGE {storage};")
    return "\n\n".join(statements) + "\n"
