"""What an application says of itself is what is in the log: totals, filters, bad records, backlog."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from braid import api
from braid.api.data import publish, read
from braid.home.paths import Home
from tests.spark.test_app import JOIN, drain, plan, rows

pytestmark = pytest.mark.spark


def test_slicers_count_what_they_read(spark: object, home: Home, tmp_path: Path) -> None:
    lines = [*rows(0, 300), "not json", '{"id": "x", "t": 1, "k": "k"}']
    publish("l", lines[:200], home)
    publish("l", lines[200:], home)
    (tmp_path / "files").mkdir()
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    (tmp_path / "files" / "a.json").write_text(text + "\n")
    handle = drain(
        spark,
        home,
        plan(f"""
      CREATE APPLICATION counting WITH (shards = 2, chunk_rows = 50);
      CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
      CREATE INPUT TABLE f (id bigint, t timestamp, k string) FROM FILES("{tmp_path}/files") TIME t;
      CREATE TABLE few AS SELECT id FROM l WHERE id < 100 STORAGE SCRIBE(category = "few");
      CREATE TABLE some AS SELECT id FROM f WHERE id < 100 STORAGE SCRIBE(category = "some");
      CREATE TABLE every AS SELECT id FROM f STORAGE SCRIBE(category = "every");
    """),
    )
    for name, out in (("few", 100), ("some", 100), ("every", 300)):
        totals = handle.status.stages[name].totals
        counted = (totals.rows_in, totals.rows_out, totals.filtered, totals.refused)
        assert counted == (302, out, 300 - out, 2), name
        assert read(name, home).num_rows == out


def test_totals_go_on_over_runs_and_the_rest_is_told_as_of_now(spark: object, home: Home) -> None:
    program = plan(JOIN.format(options=", idle_timeout = '1 hour'", column="", select="", key="l.k = r.k"))
    for number in range(2):
        publish("l", rows(100 * number, 100 * number + 100), home)
        publish("r", rows(100 * number, 100 * number + 60), home)
        handle = drain(spark, home, program)
    join = handle.status.stages["j"]
    left = {"matched": 60, "unmatched": 40}
    for counters, times in ((join.run, 1), (join.totals, 2)):
        found = counters.inputs["left"]
        assert {name: getattr(found, name) for name in left} == {k: v * times for k, v in left.items()}
        assert (counters.rows_in, counters.rows_out, counters.matches) == (
            160 * times,
            100 * times,
            60 * times,
        )
    assert join.match_rate == {"left": 0.6}
    # Now it is stopped, and what is published stays behind.
    publish("l", rows(500, 530), home)
    (status,) = api.status(home.root)
    assert status.stages["j.left"].inputs["source"].rows_behind == 30
    assert status.stages["j.right"].inputs["source"].rows_behind == 0
    assert status.stages["j"].totals == join.totals
    behind = status.stages["j"].inputs["left"]
    assert (behind.rows_behind, behind.behind_ms) == (0, 0)


def test_each_bad_record_is_listed_once_however_many_stages_read_it(spark: object, home: Home) -> None:
    bad = [
        "not json",
        '{"id": "x", "t": 1700000001, "k": "k"}',
        '{"id": 8, "t": "yesterday", "k": "k1"}',
    ]
    publish("l", [*rows(0, 20), *bad], home)
    publish("r", rows(0, 20), home)
    text = JOIN.format(options="", column="", select="", key="l.k = r.k")
    again = 'CREATE TABLE plain AS SELECT id FROM l WHERE id < 5 STORAGE SCRIBE(category = "plain");'
    handle = drain(spark, home, plan(text + again))
    assert sorted(row["raw"] for row in read("app.dead_letter", home).to_pylist()) == sorted(bad)
    stages = handle.status.stages
    assert [stages[name].totals.refused for name in ("j.left", "plain")] == [2, 2]
    dead = [count for stage in stages.values() for count in stage.totals.dead.values()]
    assert sum(dead) == 3


def test_letters_of_rows_that_a_join_has_lost_are_the_users_own(spark: object, home: Home) -> None:
    program = plan(
        JOIN.format(options=", max_per_key = 1", column="", select="", key="l.k = r.k").replace(
            "l.k", "upper(l.k)"
        )
    )
    publish("l", [{"id": n, "t": 1_700_000_000 + n, "k": "k"} for n in range(3)], home)
    publish("r", [], home)
    with api.run(program, home.root, spark=spark) as running:
        # In a drain, the rows might be decided in the step in which they come, and none would be held.
        running.process_available()
    handle = drain(spark, home, program)
    lost = [row for row in read("app.dead_letter", home).to_pylist() if row["reason"] == "capped_left"]
    assert len(lost) == 2 == handle.status.stages["j"].totals.inputs["left"].lost["capped"]
    assert not any("__" in row["raw"] for row in lost)
    assert [set(json.loads(row["raw"])) for row in lost] == [{"lid"}] * 2
