"""DEDUPLICATE in a running application, stored and joined with another stream, against DuckDB."""

from __future__ import annotations

import random

import pytest

from braid.api import compile_text
from braid.home.paths import Home
from braid.spark.app import Application
from tests.spark.oracle import START, differences, read
from tests.spark.questions import publish

pytestmark = pytest.mark.spark

DISORDER, WITHIN, ROWS = 20, 30, 600
PROGRAM = f"""
CREATE APPLICATION app WITH (shards = 2, chunk_rows = 50, batch_rows = 150);
CREATE INPUT TABLE c (id BIGINT, user STRING, x DOUBLE, t TIMESTAMP) FROM SCRIBE("c")
  TIME t IN MILLISECONDS ORDERED WITHIN INTERVAL '{DISORDER} seconds';
CREATE INPUT TABLE v (id BIGINT, user STRING, t TIMESTAMP) FROM SCRIBE("v")
  TIME t IN MILLISECONDS ORDERED WITHIN INTERVAL '{DISORDER} seconds';
CREATE VIEW once AS SELECT d.id, d.user, d.x, d.t
  FROM DEDUPLICATE(TABLE c PARTITION BY upper(user), x, within => INTERVAL '{WITHIN} seconds') AS d
  WHERE d.id % 7 <> 0;
CREATE TABLE first AS SELECT id, user FROM once WHERE x > 0 STORAGE SCRIBE(category = "first");
CREATE TABLE second AS SELECT v.id AS vid, o.id AS oid FROM v LEFT JOIN once AS o
  ON o.user = v.user AND o.t BETWEEN v.t - INTERVAL '40 seconds' AND v.t + INTERVAL '10 seconds'
  STORAGE SCRIBE(category = "second");
"""
KEPT = f"""
WITH RECURSIVE keyed AS (
  SELECT *, coalesce(upper("user"), '-') AS k, coalesce(x, -1) AS k2 FROM c WHERE t IS NOT NULL
),
kept AS (
  SELECT k, k2, min(t) AS t FROM keyed GROUP BY ALL
  UNION ALL
  SELECT kept.k, kept.k2, (
    SELECT min(keyed.t) FROM keyed
    WHERE keyed.k = kept.k AND keyed.k2 = kept.k2 AND keyed.t > kept.t + INTERVAL '{WITHIN} seconds'
  ) FROM kept WHERE kept.t IS NOT NULL
),
once AS (SELECT keyed.* FROM kept JOIN keyed USING (k, k2, t) WHERE id % 7 <> 0)
"""
FIRST = f'{KEPT} SELECT id, "user" FROM once WHERE x > 0'
SECOND = f"""{KEPT} SELECT v.id AS vid, o.id AS oid FROM v LEFT JOIN once AS o
  ON o."user" = v."user" AND o.t BETWEEN v.t - INTERVAL '40 seconds' AND v.t + INTERVAL '10 seconds'"""


def streams() -> dict[str, list[dict[str, object]]]:
    """Clicks that are repeated, all at different times, and visits, both out of order."""
    rng = random.Random(7)

    def when(number: int) -> int:
        return (START + number + rng.randint(0, DISORDER - 2)) * 1000 + number

    users = ["a", "A", "b", "c", None]
    clicks = [
        {"id": n, "user": rng.choice(users), "x": rng.choice((None, 0.0, -0.0, 1.5)), "t": when(n)}
        for n in range(ROWS)
    ]
    visits = [{"id": n, "user": rng.choice(users), "t": when(n)} for n in range(ROWS)]
    clicks[5]["t"] = None
    return {"c": clicks, "v": visits}


def test_stored_and_joined_rows_equal_the_answer(spark: object, home: Home) -> None:
    rows = streams()
    plan = compile_text(PROGRAM).plan
    publish(home.log(), {name: part[: ROWS // 2] for name, part in rows.items()})
    with Application(plan, home, spark=spark) as running:
        running.process_available()
    assert read(home, "first").num_rows > 0
    publish(home.log(), {name: part[ROWS // 2 :] for name, part in rows.items()}, seed=2)
    handle = Application(plan, home, spark=spark, drain=True).start()
    handle.wait()
    for category, sql in (("first", FIRST), ("second", SECOND)):
        found = read(home, category)
        assert found.num_rows > 30
        assert differences(found, sql, rows) == []
    once = handle.status.stages["once"]
    assert once.run.input("input").rows == ROWS - ROWS // 2
    assert once.totals.input("input").rows == ROWS
    assert handle.status.stages["once"].what == "deduplicate within 30 s"
