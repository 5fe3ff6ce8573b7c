"""An application goes on only from a checkpoint, control files and targets that belong together."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from braid import api
from braid.core.config import parse_options
from braid.core.errors import RunError
from braid.home.control import Generation, SinkStart
from braid.home.paths import AppHome, Home
from braid.log.records import FileEntry
from braid.log.writer import write_file
from braid.plan.stages.base import Plan, Stage
from braid.spark.checkpoints import read_checkpoint
from braid.spark.resuming import Resuming, writer_name
from braid.stores.lookup import LookupStore

PROGRAM = """
  CREATE APPLICATION app;
  CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
  CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
  CREATE VIEW j AS SELECT l.id AS lid, r.id AS rid, l.t AS t FROM l LEFT JOIN r ON l.k = r.k
    AND r.t BETWEEN l.t - INTERVAL '10 seconds' AND l.t + INTERVAL '10 seconds';
  CREATE TABLE out AS SELECT * FROM j STORAGE SCRIBE(category = "out");
  CREATE TABLE lake AS SELECT id, t FROM l STORAGE HIVE(table = "lake");
  CREATE TABLE latest AS SELECT k, t, id FROM r STORAGE LASER(table = "latest", key = (k));
"""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return api.compile_text(PROGRAM).plan


@pytest.fixture
def app(home: Home) -> AppHome:
    return home.application("app")


def resuming(app: AppHome, plan: Plan) -> Resuming:
    return Resuming(app, plan, parse_options({}))


def batches(app: AppHome, stage: str, begun: int, done: int) -> Path:
    """Write a checkpoint as Spark does."""
    folder = app.checkpoint(stage)
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"x"}')
    for number in range(begun + 1):
        (folder / "offsets" / str(number)).write_text('v1\n{"conf":{}}\n{"at":1}')
    for number in range(done + 1):
        (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


def publish(app: AppHome, stage: Stage, commits: int) -> None:
    """Have a stage's target hold a number of commits."""
    name = stage.sink.name
    if stage.sink.kind.connector.keyed:
        table = LookupStore(app.home.root).create(
            name, pa.schema([("k", pa.string())]), pa.schema([("id", pa.int64())])
        )
        with table:
            for number in range(commits):
                rows = pa.table({"k": ["a"], "id": [number]})
                table.upsert(rows, writer="app.latest", batch_id=number, now_us=number)
    elif stage.sink.kind.connector.filed:
        folder = app.home.root / "warehouse" / name / "_commits"
        folder.mkdir(parents=True)
        for number in range(commits):
            (folder / f"{stage.name}-{number:08d}.json").write_text("{}")
    else:
        category = app.home.log().create(name, pa.schema([("x", pa.int64())]), shards=1)
        for number in range(commits):
            rows = pa.table({"x": [number]}) if number % 2 == 0 else pa.table({"x": pa.array([], pa.int64())})
            entry: FileEntry = write_file(category, stage.name, rows.to_batches(), 10)
            assert category.publish(number, [entry])


def started(app: AppHome, stage: Stage, first: int = 0) -> None:
    SinkStart(target=stage.sink.name, first_commit=first).write(app.control_file(stage.name, "sink"))
    if stage.stateful:
        Generation(shards=2, partitions=1).write(app.control_file(stage.name, "state"))


def of_kinds(plan: Plan) -> dict[str, Stage]:
    """A stage per kind of target."""
    stages = {stage.name: stage for stage in plan.stages}
    found = {name: stages[name] for name in ("j.left", "lake", "latest")}
    return {**found, "join": next(stage for stage in plan.stages if stage.stateful)}


@pytest.mark.parametrize("kind", ["j.left", "lake", "latest", "join"])
def test_a_lost_or_old_checkpoint_is_refused(app: AppHome, plan: Plan, kind: str) -> None:
    stage = of_kinds(plan)[kind]
    started(app, stage)
    publish(app, stage, 5)
    go_on = resuming(app, plan)
    for begun, done in ((4, 4), (4, 3), (5, 4)):
        # Stopped in good order; killed before, or after, the last micro-batch was published.
        batches(app, stage.name, begun, done)
        go_on.check()
        assert go_on.first_commit(stage) == 0
    folder = batches(app, stage.name, 2, 2)
    words = rf"{re.escape(str(folder))}: .*{stage.name}.* ends at micro-batch 2, .* commits up to 4: .* twice"
    with pytest.raises(RunError, match=rf"{words}\n  hint: restore .*; or start anew"):
        go_on.check()
    for lose in (folder / "offsets", folder):
        shutil.rmtree(folder / "commits", ignore_errors=True)
        shutil.rmtree(lose)
        with pytest.raises(RunError, match=r"is missing, and .* commits up to 4: .* twice"):
            go_on.check()
    shutil.rmtree(app.root)
    with pytest.raises(RunError, match="is missing, and"):
        go_on.check()


@pytest.mark.parametrize("kind", ["j.left", "lake", "latest", "join"])
def test_a_first_start_that_was_killed_early_starts_again(app: AppHome, plan: Plan, kind: str) -> None:
    stage = of_kinds(plan)[kind]
    go_on = resuming(app, plan)
    go_on.check()
    assert go_on.first_commit(stage) == 0
    started(app, stage)
    go_on.check()
    publish(app, stage, 0)
    go_on.check()
    app.checkpoint(stage.name).mkdir(parents=True)
    go_on.check()
    assert go_on.first_commit(stage) == 0


def test_a_category_that_others_wrote_before_is_continued(app: AppHome, plan: Plan) -> None:
    stage = of_kinds(plan)["join"]
    category = app.home.log().create(stage.sink.name, pa.schema([("x", pa.int64())]), shards=1)
    for number in range(3):
        category.append(pa.table({"x": [number]}))
    go_on = resuming(app, plan)
    assert go_on.keep_start(stage).first_commit == 3
    # Killed before anything was done, and somebody wrote once more: nothing is lost by that.
    assert go_on.first_commit(stage) == 3
    batches(app, stage.name, 0, -1)
    Generation(shards=2, partitions=1).write(app.control_file(stage.name, "state"))
    assert go_on.first_commit(stage) == 3
    category.append(pa.table({"x": [3]}))
    batches(app, stage.name, 0, 0)
    go_on.check()
    assert go_on.first_commit(stage) == 3


def test_what_was_published_and_is_gone_is_named(app: AppHome, plan: Plan) -> None:
    stage = of_kinds(plan)["join"]
    started(app, stage)
    publish(app, stage, 3)
    batches(app, stage.name, 5, 5)
    with pytest.raises(RunError, match=r"ends at commit 2, and .* written up to 5: .* lost"):
        resuming(app, plan).check()


def test_a_new_start_after_the_output_was_dropped(app: AppHome, plan: Plan) -> None:
    stage = of_kinds(plan)["join"]
    started(app, stage, first=7)
    go_on = resuming(app, plan)
    assert go_on.keep_start(stage).first_commit == 0


def test_a_lost_file_of_where_a_sink_began(app: AppHome, plan: Plan) -> None:
    stage = of_kinds(plan)["join"]
    started(app, stage)
    publish(app, stage, 5)
    path = app.control_file(stage.name, "sink")
    path.unlink()
    go_on = resuming(app, plan)
    # All that was begun is done: what is published tells the rest.
    batches(app, stage.name, 4, 4)
    assert go_on.first_commit(stage) == 0
    batches(app, stage.name, 5, 4)
    with pytest.raises(RunError, match=rf"{re.escape(str(path))}: .* missing, .* last micro-batch"):
        go_on.first_commit(stage)
    path.write_text('{"target": ')
    with pytest.raises(RunError, match=rf"{re.escape(str(path))}: not JSON.*\n  hint: remove"):
        go_on.check()


def test_a_lost_file_of_how_state_is_cut(app: AppHome, plan: Plan) -> None:
    stage = of_kinds(plan)["join"]
    started(app, stage)
    path = app.control_file(stage.name, "state")
    go_on = resuming(app, plan)
    assert go_on.generation(stage) is None
    batches(app, stage.name, 0, -1)
    damage = {"damaged": partial(path.write_text, "{}"), "missing": path.unlink}
    for what, do in damage.items():
        do()
        with pytest.raises(RunError, match=rf"{re.escape(str(path))}: .* is {what}\n  hint: restore"):
            go_on.check()


def test_micro_batches_are_numbered_through_generations(app: AppHome, plan: Plan) -> None:
    stage, go_on = of_kinds(plan)["join"], resuming(app, plan)
    started(app, stage)
    saved = Generation(shards=3, partitions=2, number=2, first_batch=7, savepoint="one.json")
    saved.write(app.control_file(stage.name, "state"))
    savepoint = app.savepoints / "one.json"
    with pytest.raises(RunError, match=rf"{re.escape(str(savepoint))}: .* begins from is missing"):
        go_on.generation(stage)
    savepoint.parent.mkdir()
    savepoint.touch()
    assert go_on.generation(stage) == saved
    batches(app, stage.name, 4, 3)
    assert app.checkpoint(stage.name).name == f"{stage.name}@2"
    found = go_on._checkpoint(stage)
    assert (found.begun, found.done) == (11, 10)
    savepoint.unlink()
    assert go_on.generation(stage) == saved


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        (["offsets/3"], "offsets/3"),
        (["offsets/2"], "offsets/2"),
        (["commits/2", "commits/3"], "commits/2"),
        (["metadata"], "metadata"),
        (["offsets/3", "offsets/2", "offsets/1", "offsets/0"], "offsets/3"),
        (["commits/3", "commits/2", "commits/1", "commits/0"], "commits/2"),
    ],
)
def test_missing_files_of_a_checkpoint_are_named(app: AppHome, lost: list[str], named: str) -> None:
    folder = batches(app, "out", 3, 3)
    for name in lost:
        (folder / name).unlink()
    with pytest.raises(RunError, match=rf"{re.escape(str(folder / named))}: .* missing\n  hint: restore"):
        read_checkpoint(folder)


@pytest.mark.parametrize("name", ["offsets/3", "offsets/2", "commits/3", "metadata"])
@pytest.mark.parametrize("left", [0, 1, 7])
def test_files_of_a_checkpoint_that_are_cut_off_are_named(app: AppHome, name: str, left: int) -> None:
    folder = batches(app, "out", 3, 3)
    (folder / name).write_text((folder / name).read_text()[:left])
    with pytest.raises(RunError, match=rf"{re.escape(str(folder / name))}: .* cut off\n  hint: restore"):
        read_checkpoint(folder)


def test_a_commit_that_spark_has_not_noted_is_no_damage(app: AppHome) -> None:
    folder = batches(app, "out", 3, 2)
    found = read_checkpoint(folder)
    assert (found.begun, found.done, found.in_flight) == (3, 2, True)
    assert not read_checkpoint(folder.with_name("none")).in_flight


def test_a_home_of_the_first_version_goes_on(tmp_path: Path) -> None:
    with tarfile.open(Path(__file__).parents[1] / "golden" / "v1" / "home.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    app = Home.at(tmp_path / "home").application("shop")
    plan = api.load_plan(app.plan_file)
    go_on = resuming(app, plan)
    go_on.check()
    for stage in plan.stages:
        path = app.control_file(stage.name, "sink")
        if path.exists():
            assert go_on.first_commit(stage) == json.loads(path.read_text())["first_commit"]
    assert writer_name(plan, plan.stages[0]) == f"shop.{plan.stages[0].name}"


@pytest.mark.parametrize("kind", ["j.left", "lake", "latest", "join"])
def test_letters_are_written_under_another_name_when_commits_begin_anew(
    app: AppHome, plan: Plan, kind: str
) -> None:
    """A stage knows by the numbers of its commits which letters it has written."""
    stage, go_on = of_kinds(plan)[kind], resuming(app, plan)
    publish(app, stage, 3)
    batches(app, stage.name, 2, 2)
    started(app, stage)
    assert go_on.keep_start(stage).writer is None  # of an earlier version: it goes on under its own name
    other = SinkStart(target="elsewhere", first_commit=5)
    other.write(app.control_file(stage.name, "sink"))
    moved = go_on.keep_start(stage).writer
    assert moved is not None
    assert moved.startswith(f"{stage.name}/")
    assert go_on.keep_start(stage).writer == moved
    batches(app, stage.name, 3, 2)
    assert go_on.keep_start(stage).writer == moved
    shutil.rmtree(app.root)
    shutil.rmtree(app.home.root / "warehouse", ignore_errors=True)
    if not stage.sink.kind.connector.keyed and not stage.sink.kind.connector.filed:
        app.home.log().drop(stage.sink.name)
        assert go_on.keep_start(stage).writer not in (None, moved)
