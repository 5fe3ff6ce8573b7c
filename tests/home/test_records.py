"""The records that a run leaves: read into types, whichever version wrote them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from braid import api
from braid.core.config import parse_options
from braid.core.counters import Counters, InputCounters
from braid.core.errors import RunError
from braid.engine.run_metrics import Progress, RunStatus, StageMetrics
from braid.home.buffered import read_buffered, write_buffered
from braid.home.counted import Counted
from braid.home.files import write_json
from braid.home.metrics import MicroBatch, read_metrics
from braid.home.options import RunOptions, read_options, write_options
from braid.home.pacing import Pacing
from braid.home.paths import AppHome, Home
from braid.home.rotation import GENERATIONS, rotate
from braid.home.status import RunState, read_status

FIRST_VERSION = Path(__file__).parent / "first_version"
"""Files of a stopped application, written by the first version."""


@pytest.fixture
def app(tmp_path: Path) -> AppHome:
    app = Home.at(tmp_path / "home").application("demo")
    app.metrics_file("any").parent.mkdir(parents=True)
    return app


def counted(app: AppHome, batch: int, counts: Counters) -> None:
    Counted(batch, batch + 10, 1.5, counts).write(app.counts_folder, "j")


def test_a_micro_batch_goes_from_the_sink_to_the_status(app: AppHome) -> None:
    metrics = StageMetrics(app, "j", "join", "a join", paced=True)
    metrics.begin()
    left = InputCounters(rows=3, decided=4, matched=3, unmatched=1, pending=2, stream_time=2**62)
    for batch in (0, 1):
        inputs = {"left": left, "right": InputCounters(rows=2)}
        counted(app, batch, Counters(rows_in=5, matches=3, inputs=inputs))
        (found,) = metrics.take([Progress(batch, "now", 99, {"addBatch": 7})])
        assert (found.counters.rows_in, found.match_rate, found.lag_ms) == (
            5,
            0.75,
            {"left": None, "right": None},
        )
    assert metrics.take([Progress(1, "now", 99, {"addBatch": 7})]) == []
    metrics.save()
    Pacing(inputs={"left": "paused", "right": "reading"}, paused="left", why="ahead").write(
        app.control_file("j", "pacing")
    )
    with app.running():
        told = RunStatus(app, RunState.RUNNING).write({"j": metrics})
        assert read_status(app) == told
    assert told.stages["j"].match_rate == {"left": 0.75}
    (status,) = api.status(app.home.root)
    assert status.state is RunState.KILLED
    stage = status.stages["j"]
    assert (stage.totals.matches, stage.totals.rows_in, stage.totals.inputs["left"].pending) == (6, 10, 0)
    assert stage.last is not None
    assert (stage.last.batch, stage.last.commit, stage.last.counters.inputs["left"].pending) == (1, 11, 2)
    assert stage.pacing is not None
    assert (stage.pacing.paused, stage.pacing.why) == ("left", "ahead")
    assert [line.batch for line in read_metrics(app.metrics_file("j"))] == [0, 1]
    assert read_metrics(app.metrics_file("j"))[-1] == stage.last
    assert list(app.counts_folder.iterdir()) == []


def test_a_line_that_is_being_written_is_left_out(app: AppHome) -> None:
    path = app.metrics_file("j")
    MicroBatch(stage="j", kind="join", batch=0, at="now").append(path)
    path.write_text(path.read_text() + '{"stage": "j", "ki')
    assert [line.batch for line in read_metrics(path)] == [0]
    assert read_metrics(app.metrics_file("other")) == []


def test_metrics_files_are_bounded_and_hold_the_last_micro_batches(
    app: AppHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("braid.home.metrics.rotate", partial(rotate, full=1_000))
    path = app.metrics_file("j")
    for number in range(200):
        MicroBatch(stage="j", kind="join", batch=number, at="now").append(path)
    files = list(path.parent.iterdir())
    assert len(files) == 1 + GENERATIONS
    # The line that fills a file is still in it.
    assert all(each.stat().st_size < 2_000 for each in files)
    kept = [line.batch for line in read_metrics(path)]
    assert 0 < len(kept) < 200
    assert kept == list(range(200 - len(kept), 200))


def test_what_the_first_version_left_is_read(app: AppHome) -> None:
    for name in ("status.json", "metrics/j.jsonl", "control/j.pacing.json"):
        target = app.root / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes((FIRST_VERSION / Path(name).name).read_bytes())
    (status,) = api.status(app.home.root)
    assert status.state is RunState.DRAINED
    join, slicer = status.stages["j"], status.stages["j.left"]
    assert join.last is not None
    assert (join.totals.matches, join.totals.inputs["left"].unmatched) == (3, 3)
    assert join.last.counters.inputs["left"].stream_time == 2**62
    assert (join.pacing, slicer.pacing) == (Pacing.read(app.control_file("j", "pacing")), None)
    assert join.pacing is not None
    assert set(join.pacing.inputs) == {"left", "right"}
    lines = read_metrics(app.metrics_file("j"))
    assert lines[-1] == join.last
    assert sum(line.counters.matches for line in lines) == 3
    assert slicer.last is not None
    assert slicer.last.counters.dead == {}


def test_a_file_that_holds_something_else_is_named(app: AppHome) -> None:
    write_json(app.status_file, {"application": "demo", "state": "asleep"})
    with pytest.raises(RunError, match=r"status\.json: state is 'asleep'"):
        api.status(app.home.root)


def test_options_as_run_are_read_back_as_they_were(app: AppHome) -> None:
    assert read_options(app) is None
    options = parse_options({"retention": "3 hours", "shards": 3, "percentile": 2.5, "max_per_key": 7})
    write_options(app, options, ["shards"])
    assert read_options(app) == RunOptions(options, ("shards",))
    write_json(app.options_file, options.model_dump(mode="json"))
    assert read_options(app) == RunOptions(options, None)
    write_json(app.options_file, {"shards": 0})
    with pytest.raises(RunError, match=r"options\.json: shards is 0"):
        read_options(app)


def test_rows_buffered_are_told(tmp_path: Path) -> None:
    assert read_buffered(tmp_path / "rows.json") == 0
    write_buffered(tmp_path / "rows.json", 7)
    assert read_buffered(tmp_path / "rows.json") == 7
    assert json.loads((tmp_path / "rows.json").read_text()) == {"rows": 7}
