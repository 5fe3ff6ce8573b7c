"""Inputs are read as seldom as the latency objective allows, and at once when somebody waits for it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from braid import api
from braid.home.cadence import Cadence
from braid.home.metrics import MicroBatch
from braid.home.paths import Home
from braid.spark.app import Application

pytestmark = pytest.mark.spark

PROGRAM = """
  CREATE APPLICATION paced WITH (shards = 2, latency = '1 hour');
  CREATE INPUT TABLE l (id bigint, t timestamp) FROM SCRIBE("l") TIME t;
  CREATE INPUT TABLE r (id bigint, t timestamp) FROM SCRIBE("r") TIME t;
  CREATE VIEW j AS SELECT l.id AS lid, r.id AS rid FROM l INNER JOIN r ON l.id = r.id
    AND r.t BETWEEN l.t - INTERVAL '5 minutes' AND l.t + INTERVAL '5 minutes';
  CREATE TABLE out AS SELECT * FROM j STORAGE SCRIBE(category = "out");
"""
COMMITS = 12


def classes_compiled(running: Application) -> int:
    """How many classes Spark has generated and compiled."""
    session = running._session
    assert session is not None
    jvm = session.sparkContext._jvm
    assert jvm is not None
    return int(jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount())


def test_many_commits_are_few_micro_batches(spark: object, home: Home) -> None:
    done: Counter[str] = Counter()
    rows: Counter[str] = Counter()

    def count(batch: MicroBatch) -> None:
        done[batch.stage] += 1
        rows[batch.stage] += batch.counters.rows_in

    def publish(number: int) -> None:
        record = json.dumps({"id": number, "t": 1_700_000_000 + number})
        for name in ("l", "r"):
            api.publish(name, [record], home.root)

    plan = api.compile_text(PROGRAM).plan
    publish(0)
    with api.run(plan, home.root, spark=spark, on_progress=count) as running:
        running.process_available()
        assert api.read("out", home.root).num_rows == 1
        compiled = classes_compiled(running)
        told = Cadence.read(home.application("paced").cadence_file)
        assert told is not None
        assert told.interval > 1_800_000_000
        for number in range(1, COMMITS):
            publish(number)
            # As long as Spark takes to ask a source several times.
            running.wait(0.1)
        running.process_available()
        assert sorted(api.read("out", home.root)["lid"].to_pylist()) == list(range(COMMITS))
        # Code that was generated for a micro-batch serves those that follow.
        assert classes_compiled(running) == compiled
    # One for what was there first, one for the rest; another one if an interval ends meanwhile, and for what
    # one of the inputs committed first.
    assert rows == {"j.left": COMMITS, "j.right": COMMITS, "j": 2 * COMMITS}
    assert done["j.left"] <= 3
    assert done["j.right"] <= 3
    assert done["j"] <= 7
