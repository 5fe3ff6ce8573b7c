"""Lookup joins and lookup tables, padding by the clock, and limits on buffers, in running applications."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from braid import api
from braid.api.data import publish
from braid.core.counters import Counters
from braid.core.errors import RunError
from braid.home.paths import Home
from braid.plan.stages.base import Plan
from braid.stores.lookup import LookupStore
from tests.spark.oracle import START, differences, read
from tests.spark.questions import ON, PAIR, Question, generate, halves
from tests.spark.questions import publish as publish_streams

pytestmark = pytest.mark.spark

NAMES = pa.table(
    {"k": [f"k{n}" for n in range(0, 12, 2)], "name": list("abcdef"), "rank": [1, 2, 3, 1, 2, 3]}
)


def drain(spark: object, home: Home, plan: Plan) -> object:
    handle = api.run(plan, home.root, spark=spark, drain=True)
    handle.wait()
    return handle


def now_us() -> int:
    return time.time_ns() // 1000


def rows_of(home: Home, table: str) -> list[dict[str, object]]:
    with LookupStore(home.root).open(table) as opened:
        return pa.Table.from_batches(opened.scan(now_us())).to_pylist()


def load_names(home: Home) -> None:
    store = LookupStore(home.root)
    with store.create("names", NAMES.select(["k"]).schema, NAMES.select(["name", "rank"]).schema) as table:
        table.upsert(NAMES, writer="test", batch_id=0, now_us=now_us())


def test_lookups_in_a_slicer_and_after_a_join(spark: object, home: Home) -> None:
    load_names(home)
    streams = generate(seed=5, rows=150)
    first, rest = halves(streams)
    publish_streams(home.log(), first)
    home.log().open("l").append(pa.table({"value": ["no record"]}))
    text = (
        "SELECT l.id AS lid, r.id AS rid, d.name AS name, e.rank AS rank "
        f'FROM l JOIN LOOKUP("names") AS d (k STRING, name STRING, rank BIGINT) ON d.k = l.k '
        f"LEFT JOIN r ON {ON} "
        'LEFT JOIN LOOKUP("names") AS e (k STRING, name STRING, rank BIGINT) ON e.k = r.k'
    )
    plan = api.compile_text(Question("looked_up", text, "").pql()).plan
    with api.run(plan, home.root, spark=spark) as running:
        running.process_available()
    publish_streams(home.log(), rest)
    drain(spark, home, plan)
    sql = (
        "SELECT l.id AS lid, r.id AS rid, d.name AS name, e.rank AS rank FROM l JOIN names AS d ON d.k = l.k "
        f"LEFT JOIN r ON {ON} LEFT JOIN names AS e ON e.k = r.k"
    )
    values = ", ".join(str(tuple(row.values())) for row in NAMES.to_pylist())
    found = read(home, "looked_up.out")
    want = f"WITH names AS (SELECT * FROM (VALUES {values}) AS n(k, name, rank)) {sql}"
    assert found.num_rows > 50
    assert differences(found, want, streams) == []
    assert read(home, "looked_up.dead_letter")["reason"].to_pylist().count("malformed_json") == 1


def test_a_table_that_an_application_keeps_is_read_by_it_and_by_another(spark: object, home: Home) -> None:
    keeper = api.compile_text(
        "CREATE APPLICATION keeper;"
        'CREATE INPUT TABLE prices (t timestamp, k string, x double) FROM SCRIBE("prices") TIME t;'
        'CREATE INPUT TABLE bids (t timestamp, k string) FROM SCRIBE("bids") TIME t;'
        "CREATE TABLE own AS SELECT b.k AS k, p.x AS x FROM bids AS b "
        'LEFT JOIN LOOKUP("latest") AS p ON p.k = b.k STORAGE SCRIBE(category = "own");'
        'CREATE TABLE latest AS SELECT k, t, x FROM prices STORAGE LASER(table = "latest", key = (k));'
    ).plan
    publish("prices", [{"t": START, "k": "a", "x": 1}, {"t": START + 9, "k": "a", "x": 2}], home)
    publish("prices", [{"t": START, "k": None, "x": 7}, {"t": START + 1, "k": "b", "x": 3}], home)
    publish("bids", [{"t": START, "k": k} for k in ("b", "c", None, "a")], home)
    handle = drain(spark, home, keeper)
    totals = handle.status.stages["latest"].totals
    assert (totals.keys_written, totals.superseded, totals.null_keys) == (2, 1, 1)
    publish("prices", [{"t": START + 5, "k": "a", "x": 8}, {"t": START + 5, "k": "b", "x": 4}], home)
    publish("bids", [{"t": START, "k": "b"}], home)
    drain(spark, home, keeper)
    assert {row["k"]: row["x"] for row in rows_of(home, "latest")} == {"a": 2.0, "b": 4.0}
    own = [(row["k"], row["x"]) for row in read(home, "own").to_pylist()]
    assert sorted(own[:4], key=str) == [("a", 2.0), ("b", 3.0), ("c", None), (None, None)]
    assert own[4:] == [("b", 4.0)]
    reader = api.compile_text(
        "CREATE APPLICATION reader;"
        'CREATE INPUT TABLE bids (t timestamp, k string) FROM SCRIBE("bids") TIME t;'
        "CREATE TABLE priced AS SELECT b.k AS k, p.x AS x FROM bids AS b "
        'JOIN LOOKUP("latest") AS p (k STRING, x DOUBLE) ON p.k = b.k STORAGE SCRIBE(category = "priced");'
    ).plan
    drain(spark, home, reader)
    assert sorted((row["k"], row["x"]) for row in read(home, "priced").to_pylist()) == [
        ("a", 2.0),
        ("b", 4.0),
        ("b", 4.0),
    ]


def test_rows_are_padded_after_a_wait_and_later_matches_are_counted(spark: object, home: Home) -> None:
    """Every step waits for the one before to be seen, so that it does not matter how long one takes."""
    text = f"{PAIR} LEFT JOIN r ON {ON} EMIT UNMATCHED AFTER INTERVAL '1 second'"
    question = Question("waits", text, "", within=None, chunk_rows=1)
    plan = api.compile_text(question.pql()).plan
    row = {"id": 1, "t": START * 1000, "k": "a"}
    publish("l", [row], home)
    publish("r", [], home)

    def totals() -> Counters:
        (join,) = (stage for stage in running.status.stages.values() if stage.kind == "join")
        return join.totals

    def waited() -> tuple[int, int, int]:
        found = totals()
        return found.matches, found.matches_after_padding, found.input("left").padded_early

    def until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            running.process_available()

    with api.run(plan, home.root, spark=spark) as running:
        until(lambda: read(home, "waits.out").num_rows > 0)
        assert read(home, "waits.out").to_pylist() == [{"lid": 1, "rid": None}]
        assert totals().matches_after_padding == 0
        publish("r", [{**row, "id": 2}], home)
        until(lambda: totals().matches_after_padding > 0)
        publish("l", [{**row, "id": 3}, {**row, "id": 4, "k": "b"}], home)
        until(lambda: read(home, "waits.out").num_rows == 3)
    assert waited() == (1, 1, 2)
    publish("r", [{**row, "id": 5}, {**row, "id": 6, "k": "b"}], home)
    running = drain(spark, home, plan)
    assert waited() == (2, 3, 2)
    found = read(home, "waits.out").to_pylist()
    assert sorted((row["lid"], row["rid"] or 0) for row in found) == [(1, 0), (3, 2), (3, 5), (4, 0)]


def test_buffers_have_a_limit(spark: object, home: Home) -> None:
    streams = generate(seed=6, rows=300)
    publish_streams(home.log(), {name: streams[name] for name in ("l", "r")})
    text = f"{PAIR} JOIN r ON r.t BETWEEN l.t - INTERVAL '2 seconds' AND l.t + INTERVAL '2 seconds'"
    kept = Question("kept", text, text, within=None, options=", max_buffered_rows = 200")
    drain(spark, home, api.compile_text(kept.pql()).plan)
    assert differences(read(home, "kept.out"), text, streams) == []
    wide = text.replace("2 seconds", "2 hours")
    broken = Question("broken", wide, "", within=None, options=", max_buffered_rows = 30")
    with pytest.raises(RunError, match="max_buffered_rows is 30"):
        drain(spark, home, api.compile_text(broken.pql()).plan)
