"""Applications and what DuckDB says about them: the same data, joined in one go."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb
import pyarrow as pa

from braid import api
from braid.home.paths import Home
from braid.log.log import Log

START = 1_700_000_000
LEFT = ("t", "k", "k2", "a", "s")
RIGHT = ("t", "k", "k2", "b", "s")


@dataclass(frozen=True)
class Case:
    """An application over the inputs `l` and `r`, and the same question for DuckDB."""

    name: str
    select: str
    join: str = "LEFT JOIN"
    on: str = "l.k = r.k"
    match: str = ""
    where: str = ""
    low: int = -30
    high: int = 60
    shards: int = 2
    options: str = ""

    def pql(self, prefix: str = "") -> str:
        """The program."""
        window = (
            f"r.t BETWEEN l.t + INTERVAL '{self.low} seconds' AND l.t + INTERVAL '{self.high} seconds'"
            if self.low >= 0
            else f"r.t BETWEEN l.t - INTERVAL '{-self.low} seconds' AND l.t + INTERVAL '{self.high} seconds'"
        )
        on = " AND ".join(part for part in (self.on, window) if part)
        where = f"WHERE {self.where}" if self.where else ""
        match = f"MATCH {self.match}" if self.match else ""
        return f"""
        CREATE APPLICATION {self.name}
          WITH (shards = {self.shards}, chunk_rows = 100, batch_rows = 300{self.options});
        CREATE INPUT TABLE l (t timestamp, k string, k2 bigint, a double, s string)
          FROM SCRIBE("{prefix}l") TIME t IN MILLISECONDS;
        CREATE INPUT TABLE r (t timestamp, k string, k2 bigint, b double, s string)
          FROM SCRIBE("{prefix}r") TIME t;
        CREATE VIEW j AS SELECT {self.select} FROM l {self.join} r ON {on} {match} {where};
        CREATE TABLE out AS SELECT * FROM j STORAGE SCRIBE(category = "{self.name}.out");
        """

    def sql(self) -> str:
        """What DuckDB is asked."""
        window = f"r.t BETWEEN l.t + INTERVAL '{self.low} seconds' AND l.t + INTERVAL '{self.high} seconds'"
        on = " AND ".join(part for part in (self.on, window) if part)
        where = f"WHERE {self.where}" if self.where else ""
        if not self.match or self.match == "ALL":
            return f"SELECT {self.select} FROM l {self.join} r ON {on} {where}"
        order = {
            "FIRST": "r.id",
            "NEAREST": "abs(epoch_us(r.t) - epoch_us(l.t)), r.t",
            "EARLIEST": "r.t",
            "LATEST": "r.t DESC",
        }[self.match]
        best = f"""
          SELECT l.id AS lid, r.id AS rid,
                 row_number() OVER (PARTITION BY l.id ORDER BY {order}, r.id) AS n
          FROM l JOIN r ON {on}
        """
        return f"""
          WITH best AS ({best})
          SELECT {self.select} FROM l {self.join.replace("JOIN", "JOIN (SELECT * FROM best WHERE n = 1)")} b2
          ON l.id = b2.lid {"LEFT" if self.join in ("JOIN", "LEFT JOIN") else "FULL"} JOIN r ON r.id = b2.rid
          {where}
        """


def generate(seed: int, rows: int = 700) -> dict[str, list[dict[str, object]]]:
    """Two streams in the order of their times, with NULLs among keys and times, and many equal keys."""
    rng = random.Random(seed)
    streams: dict[str, list[dict[str, object]]] = {}
    for name, value in (("l", "a"), ("r", "b")):
        times = sorted(1000 * rng.randrange(600) for _ in range(rows))
        streams[name] = [
            {
                "id": number,
                "t": None if rng.random() < 0.02 else START * 1000 + time,
                "k": None if rng.random() < 0.05 else f"k{rng.randrange(40)}",
                "k2": None if rng.random() < 0.05 else rng.randrange(3),
                value: round(rng.uniform(-100, 100), 3),
                "s": rng.choice(["x", "y", "", 'ä"\\', None]),
            }
            for number, time in enumerate(times)
        ]
    return streams


def publish(log: Log, streams: dict[str, list[dict[str, object]]], commits: int, prefix: str = "") -> None:
    """Append both streams as JSON, in several commits; left times are milliseconds, right ones ISO-8601."""
    for name, rows in streams.items():
        category = log.create(prefix + name, raw=True)
        texts = [json.dumps({**row, "t": _time(name, row["t"])}) for row in rows]
        size = -(-len(texts) // commits)
        for start in range(0, len(texts), size):
            category.append(pa.table({"value": texts[start : start + size]}))


def _time(stream: str, milliseconds: object) -> object:
    if milliseconds is None or stream == "l":
        return milliseconds
    assert isinstance(milliseconds, int)
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def tables(streams: dict[str, list[dict[str, object]]]) -> dict[str, pa.Table]:
    """The streams as DuckDB gets them."""
    found = {}
    for name, rows in streams.items():
        table = pa.Table.from_pylist(rows)
        times = pa.chunked_array([pa.array(table["t"].to_pylist(), pa.timestamp("ms", tz="UTC"))])
        times = times.cast(pa.timestamp("us", tz="UTC"))
        found[name] = table.set_column(table.schema.get_field_index("t"), "t", times)
    return found


def read(home: Home, category: str) -> pa.Table:
    """All rows of a category."""
    reader = home.log().open(category).reader()
    batches = [batch for number in range(reader.first, reader.latest() + 1) for batch in reader.rows(number)]
    return pa.Table.from_batches(batches, batches[0].schema if batches else reader.category.schema)


def differences(got: pa.Table, sql: str, streams: dict[str, list[dict[str, object]]]) -> list[object]:
    """Rows that only one of the two has, with who has them; empty if they are the same multiset."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name, table in tables(streams).items():
        connection.register(name, table)
    connection.register("got", got)
    connection.execute(f"CREATE TABLE want AS {sql}")
    columns = ", ".join(f'"{name}"' for name in got.column_names)
    either = connection.execute(f"""
      (SELECT 'extra', * FROM (SELECT {columns} FROM got EXCEPT ALL SELECT {columns} FROM want))
      UNION ALL
      (SELECT 'missing', * FROM (SELECT {columns} FROM want EXCEPT ALL SELECT {columns} FROM got))
    """).fetchall()
    return list(either)


def compile_case(case: Case) -> api.Compiled:
    """The compiled program."""
    return api.compile_text(case.pql())
