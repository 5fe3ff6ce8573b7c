"""A stage gets an empty checkpoint, and goes on with its commits, whenever that is cut short."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import structlog

from braid import api
from braid.home.control import Generation
from braid.home.paths import AppHome, Home
from braid.home.versions import keep_version
from braid.plan.physical.layout import layout
from braid.plan.serialise import plan_to_json
from braid.plan.stages.base import Plan, Stage
from braid.plan.update.rules import Verdict, Way
from braid.spark.checkpoints import begin_batch, end_batch, read_checkpoint
from braid.spark.updating import Update, UpdateSteps
from tests.home.killed import Killed, Mortal

STEPS = 12
"""More than it takes."""
PROGRAM = """
  CREATE APPLICATION app;
  CREATE INPUT TABLE l (id bigint, k string, t timestamp) FROM SCRIBE("l") TIME t;
"""
PLAIN = 'CREATE TABLE out AS SELECT id FROM l STORAGE SCRIBE(category = "out");'
JOIN = """
  CREATE TABLE out AS SELECT a.id AS id FROM l AS a JOIN l AS b ON a.k = b.k AND b.t BETWEEN a.t AND a.t
  STORAGE SCRIBE(category = "out");
"""


def steps(home: AppHome) -> UpdateSteps:
    launcher = SimpleNamespace(wanted=lambda stage: layout(5, 2))
    return UpdateSteps(
        home,
        structlog.get_logger(),
        threading.Event(),
        launcher,  # type: ignore[arg-type]
        lambda phase: None,
    )


def ran(home: AppHome, batches: int) -> None:
    """What a query leaves that has done so many micro-batches."""
    for batch in range(batches):
        begin_batch(home.checkpoint("out"), batch, 0, "{}")
        end_batch(home.checkpoint("out"), batch)


def out(text: str) -> Stage:
    return api.compile_text(PROGRAM + text).plan.stage("out")


@pytest.mark.parametrize("killed", range(STEPS))
def test_it_begins_anew_once_whatever_is_killed(
    home: Home, monkeypatch: pytest.MonkeyPatch, killed: int
) -> None:
    app, mortal = home.application("app"), Mortal(monkeypatch)
    ran(app, 3)
    with mortal.within(killed):
        try:
            steps(app).begin_anew(out(PLAIN))
            done = True
        except Killed:
            done = False
    assert done or killed < STEPS - 1, "there are more steps than that"
    steps(app).begin_anew(out(PLAIN))
    generation = app.generation("out")
    assert generation == Generation(shards=1, partitions=1, number=1, first_batch=3)
    assert read_checkpoint(app.checkpoint("out")).begun == -1


def test_what_had_never_run_is_left_as_it_is(home: Home) -> None:
    app = home.application("app")
    steps(app).begin_anew(out(PLAIN))
    assert app.generation("out") is None


def test_micro_batches_are_numbered_through_whatever_had_the_name(home: Home) -> None:
    app = home.application("app")
    for number, (text, cut) in enumerate([(JOIN, (5, 2)), (PLAIN, (1, 1)), (JOIN, (5, 2))], 1):
        ran(app, 2)
        steps(app).begin_anew(out(text))
        shards, partitions = cut
        assert app.generation("out") == Generation(
            shards=shards, partitions=partitions, number=number, first_batch=2 * number
        )
    assert [path.name for path in (app.root / "checkpoints").iterdir()] == ["out@3"]


def started(app: AppHome, text: str) -> Plan:
    """A program that is started, and runs."""
    plan = api.compile_text(PROGRAM + text).plan
    keep_version(app, plan_to_json(plan), 0.0)
    for stage in plan.stages:
        app.checkpoint(stage.name).mkdir(parents=True, exist_ok=True)
    return plan


def test_what_comes_back_is_compared_with_what_it_was(home: Home) -> None:
    app = home.application("app")
    first = started(app, JOIN + PLAIN.replace("out", "other"))
    second = started(app, PLAIN.replace("out", "other"))
    assert Update.of(app, second, first).found.changes == ()
    other_keys = api.compile_text(PROGRAM + JOIN.replace("a.k = b.k", "a.id = b.id")).plan
    found = Update.of(app, second, other_keys).found
    assert [change.kind for change in found.changes] == ["join.keys", "table.removed"]
    assert found.ways == {"out": Way.SLICE_AGAIN}
    new = api.compile_text(PROGRAM + JOIN.replace("out", "new")).plan
    assert {change.kind for change in Update.of(app, second, new).found.changes} == {
        "join.added",
        "table.added",
        "table.removed",
    }


def test_an_operator_that_comes_back_finds_its_blocks_as_they_were(home: Home) -> None:
    """Those of another key are sliced again; those of another source are refused."""
    app = home.application("app")
    table = PLAIN.replace("FROM l", "FROM v")
    view = f"{JOIN.replace('TABLE out', 'VIEW v').partition('STORAGE')[0]}; {table}"
    kept = "DEDUPLICATE(TABLE l PARTITION BY k, within => INTERVAL '1 hour')"
    once = f"CREATE VIEW v AS SELECT d.id FROM {kept} AS d;"
    started(app, view)
    second = started(app, once + table)
    for text, verdict, again in (
        (view, Verdict.REPLAYED, set()),
        (view.replace("a.k = b.k", "a.id = b.id"), Verdict.REPLAYED, {"v.left", "v.right"}),
        (view.replace("FROM l", "FROM m"), Verdict.REFUSED, set()),
    ):
        more = 'CREATE INPUT TABLE m (id bigint, k string, t timestamp) FROM SCRIBE("m") TIME t;'
        update = Update.of(app, second, api.compile_text(PROGRAM + more + text).plan)
        assert update.found.verdict is verdict
        assert update.found.ways["v"] is Way.ANEW
        assert {slicer.name for slicer in update._slicers("v").values()} == again


class Recorder:
    """Notes what is done with stages of the old plan."""

    def __init__(self) -> None:
        self.done: list[tuple[str, ...]] = []

    def take(self, old: object, stage: Stage, way: Way) -> None:
        self.done.append((way.name, stage.name))

    def take_all(self, old: object, stage: Stage) -> None:
        self.done.append(("all", stage.name))

    def forget_target(self, stage: Stage) -> None:
        self.done.append(("forget", stage.name))


LEFT = JOIN.replace("TABLE out", "VIEW v").replace(" JOIN", " LEFT JOIN").partition("STORAGE")[0] + ";"
READ = PLAIN.replace("FROM l", "FROM v")


@pytest.mark.parametrize(
    ("before", "after", "done"),
    [
        # What a table has not taken yet of a view's category, it takes before it is stored with the view.
        (
            LEFT + READ + READ.replace("out", "two"),
            LEFT + READ,
            [("FINISH", "v"), ("all", "out"), ("forget", "out"), ("forget", "two")],
        ),
        (LEFT + READ, LEFT + READ + READ.replace("out", "two"), [("FINISH", "v")]),
        # Both inputs take what there is, though one of them alone is sliced again.
        (
            LEFT + READ,
            LEFT.replace("AND a.t", "AND a.t AND a.id > 1") + READ,
            [("all", "v.left"), ("all", "v.right"), ("SLICE_AGAIN", "v")],
        ),
        # What goes is left as it is; what has its name begins anew after it has ended.
        (JOIN, PLAIN, [("forget", "out.left"), ("forget", "out.right"), ("ANEW", "out")]),
        (PLAIN, JOIN, [("all", "out")]),
        (PLAIN, PLAIN.replace('"out"', '"other"'), []),
    ],
)
def test_old_stages_end_in_order(home: Home, before: str, after: str, done: list[tuple[str, ...]]) -> None:
    app, recorder = home.application("app"), Recorder()
    plans = [api.compile_text(PROGRAM + text).plan for text in (before, after)]
    Update.of(app, *plans)._end_old(recorder, None)  # type: ignore[arg-type]
    assert recorder.done == done
