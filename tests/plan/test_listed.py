"""Which slicer lists the bad records of an input that several read."""

from __future__ import annotations

from braid import api
from braid.core.config import AppConfig
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.physical.operation import Facts
from braid.plan.physical.slicing import Listed

PROGRAM = """
CREATE APPLICATION app;
CREATE INPUT TABLE l (id bigint, t timestamp, k string, x string) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
CREATE TABLE one AS SELECT l.id AS a, r.id AS b FROM l LEFT JOIN r ON l.k = r.k
  AND r.t BETWEEN l.t AND l.t + INTERVAL '1 minute' STORAGE SCRIBE(category = "one");
CREATE TABLE two AS SELECT l.id AS a, r.id AS b FROM l LEFT JOIN r ON l.x = r.k
  AND r.t BETWEEN l.t AND l.t + INTERVAL '1 minute' STORAGE SCRIBE(category = "two");
CREATE TABLE three AS SELECT id FROM l STORAGE SCRIBE(category = "three");
"""


def test_each_fault_of_a_record_is_listed_by_one_stage() -> None:
    plan = api.compile_text(PROGRAM).plan
    lists = {
        stage.name: stage.operation(plan, AppConfig(), Facts()).lists
        for stage in plan.stages
        if isinstance(stage, SlicerStage)
    }
    left = [(name, found) for name, found in lists.items() if not name.endswith(".right")]
    assert [found for _, found in left] == [None, Listed(("x",), times=False), Listed((), times=True)], lists
    right = [found for name, found in lists.items() if name.endswith(".right")]
    assert right == [None, Listed((), times=False)]
