"""Sources that wait for something to read, and for the time to read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from braid.core.columns import HASH, TIME
from braid.core.config import AppConfig
from braid.core.times import SECOND
from braid.engine.admission import AdmissionConfig
from braid.engine.cadence import Due
from braid.engine.offsets import OperatorOffset, ReadOffset
from braid.home.cadence import Cadence
from braid.home.paths import Home
from braid.spark.sources.category import CategoryStreamReader
from braid.spark.sources.steps import StepReader, StepSourceConfig
from braid.spark.sources.waiting import Waiting


class Time:
    """A clock that only sleeping moves, and that lets things happen meanwhile."""

    def __init__(self) -> None:
        self.now = 1_000 * SECOND
        self.events: dict[int, Callable[[], object]] = {}

    def clock(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        until = self.now + round(seconds * SECOND)
        for at in sorted(self.events):
            if at <= until:
                self.events.pop(at)()
        self.now = until


@pytest.fixture
def passing() -> Time:
    return Time()


def waits(time: Time, path: str | None) -> Waiting:
    return Waiting(path, time.clock, time.sleep)


def told(tmp_path: Path, **values: int) -> str:
    path = tmp_path / "cadence.json"
    Cadence(look=25_000, **values).write(path)
    return str(path)


def steps_of(home: Home, tmp_path: Path) -> StepSourceConfig:
    """The source of a join of two categories."""
    return StepSourceConfig(
        home.log_root,
        AdmissionConfig({"left": "left", "right": "right"}, SECOND, AppConfig()),
        (0,),
        str(tmp_path / "drain"),
        str(tmp_path / "pacing"),
    )


def test_a_source_without_a_cadence_never_waits(passing: Time) -> None:
    assert waits(passing, None).input(lambda: False) is Due.NOTHING
    assert waits(passing, "missing").operator(lambda: [True, False]) is Due.NOW
    assert passing.now == 1_000 * SECOND


def test_a_source_asks_for_as_long_as_it_may(tmp_path: Path, passing: Time) -> None:
    waiting = waits(passing, told(tmp_path, patience=SECOND // 2))
    assert waiting.input(lambda: False) is Due.NOTHING
    assert passing.now == 1_000 * SECOND + SECOND // 2
    assert waiting.input(lambda: passing.now > 1_000 * SECOND + 600_000) is Due.NOW


def test_a_hurry_ends_a_wait(tmp_path: Path, passing: Time) -> None:
    path = told(tmp_path, interval=60 * SECOND, patience=10 * SECOND)
    waiting = waits(passing, path)
    waiting.began()
    passing.events[passing.now + SECOND] = lambda: Cadence().write(Path(path))
    assert waiting.input(lambda: True) is Due.NOW
    assert passing.now < 1_002 * SECOND


def test_a_category_is_read_once_per_interval_and_at_once_under_backlog(
    home: Home, tmp_path: Path, passing: Time
) -> None:
    category = home.log().create("in", raw=True)
    waiting = waits(passing, told(tmp_path, interval=2 * SECOND, patience=SECOND // 2))
    reader = CategoryStreamReader(home.log_root, "in", ("value",), 10, 1, waiting=waiting)
    offset, batches = reader.initialOffset(), 0
    for _ in range(40):
        category.append(pa.table({"value": ["x"]}))
        following = reader.latestOffset(offset, None)
        batches += following != offset
        offset = following
    assert 8 <= passing.now // (2 * SECOND) - 500 <= 10
    assert batches == passing.now // (2 * SECOND) - 500 + 1
    category.append(pa.table({"value": ["y"] * 25}), chunk_rows=5)
    passing.now += 2 * SECOND
    began = passing.now
    while (following := reader.latestOffset(offset, None)) != offset:
        offset, batches = following, batches + 1
    assert ReadOffset.from_json(offset).next == (41, 0)
    assert passing.now - began <= SECOND // 2


def test_an_operator_takes_what_its_inputs_commit_at_about_the_same_time_in_one_step(
    home: Home, tmp_path: Path, passing: Time
) -> None:
    schema = pa.schema([(HASH, pa.int64()), (TIME, pa.int64())])
    sides = {side: home.log().create(side, schema, shards=1) for side in ("left", "right")}
    config = steps_of(home, tmp_path)
    path = told(tmp_path, interval=SECOND, grace=SECOND // 5, patience=SECOND // 2)
    reader = StepReader(config, passing.clock, waits(passing, path))
    offset = reader.latestOffset(reader.initialOffset(), None)

    def append(side: str) -> Callable[[], object]:
        rows = pa.table({HASH: pa.array([0], pa.int64()), TIME: pa.array([passing.now], pa.int64())})
        return lambda: sides[side].append(rows)

    passing.events = {passing.now + 50_000: append("left"), passing.now + 150_000: append("right")}
    both = reader.latestOffset(offset, None)
    inputs = OperatorOffset.from_json(both).at.inputs
    assert {name: one.position for name, one in inputs.items()} == {"left": (0, 0), "right": (0, 0)}
    began = passing.now
    passing.events = {passing.now + 50_000: append("left")}
    alone = reader.latestOffset(both, None)
    assert alone != both
    assert 200_000 <= passing.now - began <= 350_000


def test_many_commits_are_a_backlog_however_few_rows_they_have(
    home: Home, tmp_path: Path, passing: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("braid.spark.sources.category.COMMITS_AT_ONCE", 4)
    category = home.log().create("in", raw=True)
    for _ in range(10):
        category.append(pa.table({"value": ["x"]}))
    waiting = waits(passing, told(tmp_path, interval=3600 * SECOND, patience=SECOND // 2))
    reader = CategoryStreamReader(home.log_root, "in", ("value",), 1000, 1, waiting=waiting)
    offset = start = reader.initialOffset()
    passing.now = 3599 * SECOND
    while offset == start:
        offset = reader.latestOffset(start, None)
    assert ReadOffset.from_json(offset).next == (4, 0)
    for following in ((8, 0), (10, 0)):
        offset = reader.latestOffset(offset, None)
        assert ReadOffset.from_json(offset).next == following
    assert passing.now < 3610 * SECOND


def test_an_operator_that_is_drained_waits_for_what_comes(home: Home, tmp_path: Path, passing: Time) -> None:
    schema = pa.schema([(HASH, pa.int64()), (TIME, pa.int64())])
    for side in ("left", "right"):
        home.log().create(side, schema, shards=1)
    config = steps_of(home, tmp_path)
    (tmp_path / "drain").touch()
    reader = StepReader(config, passing.clock, waits(passing, None))
    drained = reader.latestOffset(reader.initialOffset(), None)
    assert OperatorOffset.from_json(drained).at.drained
    (tmp_path / "drain").unlink()
    path = told(tmp_path, interval=SECOND, patience=SECOND // 2)
    again = StepReader(config, passing.clock, waits(passing, path))
    assert again.latestOffset(drained, None) == drained
    began = passing.now
    assert again.latestOffset(drained, None) == drained
    assert passing.now - began == SECOND // 2
