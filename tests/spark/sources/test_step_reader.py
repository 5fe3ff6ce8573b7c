"""The source of an operator, as Spark calls it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from braid.core.columns import HASH, TIME
from braid.core.config import AppConfig
from braid.core.positions import Position
from braid.core.times import MAX_TIME
from braid.engine.admission import AdmissionConfig
from braid.engine.offsets import OperatorOffset
from braid.eventtime.offset import InputOffset, Offset
from braid.home.paths import Home
from braid.kernels.step import Step
from braid.log.layout import commit_path
from braid.log.records import Commit, seal_commit
from braid.spark.sources.steps import Reference, StepReader, StepSourceConfig


def paced(home: Home, **options: object) -> tuple[StepReader, Callable[[str, list[int]], None], Path]:
    schema = pa.schema([(HASH, pa.int64()), (TIME, pa.int64())])
    for side in ("left", "right"):
        home.log().create(side, schema, shards=2)
    drain = home.root / "drain"
    admission = AdmissionConfig({"left": "left", "right": "right"}, 10_000_000, AppConfig(**options))
    values = StepSourceConfig(home.log_root, admission, (3, 5), str(drain), str(home.root / "pacing.json"))

    def append(side: str, times: list[int]) -> None:
        rows = pa.table({HASH: pa.array([0] * len(times), pa.int64()), TIME: pa.array(times, pa.int64())})
        home.log().open(side).append(rows)

    return StepReader(StepSourceConfig.from_json(values.to_json())), append, drain


def steps(reader: StepReader, start: dict, end: dict) -> Step:
    (part,) = reader.partitions(start, end)
    assert isinstance(part, Reference)
    (rows,) = reader.read(part)
    assert rows["slot"].to_pylist() == [3, 5]
    assert rows["shard"].to_pylist() == [0, 1]
    return Step.from_text(rows["step"][0].as_py())


def test_a_join_source_admits_drains_and_begins_again(home: Home) -> None:
    reader, append, drain = paced(home)
    start = reader.latestOffset(reader.initialOffset(), None)
    assert reader.latestOffset(start, None) == start
    append("left", [1_000_000, 2_000_000])
    append("right", [1_500_000, 9_000_000])
    first = reader.latestOffset(start, None)
    step = steps(reader, start, first)
    assert step.blocks == {"left": [(0, 0)], "right": [(0, 0)]}
    assert reader.latestOffset(first, None) == first
    drain.touch()
    second = reader.latestOffset(first, None)
    assert (first["at"]["drained"], second["at"]["drained"]) == (False, True)
    step = steps(reader, first, second)
    assert (step.size, step.times["left"], step.epoch) == (0, MAX_TIME, 0)
    assert reader.latestOffset(second, None) == second
    drain.unlink()
    append("left", [3_000_000])
    third = reader.latestOffset(second, None)
    step = steps(reader, second, third)
    assert (step.blocks["left"], step.epoch) == ([(1, 0)], 1)
    assert step.times["left"] < MAX_TIME


def test_the_stream_that_runs_ahead_is_named(home: Home) -> None:
    reader, append, _ = paced(home, slack=5)
    offset = reader.initialOffset()
    hour = 3_600_000_000
    for start in range(0, 4 * hour, hour):
        append("right", list(range(start, start + hour, hour // 500)))
    append("left", list(range(0, hour // 4, hour // 500)))
    for _ in range(10):
        offset = reader.latestOffset(offset, None)
    said = json.loads((home.root / "pacing.json").read_text())
    assert said["paused"] == "right"
    assert "ahead of left" in said["why"]


def test_ten_thousand_commits_do_not_slow_down_planning(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, append, _ = paced(home)
    for side in ("left", "right"):
        folder = Path(home.log_root) / side
        last = folder / commit_path(9_999)
        last.write_bytes(seal_commit(9_999, [], {}, 0))
        # Nobody may read the others, so that they need not be more than names.
        for number in range(9_999):
            os.link(last, folder / commit_path(number))
    at = Position(9_999, -1)
    inputs = dict.fromkeys(("left", "right"), InputOffset(at, 0, 0))
    offset = OperatorOffset(Offset(inputs)).to_json()
    append("left", [1, 2])
    read: list[int] = []
    unseal = Commit.unseal
    monkeypatch.setattr(Commit, "unseal", lambda data, n, where: read.append(n) or unseal(data, n, where))
    end = reader.latestOffset(offset, None)
    assert steps(reader, offset, end).blocks["left"] == [(10_000, 0)]
    assert set(read) <= {9_999, 10_000}
