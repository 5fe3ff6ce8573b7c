"""What an input has yet to read, from commit records alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from braid.home import backlog as module
from braid.home.backlog import Backlog, backlog
from braid.home.control import ReadUpTo
from braid.home.paths import Home
from braid.home.status import InputStatus, RunState, StageStatus, Status, read_status
from braid.log.shared import reader

SECOND = 1_000_000


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home.at(tmp_path / "home")
    schema = pa.schema([("t", pa.timestamp("us", tz="UTC"))])
    category = home.log().create("in", schema, shards=1, time_columns=("t",))
    for number in range(4):
        times = pa.array([(10 * number + second) * SECOND for second in range(10)], schema.field("t").type)
        category.append(pa.table({"t": times}), chunk_rows=5)
    reader.cache_clear()
    return home


def test_rows_and_event_time_behind(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    root = home.log_root
    assert backlog(root, "in", (4, 0), "t") == Backlog(0, more=False, micros=0)
    assert backlog(root, "in", (3, 1), "t") == Backlog(5, more=False, micros=5 * SECOND)
    assert backlog(root, "in", (1, 0), "t") == Backlog(30, more=False, micros=30 * SECOND)
    # Nothing is read yet, or commits tell no times: how far it is behind in time is not known.
    assert backlog(root, "in", (0, 0), "t") == Backlog(40, more=False, micros=None)
    assert backlog(root, "in", (1, 0), None) == Backlog(30, more=False, micros=None)
    assert backlog(root, "gone", (0, 0), None) is None
    monkeypatch.setattr(module, "COMMITS", 2)
    assert backlog(root, "in", (1, 0), "t") == Backlog(20, more=True, micros=30 * SECOND)


def test_a_stopped_application_tells_lag_and_backlog_as_of_now(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = home.application("demo")
    inputs = {"source": InputStatus(category="in", time="t", stream_time=5 * SECOND), "files": InputStatus()}
    stages = {"s": StageStatus(kind="slicer", inputs=inputs)}
    Status(application="demo", state=RunState.STOPPED, stages=stages).write(app.status_file)
    monkeypatch.setattr("braid.home.status.time.time", lambda: 100.0)
    for following, rows in (((2, 0), 20), ((4, 0), 0)):
        ReadUpTo(offset={}, following={"source": following}).write(app.control_file("s", "read"))
        status = read_status(app)
        assert status is not None
        found = status.stages["s"].inputs
        assert (found["source"].rows_behind, found["source"].lag_ms) == (rows, 95_000)
        # Nobody knows of files what is not read: that is not 0.
        assert (found["files"].rows_behind, found["files"].behind_ms, found["files"].lag_ms) == (None,) * 3
