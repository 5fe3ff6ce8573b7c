"""Running applications: inputs and outputs, dead letters, restarts, updates, silence, broken workers."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa
import pytest

from braid import api
from braid.api.data import publish, read
from braid.core.errors import RunError
from braid.home.metrics import MicroBatch
from braid.home.options import read_options
from braid.home.paths import Home
from braid.plan.stages.base import Plan
from tests.contents import contents
from tests.spark import families
from tests.spark.oracle import Case, differences, generate
from tests.spark.oracle import publish as publish_streams

pytestmark = pytest.mark.spark

BOTH = "l.t AS lt, l.k AS k, l.a AS a, r.b AS b, r.t AS rt"


def plan(text: str) -> Plan:
    return api.compile_text(text).plan


def drain(spark: object, home: Home, program: Plan, **more: object) -> object:
    handle = api.run(program, home.root, spark=spark, drain=True, **more)
    handle.wait()
    return handle


def letters(home: Home, application: str) -> list[tuple[str, str, str]]:
    rows = read(f"{application}.dead_letter", home).to_pylist()
    return sorted((row["stage"], row["reason"], row["raw"]) for row in rows)


def test_inputs_and_outputs_of_every_kind(spark: object, home: Home, tmp_path: Path) -> None:
    for name in ("json", "csv", "parquet"):
        (tmp_path / name).mkdir()
    (tmp_path / "json" / "a.json").write_text(
        '\ufeff{"t": "2024-01-01T10:00:00Z", "k": 1, "x": 0.5}\r\n'
        '{"t": 1704103200.25, "k": 2, "x": 1.5}\n'
        '{"t": 1704103200, "k": 4} {"t": 1704103200, "k": 5}\n'
        '{"t": 1704103201, "k": "two"}\n'
        "[1, 2]\n"
    )
    packed = gzip.compress(b'{"t": "2024-01-01T11:00:00Z", "k": 3, "x": "Infinity"}')
    (tmp_path / "json" / "b.json.gz").write_bytes(packed)
    (tmp_path / "csv" / "a.csv").write_text(
        "y,k,t\nü,1,2024-01-01 10:00:01\nv,2,1704103205\nw,none,1704103205\n"
    )
    (tmp_path / "csv" / "b.csv").write_bytes(
        b'\xef\xbb\xbfk,t,more,y\r\n1,2024-01-01 10:00:02,-,"a ""quoted"",\r\ntext"\r\n1,2\r\n'
    )
    (tmp_path / "csv" / "c.csv").write_text("k,time,y\n1,2024-01-01 10:00:02,x\n")
    stamps = pa.array([1_704_103_210_000_000], pa.timestamp("us", tz="UTC"))
    duckdb.register("parquet_rows", pa.table({"k": [2], "t": stamps, "z": ["p"]}))
    duckdb.execute(f"COPY parquet_rows TO '{tmp_path}/parquet/a.parquet'")
    typed = home.log().create("typed", pa.schema([("k", pa.int64()), ("n", pa.int32())]), shards=1)
    typed.append(pa.table({"k": pa.array([1, 2, 3]), "n": pa.array([10, 20, 30], pa.int32())}))
    shown: list[str] = []
    from braid.spark.app import Application

    program = plan(f"""
      CREATE APPLICATION kinds WITH (shards = 2);
      CREATE INPUT TABLE j (t timestamp, k bigint, x double) FROM FILES("{tmp_path}/json") TIME t;
      CREATE INPUT TABLE c (t timestamp, k bigint, y string)
        FROM FILES("{tmp_path}/csv", format = "csv") TIME t;
      CREATE INPUT TABLE p (t timestamp, k bigint, z string)
        FROM FILES("{tmp_path}/parquet", format = "parquet") TIME t;
      CREATE INPUT TABLE n (k bigint, n bigint) FROM SCRIBE("typed");
      CREATE VIEW jc AS SELECT j.t AS t, j.k AS k, j.x AS x, c.y AS y FROM j LEFT JOIN c ON j.k = c.k
        AND c.t BETWEEN j.t - INTERVAL '1 minute' AND j.t + INTERVAL '1 minute';
      CREATE TABLE lake AS SELECT * FROM jc STORAGE HIVE(table = "lake", time = "t");
      CREATE TABLE files AS SELECT k, upper(z) AS z, t FROM p STORAGE SCRIBE(category = "files");
      CREATE TABLE seen AS SELECT k, n + 1 AS m FROM n WHERE n > 10 STORAGE CONSOLE;
    """)
    Application(program, home, spark=spark, drain=True, show=shown.append).start().wait()
    lake = home.root / "warehouse" / "lake"
    found = duckdb.execute(
        f"SELECT k, x, y, hour FROM read_parquet('{lake}/**/*.parquet', hive_partitioning = true) "
        "ORDER BY k, y"
    ).fetchall()
    assert [(k, x, y, int(hour)) for k, x, y, hour in found] == [
        (1, 0.5, 'a "quoted",\r\ntext', 10),
        (1, 0.5, "ü", 10),
        (2, 1.5, "v", 10),
        (3, math.inf, None, 11),
    ]
    assert [(row["k"], row["z"]) for row in read("files", home).to_pylist()] == [(2, "P")]
    assert sorted((row["k"], row["m"]) for row in map(json.loads, shown)) == [(2, 21), (3, 31)]
    assert [(reason, raw[:22]) for _, reason, raw in letters(home, "kinds")] == [
        ("malformed_json", "[1, 2]"),
        ("malformed_json", '{"t": 1704103200, "k":'),
        ("untypable_field", '{"t": 1704103201, "k":'),
        ("malformed_csv", "1,2"),
        ("malformed_csv", '{"k":"1","time":"2024-'),
        ("untypable_field", '{"t":"1704103205","k":'),
    ]


JOIN = """
  CREATE APPLICATION app WITH (shards = 2, chunk_rows = 100, batch_rows = 1000{options});
  CREATE INPUT TABLE l (id bigint, t timestamp, k string{column}) FROM SCRIBE("l") TIME t;
  CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
  CREATE VIEW j AS SELECT l.id AS lid, r.id AS rid{select} FROM l LEFT JOIN r ON {key}
    AND r.t BETWEEN l.t - INTERVAL '10 seconds' AND l.t + INTERVAL '10 seconds';
  CREATE TABLE out AS SELECT * FROM j STORAGE SCRIBE(category = "out");
"""
DEFAULTS = {"options": "", "column": "", "select": "", "key": "l.k = r.k"}


def rows(start: int, stop: int, **more: object) -> list[dict[str, object]]:
    return [{"id": n, "t": 1_700_000_000 + n, "k": f"k{n}", **more} for n in range(start, stop)]


def test_bad_records_become_letters_and_nothing_else_is_lost(spark: object, home: Home) -> None:
    publish("r", rows(0, 3), home)
    bad = [
        "not json",
        '{"id": 7, "t": 1700000001}',
        '{"id": "x", "t": 1700000001, "k": "k1"}',
        '{"id": 8, "t": "yesterday", "k": "k1"}',
        '{"id": 9, "t": 9999999999, "k": "k1"}',
        '{"id": 10, "t": 1700000001, "k": null}',
    ]
    publish("l", [*rows(0, 3), *bad], home)
    handle = drain(spark, home, plan(JOIN.format(**DEFAULTS)))
    out = {(row["lid"], row["rid"]) for row in read("out", home).to_pylist()}
    assert out == {(0, 0), (1, 1), (2, 2), (7, None), (8, None), (9, None), (10, None)}
    assert [(stage, reason) for stage, reason, _ in letters(home, "app")] == [
        ("j.left", "invalid_time"),
        ("j.left", "invalid_time"),
        ("j.left", "malformed_json"),
        ("j.left", "missing_field"),
        ("j.left", "untypable_field"),
    ]
    assert {raw for _, _, raw in letters(home, "app")} == set(bad[:5])
    stages = handle.status.stages
    slicer, join = stages["j.left"].last, stages["j"].last
    assert slicer is not None
    assert join is not None
    assert slicer.counters.dead["invalid_time"] == 2
    assert stages["j"].totals.matches == 3
    assert join.counters.inputs["left"].stream_time == 2**62
    assert sum(join.counters.distances_lower) <= 3
    assert {"triggerExecution", "addBatch"} <= set(join.duration_ms)


def test_a_restart_goes_on_and_an_update_adds_a_column(spark: object, home: Home) -> None:
    first = plan(JOIN.format(**DEFAULTS))
    publish("l", rows(0, 200, x=1), home)
    publish("r", rows(0, 100), home)
    with api.run(first, home.root, spark=spark, options={"slack": "2 minutes"}) as running:
        running.process_available()
    assert not running.is_active
    app = home.application("app")
    ran = read_options(app)
    assert ran is not None
    assert ran.overridden == ("slack",)
    publish("r", rows(100, 200), home)
    appended = {**DEFAULTS, "column": ", x bigint", "select": ", l.x AS x"}
    second = plan(JOIN.format(**appended))
    before = contents(home)
    with pytest.raises(RunError, match="replayed"):
        api.run(plan(JOIN.format(**{**DEFAULTS, "key": "upper(l.k) = r.k"})), home.root, spark=spark)
    other = plan(JOIN.replace("l.id AS lid", "CAST(l.id AS STRING) AS lid").format(**DEFAULTS))
    with pytest.raises(RunError, match=r"refused: .* bigint -> string"):
        api.run(other, home.root, spark=spark)
    assert contents(home) == before
    assert "option slack changed" not in app.log_file.read_text()
    with api.run(second, home.root, spark=spark) as running:
        running.process_available()
    assert "option slack changed" in app.log_file.read_text()
    publish("l", rows(200, 300, x=2), home)
    publish("r", rows(200, 300), home)
    drain(spark, home, second)
    found = read("out", home).to_pylist()
    assert sorted((row["lid"], row["rid"]) for row in found) == [(n, n) for n in range(300)]
    assert {row["x"] for row in found if row["lid"] >= 200} == {2}
    publish("l", rows(300, 310, x=3), home)
    publish("r", rows(300, 305), home)
    drain(spark, home, second)
    late = sorted(
        (row["lid"], row["rid"] or -1) for row in read("out", home).to_pylist() if row["lid"] >= 300
    )
    assert late == [(n, n if n < 305 else -1) for n in range(300, 310)]


@pytest.mark.parametrize("idle", ["proceed", "wait"])
def test_an_idle_application_writes_nothing_and_a_silent_stream_is_waited_for_as_asked(
    spark: object, home: Home, idle: str
) -> None:
    program = plan(JOIN.format(**DEFAULTS))
    publish("l", rows(0, 400), home)
    with pytest.raises(RunError, match="no category 'r' to read"):
        api.run(program, home.root, spark=spark)
    options = {"idle_timeout": 0, "idle": idle}
    with api.run(program, home.root, spark=spark, create=True, options=options) as running:
        running.process_available()
        running.process_available()
        emitted = read("out", home).to_pylist()
        files = sorted(str(path) for path in (home.root / "log").rglob("*") if path.is_file())
        for _ in range(3):
            running.process_available()
        assert sorted(str(path) for path in (home.root / "log").rglob("*") if path.is_file()) == files
        why = "; ".join(running.paused)
        publish("r", rows(395, 400), home)
        running.process_available()
        running.process_available()
        found = {row["lid"]: row["rid"] for row in read("out", home).to_pylist()}
    assert all(row["rid"] is None for row in emitted)
    warned = "rows wait for it" in (home.root / "apps/app/braid.log").read_text()
    if idle == "proceed":
        # All but the last left rows have been passed by their own stream; those still wait, and match.
        assert {row["lid"] for row in emitted} >= set(range(100))
        assert {n: found[n] for n in range(395, 400)} == {n: n for n in range(395, 400)}
        assert not warned
    else:
        assert (emitted, warned) == ([], True)
        assert "right has been silent since" in why


def test_killed_workers_and_lost_caches_change_nothing(spark: object, home: Home) -> None:
    streams = generate(seed=3, rows=1500)
    publish_streams(home.log(), streams, commits=3)
    case = Case("broken", BOTH, join="FULL JOIN", shards=3)
    from braid.spark.app import Application

    killed: list[int] = []

    def kill_workers(batch: MicroBatch) -> None:
        """Kill all workers, those of the join with its cache among them, whenever it has done something."""
        if batch.stage != "j":
            return
        nursery = families.nursery(psutil.Process())
        assert nursery is not None
        for daemon in families.children(nursery):
            killed.extend(families.kill(families.children(daemon)))

    app = Application(
        api.compile_text(case.pql()).plan, home, spark=spark, drain=True, on_progress=kill_workers
    )
    app.start().wait()
    assert killed
    assert differences(read("broken.out", home), case.sql(), streams) == []


def test_kafka_without_its_connector_says_what_to_do(spark: object, home: Home) -> None:
    program = plan("""
      CREATE APPLICATION topics;
      CREATE INPUT TABLE k (a string) FROM KAFKA("topic", brokers = "localhost:9092");
      CREATE TABLE out AS SELECT a FROM k STORAGE SCRIBE(category = "out");
    """)
    with pytest.raises(RunError, match=r"connector.*\n.*spark-sql-kafka"):
        api.run(program, home.root, spark=spark)
    assert api.status(home.root)[0].state == "failed"
