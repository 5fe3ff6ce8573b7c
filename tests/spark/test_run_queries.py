"""The queries of a run together, without Spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import structlog

from braid import api
from braid.home.paths import Home
from braid.spark.run_queries import RunQueries

PROGRAM = """
  CREATE APPLICATION app;
  CREATE INPUT TABLE l (id bigint) FROM SCRIBE("l");
  CREATE TABLE a AS SELECT * FROM l STORAGE SCRIBE(category = "a");
  CREATE TABLE b AS SELECT * FROM l STORAGE SCRIBE(category = "b");
"""


def test_a_drain_that_is_stopped_in_its_last_stage_is_not_done(home: Home) -> None:
    plan = api.compile_text(PROGRAM).plan
    stopping = threading.Event()
    queries = RunQueries(
        home.application("app"),
        plan,
        structlog.get_logger(),
        SimpleNamespace(),  # type: ignore[arg-type]
        stopping,
        drain=True,
        show=print,
        own=True,
    )
    first, last = (stage.name for stage in plan.stages)
    done = SimpleNamespace(wait=lambda: None)
    stopped = SimpleNamespace(wait=stopping.set)  # a query that was stopped ends as one that is done
    queries.stages = {first: done, last: done}  # type: ignore[dict-item]
    assert queries.work_off()
    queries.stages = {first: done, last: stopped}  # type: ignore[dict-item]
    assert not queries.work_off()
