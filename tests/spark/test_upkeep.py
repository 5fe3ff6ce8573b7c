"""Upkeep of an application that runs live: files stay bounded while rows keep coming, and nothing is lost."""

from __future__ import annotations

import json
import time
from collections import Counter

import duckdb
import pyarrow as pa
import pytest

from braid import api
from braid.engine.needs import RunNeeds
from braid.home import needs
from braid.home.paths import Home
from braid.spark.app import Application

pytestmark = pytest.mark.spark

PROGRAM = """
CREATE APPLICATION live
  WITH (shards = 2, retention = '1 second', slack = '1 second', output_retention = 'forever');
CREATE INPUT TABLE l (id bigint, t timestamp, k bigint) FROM SCRIBE("l") TIME t IN MILLISECONDS ORDERED;
CREATE INPUT TABLE r (id bigint, t timestamp, k bigint) FROM SCRIBE("r") TIME t IN MILLISECONDS ORDERED;
CREATE TABLE pairs AS SELECT l.id AS l, r.id AS r FROM l LEFT JOIN r ON l.k = r.k
  AND r.t BETWEEN l.t - INTERVAL '0.5 seconds' AND l.t + INTERVAL '0.5 seconds'
  STORAGE SCRIBE(category = "pairs");
"""


class Feed:
    """Publishes a few rows to both inputs at a time, each at the present time."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.rows: dict[str, list[dict[str, int]]] = {"l": [], "r": []}

    def some(self) -> None:
        now = int(time.time() * 1000)
        for name, rows in self.rows.items():
            new = [{"id": len(rows) + n, "t": now, "k": (len(rows) + n) % 5} for n in range(3)]
            rows += new
            api.publish(name, map(json.dumps, new), self.home)

    def expected(self) -> Counter[tuple[int | None, int | None]]:
        with duckdb.connect() as connection:
            for name, rows in self.rows.items():
                connection.register(name, pa.Table.from_pylist(rows))
            query = """SELECT l.id, r.id FROM l LEFT JOIN r ON l.k = r.k
              AND r.t BETWEEN l.t - 500 AND l.t + 500"""
            return Counter(connection.execute(query).fetchall())


def wait_until_retired(home: Home, above: int) -> int:
    """The oldest commit that upkeep, once it has had its turn, has left in both kinds of categories."""
    end = time.monotonic() + 60
    while True:
        first = min(home.log().open(name).first for name in ("l", "live.pairs.left"))
        if first > above or time.monotonic() > end:
            return first
        time.sleep(0.2)


def test_old_commits_go_while_rows_come_and_a_killed_run_goes_on(
    spark: object, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "KEPT", 2)
    plan, feed, first = api.compile_text(PROGRAM).plan, Feed(home), 0
    for _ in range(2):
        with Application(plan, home, spark=spark, create=True) as running:
            for _ in range(5):
                feed.some()
                running.process_available()
            before, first = first, wait_until_retired(home, first)
            assert first > before
            assert running.status.troubles == ()
            feed.some()
            running.process_available()
            # A driver that is killed has not written what it knew last.
            monkeypatch.setattr(RunNeeds, "write", lambda kept: None)
        monkeypatch.undo()
        monkeypatch.setattr(needs, "KEPT", 2)
    Application(plan, home, spark=spark, drain=True).start().wait()
    found = api.read("pairs", home).to_pydict()
    assert Counter(zip(found["l"], found["r"], strict=True)) == feed.expected()
    report = {one.category: one for one in api.upkeep(home).categories}
    assert all(one.trouble is None for one in report.values())
    assert report["pairs"].before.commits == report["pairs"].after.commits
    assert report["l"].after.commits <= 12 - first
    assert report["l"].after.files <= 2 * report["l"].after.commits + 2
