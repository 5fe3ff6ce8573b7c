"""Applications of every kind of join, and the same questions for DuckDB or, where need be, in Python."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from braid.log.log import Log
from tests.spark.oracle import START

Streams = dict[str, list[dict[str, object]]]
NAMES = ("l", "r", "o", "d", "b", "f")
SORTED = "sorted."
"""Prefix of the categories that hold `l` and `r` in order of time."""
DISORDER = 20_000
"""Milliseconds by which a record may come after a later one."""
COLUMNS = "id bigint, t timestamp, k string, x double"


@dataclass(frozen=True)
class Question:
    """One application.

    Parameters
    ----------
    name
        Of the application.
    select
        What its table is, in PQL.
    answer
        SQL for DuckDB, or a function of the streams that gives the rows.
    within
        Milliseconds within which its inputs are declared ordered, and are; None leaves it to adaptive stream
        time, which may call rows late, and so is for joins that find late rows.
    options
        Further options.
    chunk_rows, batch_rows
        How its input is cut. A join takes up to eight times `batch_rows` at once, in which no row is late, so
        it takes small ones for the disorder to be seen: were the bound 1 ms, nearly all answers were wrong.
    restarted
        Whether it is stopped when half of the input has come, and started again for the rest.
    """

    name: str
    select: str
    answer: str | Callable[[Streams], list[tuple[object, ...]]]
    within: int | None = DISORDER
    options: str = ""
    shards: int = 2
    chunk_rows: int = 60
    batch_rows: int = 150
    restarted: bool = False

    def pql(self) -> str:
        """The program."""
        prefix = SORTED if self.within == 0 else ""
        order = "" if self.within is None else " ORDERED"
        order += f" WITHIN INTERVAL '{self.within} milliseconds'" if self.within else ""
        inputs = "\n".join(
            f"CREATE INPUT TABLE {name} ({COLUMNS}) "
            f'FROM SCRIBE("{prefix}{name}") TIME t IN MILLISECONDS{order};'
            for name in NAMES
        )
        return f"""
        CREATE APPLICATION {self.name}
          WITH (shards = {self.shards}, chunk_rows = {self.chunk_rows}, batch_rows = {self.batch_rows},
                percentile = 0.001, idle_timeout = '1 hour'{self.options});
        {inputs}
        CREATE TABLE out AS {self.select} STORAGE SCRIBE(category = "{self.name}.out");
        """

    def sql(self, streams: Streams, columns: list[str]) -> str:
        """What DuckDB is asked."""
        if isinstance(self.answer, str):
            return self.answer
        rows = ", ".join(
            "(" + ", ".join("NULL" if value is None else str(value) for value in row) + ")"
            for row in self.answer(streams)
        )
        return f"SELECT * FROM (VALUES {rows}) AS found({', '.join(columns)})"


def generate(seed: int, rows: int = 300) -> Streams:
    """Streams as they arrive, out of order, no two records of one at the same time."""
    rng = random.Random(seed)
    streams: Streams = {}
    for name in NAMES:
        times = sorted(rng.sample(range(0, 600_000, 250), rows))
        streams[name] = [
            {
                "id": number,
                "t": None if rng.random() < 0.01 else START * 1000 + time,
                "k": None if rng.random() < 0.03 else f"k{rng.randrange(12)}",
                "x": round(rng.uniform(-100, 100), 3),
            }
            for number, time in enumerate(times)
        ]
        arrivals = [time + rng.uniform(0, DISORDER) for time in times]
        streams[name].sort(key=lambda row, at=arrivals: at[_number(row)])  # type: ignore[misc]
    return streams


def categories(streams: Streams) -> Streams:
    """What is published: the streams as they arrive, and `l` and `r` in order of time besides."""
    return streams | {SORTED + name: sorted(streams[name], key=_number) for name in ("l", "r")}


def _number(row: dict[str, object]) -> int:
    number = row["id"]
    assert isinstance(number, int)
    return number


def halves(streams: Streams) -> tuple[Streams, Streams]:
    """What arrives before a moment, and after it."""
    first = {name: rows[: len(rows) // 2] for name, rows in streams.items()}
    return first, {name: rows[len(rows) // 2 :] for name, rows in streams.items()}


def publish(log: Log, streams: Streams, seed: int = 1) -> None:
    """Append all streams as JSON, each in four commits of any size."""
    rng = random.Random(seed)
    for name, rows in streams.items():
        category = log.create(name, raw=True)
        cuts = sorted(rng.sample(range(1, len(rows)), 3))
        for start, stop in itertools.pairwise([0, *cuts, len(rows)]):
            category.append(pa.table({"value": [json.dumps(row) for row in rows[start:stop]]}))


def asof(condition: str, key: str, within: int | None, kind: str) -> str:
    """DuckDB's ASOF join with a bound."""
    near = f"abs(epoch_us(l.t) - epoch_us(r.t)) <= {(within or 10**6) * 1_000_000}"
    found = (
        f"SELECT l.id AS lid, r.id AS rid, {near} AS near FROM l ASOF LEFT JOIN r "
        f"ON {' AND '.join(filter(None, (key, condition)))}"
    )
    query = f"SELECT lid, CASE WHEN near THEN rid END AS rid FROM ({found})"
    return query if kind == "LEFT" else f"SELECT * FROM ({query}) WHERE rid IS NOT NULL"


def neighbours(mine: str, other: str) -> str:
    """For each row of one stream the rows before and after it in the other."""
    return f"""
        SELECT {mine}.*, b.id AS bid, b.t AS bt, b.x AS bx, a.id AS aid, a.t AS nt, a.x AS ax,
          epoch_us({mine}.t) - epoch_us(b.t) AS back, epoch_us(a.t) - epoch_us({mine}.t) AS ahead
        FROM {mine} ASOF LEFT JOIN {other} AS b ON {mine}.k = b.k AND {mine}.t >= b.t
        ASOF LEFT JOIN {other} AS a ON {mine}.k = a.k AND {mine}.t < a.t
    """


def timeseries(kind: str = "", sparse: bool = False, within: int = 40) -> str:
    """The pairs of both directions, each once, and what has no partner."""
    far, chosen = within * 1_000_000, []
    for mine, other in (("l", "r"), ("r", "l")):
        for near, gap, rest in (("bid", "back", "ahead"), ("aid", "ahead", "back")):
            nearer = (
                f"({rest} IS NULL OR {gap} {'<=' if near == 'bid' else '<'} {rest})" if sparse else "TRUE"
            )
            pair = f"id AS {mine}id, {near} AS {other}id"
            query = f"SELECT {pair} FROM ({neighbours(mine, other)}) WHERE {gap} <= {far} AND {nearer}"
            chosen.append(f"SELECT lid, rid FROM ({query})")
    pairs = " UNION ".join(chosen)
    parts = [f"SELECT lid, rid FROM ({pairs})"]
    if kind in ("LEFT", "FULL"):
        parts.append(f"SELECT id, NULL FROM l WHERE id NOT IN (SELECT lid FROM ({pairs}))")
    if kind in ("RIGHT", "FULL"):
        parts.append(f"SELECT NULL, id FROM r WHERE id NOT IN (SELECT rid FROM ({pairs}))")
    return " UNION ALL ".join(parts)


def nearest(within: int) -> str:
    """The nearer neighbour, and the value interpolated between both."""
    far = within * 1_000_000
    return f"""
        SELECT id AS lid,
          CASE WHEN back <= {far} AND (ahead IS NULL OR ahead > {far} OR back <= ahead) THEN bid
               WHEN ahead <= {far} THEN aid END AS rid,
          round(CASE WHEN back = 0 THEN bx WHEN back <= {far} AND ahead <= {far}
               THEN bx + (ax - bx) * (back / (back + ahead)) END, 6) AS x
        FROM ({neighbours("l", "r")})
    """


def one_to_one(low: int, high: int, left: bool) -> Callable[[Streams], list[tuple[object, ...]]]:
    """Left rows in order of time take the first right row that is free."""

    def answer(streams: Streams) -> list[tuple[object, ...]]:
        free: dict[object, list[tuple[int, object]]] = {}
        for row in sorted((row for row in streams["r"] if row["t"] is not None), key=lambda row: row["t"]):
            free.setdefault(row["k"], []).append((row["t"], row["id"]))
        found: list[tuple[object, ...]] = []
        for row in sorted(streams["l"], key=lambda row: (row["t"] is None, row["t"])):
            mine = [] if None in (row["t"], row["k"]) else free.get(row["k"], [])
            pick = next((one for one in mine if low * 1000 <= one[0] - row["t"] <= high * 1000), None)
            if pick is not None:
                mine.remove(pick)
            if pick is not None or left:
                found.append((row["id"], None if pick is None else pick[1]))
        return found

    return answer


PAIR = "SELECT l.id AS lid, r.id AS rid FROM l"
WITHIN = "WITHIN INTERVAL '40 seconds'"


def window(of: str, by: str, low: int, high: int) -> str:
    """A bound in time, in words of both PQL and DuckDB."""
    return f"{of}.t BETWEEN {by}.t - INTERVAL '{low} seconds' AND {by}.t + INTERVAL '{high} seconds'"


def same(name: str, select: str, **more: object) -> Question:
    """An application whose text DuckDB understands as it is."""
    return Question(name, select, select, **more)  # type: ignore[arg-type]


ON = f"l.k = r.k AND {window('r', 'l', 20, 30)}"
CHAIN = "SELECT o.id AS oid, d.id AS did, b.id AS bid FROM o"
O_D = f"o.k = d.k AND {window('d', 'o', 10, 40)}"
D_B = f"b.k = d.k AND {window('b', 'd', 5, 50)}"
O_B = f"b.k = o.k AND {window('b', 'o', 15, 60)}"
B_F = f"f.k = o.k AND {window('f', 'b', 30, 30)}"
QUESTIONS = [
    Question(
        "ts_pairs",
        f"{PAIR} TIMESERIES JOIN r ON l.k = r.k {WITHIN}",
        timeseries(),
        restarted=True,
        chunk_rows=17,
    ),
    Question(
        "ts_far",
        f"{PAIR} TIMESERIES JOIN r ON l.k = r.k",
        timeseries(within=10**6),
        shards=5,
        chunk_rows=15,
        batch_rows=40,
    ),
    Question(
        "ts_sparse",
        f"{PAIR} FULL TIMESERIES SPARSE JOIN r ON l.k = r.k {WITHIN}",
        timeseries("FULL", True),
        restarted=True,
        batch_rows=70,
    ),
    Question(
        "ts_ordered",
        f"{PAIR} LEFT TIMESERIES JOIN r ON l.k = r.k {WITHIN}",
        timeseries("LEFT"),
        within=0,
        restarted=True,
    ),
    Question(
        "asof_previous",
        f"{PAIR} ASOF LEFT JOIN r MATCH_CONDITION (l.t >= r.t) ON l.k = r.k {WITHIN}",
        asof("l.t >= r.t", "l.k = r.k", 40, "LEFT"),
        shards=5,
        restarted=True,
        chunk_rows=25,
    ),
    Question(
        "asof_next",
        f"{PAIR} ASOF JOIN r MATCH_CONDITION (l.t <= r.t) ON l.k = r.k",
        asof("l.t <= r.t", "l.k = r.k", None, ""),
        restarted=True,
        batch_rows=90,
    ),
    Question(
        "asof_all_rows",
        f"{PAIR} ASOF LEFT JOIN r MATCH_CONDITION (l.t > r.t)",
        asof("l.t > r.t", "", None, "LEFT"),
        within=0,
        shards=3,
    ),
    Question(
        "asof_nearest",
        f"SELECT l.id AS lid, r.id AS rid, round(INTERPOLATE(r.x), 6) AS x FROM l "
        f"ASOF LEFT JOIN r ON l.k = r.k MATCH NEAREST {WITHIN}",
        nearest(40),
        restarted=True,
        chunk_rows=33,
    ),
    Question(
        "consume",
        f"{PAIR} LEFT JOIN r ON {ON} MATCH FIRST CONSUME",
        one_to_one(-20, 30, True),
        restarted=True,
        chunk_rows=7,
        batch_rows=20,
    ),
    Question(
        "consume_inner",
        f"{PAIR} JOIN r ON {ON} MATCH FIRST CONSUME",
        one_to_one(-20, 30, False),
        chunk_rows=15,
        batch_rows=40,
    ),
    Question(
        "emit_after",
        f"{PAIR} FULL JOIN r ON {ON} EMIT UNMATCHED AFTER INTERVAL '1 hour'",
        f"{PAIR} FULL JOIN r ON {ON}",
        chunk_rows=15,
        batch_rows=40,
    ),
    same("time_inner", f"{PAIR} JOIN r ON {window('r', 'l', 2, 3)}", within=None, shards=3),
    same(
        "time_left",
        f"{PAIR} LEFT JOIN r ON {window('r', 'l', 1, 1)}",
        shards=3,
        restarted=True,
        chunk_rows=15,
        batch_rows=40,
    ),
    same(
        "time_right",
        f"{PAIR} RIGHT JOIN r ON {window('r', 'l', 1, 1)}",
        shards=3,
        chunk_rows=15,
        batch_rows=40,
    ),
    same(
        "time_full", f"{PAIR} FULL JOIN r ON {window('r', 'l', 0, 1)}", shards=3, chunk_rows=15, batch_rows=40
    ),
    same("three", f"{CHAIN} JOIN d ON {O_D} JOIN b ON {D_B}", within=None),
    same(
        "three_left",
        f"{CHAIN} LEFT JOIN d ON {O_D} LEFT JOIN b ON {O_B}",
        shards=3,
        restarted=True,
        chunk_rows=15,
        batch_rows=40,
    ),
    same("three_mixed", f"{CHAIN} LEFT JOIN d ON {O_D} JOIN b ON {O_B}", chunk_rows=7, batch_rows=20),
    same(
        "held",
        f"SELECT l.id AS lid, r.id AS rid, d.id AS did FROM l "
        f"LEFT JOIN r ON l.k = r.k AND {window('r', 'l', 0, 90)} "
        f"FULL JOIN d ON l.k = d.k AND {window('d', 'l', 2, 3)}",
    ),
    same(
        "four",
        f"SELECT o.id AS oid, d.id AS did, b.id AS bid, f.id AS fid FROM o JOIN d ON {O_D} "
        f"LEFT JOIN b ON {D_B} LEFT JOIN f ON {B_F}",
    ),
]
