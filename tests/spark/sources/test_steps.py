"""Steps that the wall clock asks for, limits on what is buffered, and watermarks: without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from braid.core.columns import HASH, TIME
from braid.core.config import AppConfig
from braid.core.counters import Counters, InputCounters
from braid.core.errors import RunError
from braid.core.positions import Position
from braid.core.times import MAX_TIME, SECOND
from braid.engine.admission import AdmissionConfig
from braid.engine.offsets import OperatorOffset
from braid.engine.output_watermarks import OperatorWatermarks, SlicerWatermarks, read_watermarks
from braid.engine.waiting import PATIENCE, Full, padding_due
from braid.eventtime.offset import InputOffset, Offset
from braid.home.control import ReadUpTo
from braid.home.pacing import Pacing
from braid.home.paths import Home
from braid.kernels.step import Step
from braid.spark.sources.steps import Fed, Reference, StepReader, StepSourceConfig

SCHEMA = pa.schema([(HASH, pa.int64()), (TIME, pa.int64())])


def paced(
    home: Home, clock: list[int], *, pad_after: int | None = None, **options: object
) -> tuple[StepReader, Callable[[str, list[int]], None], Path]:
    """A source, a function that appends rows to a side, and where buffered rows are told."""
    for side in ("left", "right"):
        home.log().create(side, SCHEMA, shards=1)
    buffered = home.root / "buffered.json"
    admission = AdmissionConfig(
        {"left": "left", "right": "right"},
        upper=10 * SECOND,
        options=AppConfig(**options),
        disorder={"left": 0, "right": 0},
        pad_after=pad_after,
    )
    config = StepSourceConfig(
        root=home.log_root,
        admission=admission,
        state_keys=(0,),
        drain_file=str(home.root / "drain"),
        status_file=str(home.root / "pacing.json"),
        buffered_file=str(buffered),
    )

    def append(side: str, times: list[int]) -> None:
        rows = {HASH: pa.array([0] * len(times), pa.int64()), TIME: pa.array(times, pa.int64())}
        home.log().open(side).append(pa.table(rows))

    return StepReader(StepSourceConfig.from_json(config.to_json()), lambda: clock[0]), append, buffered


def step(reader: StepReader, start: dict, end: dict) -> Step:
    (part,) = reader.partitions(start, end)
    assert isinstance(part, Reference)
    return Step.from_text(part.step)


def test_a_step_is_due_while_rows_wait_by_the_clock() -> None:
    assert not padding_due(now=1_000, last=500, newest=100, pad_after=400)
    assert not padding_due(now=550, last=500, newest=450, pad_after=400)
    assert padding_due(now=600, last=500, newest=450, pad_after=400)
    assert padding_due(now=850, last=849, newest=450, pad_after=400)


def test_waiting_rows_are_padded_and_then_nothing_is_written(home: Home) -> None:
    clock = [0]
    reader, append, _ = paced(home, clock, pad_after=8 * SECOND, idle_timeout="10 hours")
    append("left", [1, 2])
    arrived = home.log().open("left").reader().commit(0).wall_time
    clock[0] = arrived + SECOND
    start = reader.initialOffset()
    offset = reader.latestOffset(start, None)
    assert step(reader, start, offset).wall_time == clock[0]
    seen = []
    for _ in range(40):
        clock[0] += SECOND
        after = reader.latestOffset(offset, None)
        if after != offset:
            seen.append((clock[0] - arrived) // SECOND)
            replayed = step(reader, offset, after)
            assert (replayed.blocks["left"], replayed.wall_time) == ([], clock[0])
            offset = after
    assert seen == [3, 5, 7, 8]


def test_a_restart_pads_what_has_waited_through_the_outage(home: Home) -> None:
    clock = [0]
    reader, append, _ = paced(home, clock, pad_after=8 * SECOND, idle_timeout="10 hours")
    append("left", [1])
    clock[0] = home.log().open("left").reader().commit(0).wall_time
    offset = reader.latestOffset(reader.initialOffset(), None)
    clock[0] += 3600 * SECOND
    restarted = StepReader(reader._config, lambda: clock[0])
    after = restarted.latestOffset(offset, None)
    assert after != offset
    assert restarted.latestOffset(after, None) == after


def test_a_run_without_work_begins_with_one_empty_step(home: Home) -> None:
    clock = [10**15]
    reader, append, _ = paced(home, clock, idle_timeout="10 hours")
    offset = reader.initialOffset()
    for _ in range(2):
        reader = StepReader(reader._config, lambda: clock[0])
        begun = reader.latestOffset(offset, None)
        empty = step(reader, offset, begun)
        assert empty.size == 0
        assert (begun["epoch"], begun["at"]) == (offset["epoch"], offset["at"])
        assert reader.latestOffset(begun, None) == begun
        offset = begun
    append("left", [1])
    assert step(reader, offset, reader.latestOffset(offset, None)).blocks["left"] == [(0, 0)]


def test_without_a_wait_the_clock_changes_nothing(home: Home) -> None:
    clock = [10**15]
    reader, append, _ = paced(home, clock, idle_timeout="10 hours")
    append("left", [1])
    append("right", [1])
    offset = reader.latestOffset(reader.initialOffset(), None)
    clock[0] += 600 * SECOND
    assert reader.latestOffset(offset, None) == offset


def test_a_side_whose_rows_are_held_upstream_is_not_idle(home: Home) -> None:
    clock = [10**15]
    reader, append, held = paced(home, clock, idle_timeout="1 second", slack="1 hour")
    patient = StepReader(replace(reader._config, held_files={"left": (str(held),)}), lambda: clock[0])
    held.write_text('{"rows": 3}')
    append("right", [SECOND, 90 * SECOND])
    start = patient.latestOffset(patient.initialOffset(), None)
    clock[0] += 60 * SECOND
    append("right", [91 * SECOND])
    waiting = patient.latestOffset(start, None)
    assert waiting["at"]["inputs"]["left"]["stream_time"] < 0
    held.write_text('{"rows": 0}')
    append("right", [92 * SECOND])
    clock[0] += 60 * SECOND
    assert patient.latestOffset(waiting, None)["at"]["inputs"]["left"]["stream_time"] == 82 * SECOND


def test_full_buffers_let_one_chunk_in_at_a_time(home: Home) -> None:
    reader, append, buffered = paced(home, [10**15], max_buffered_rows=10)
    for number in range(6):
        append("left", list(range(number * SECOND, number * SECOND + 4)))
        append("right", list(range(number * SECOND, number * SECOND + 4)))
    start = reader.initialOffset()
    first = reader.latestOffset(start, None)
    taken = step(reader, start, first)
    assert taken.size <= 3
    buffered.write_text('{"rows": 12}')
    second = reader.latestOffset(first, None)
    taken = step(reader, first, second)
    assert taken.size == 1
    assert "max_buffered_rows" in json.loads((home.root / "pacing.json").read_text())["why"]
    buffered.write_text('{"rows": 3}')
    assert reader.latestOffset(second, None)["full"] == [0, 0]


def test_buffers_that_stay_full_are_an_error() -> None:
    full = Full()
    for _ in range(PATIENCE):
        full = full.after(100, limit=100)
    assert full.after(99, limit=100) == Full()
    assert full.after(99, limit=90) == Full(1, 99)
    with pytest.raises(RunError, match="max_buffered_rows is 90: the time window alone holds more"):
        full.after(100, limit=90)


def test_a_carried_watermark_is_held_back_by_what_is_buffered(home: Home) -> None:
    """Orders and deliveries were joined; their rows now wait for returns, by the time of the delivery."""
    chain = home.log().create("chain", SCHEMA, shards=1)
    home.log().create("returns", SCHEMA, shards=1)
    chain.publish(0, [], {TIME: 100, "order": 70})
    chain.publish(1, [], {TIME: 140, "order": 90})
    marks = OperatorWatermarks(
        {"left": "chain", "right": "returns"},
        (0, 30),
        (("d", "left", TIME, 0), ("o", "left", "order", 50), ("r", "right", TIME, 0)),
    )
    assert read_watermarks(json.loads(json.dumps(vars(marks)))) == marks

    def of(commit: int, left: int, right: int, **held: int) -> dict[str, int]:
        sides = {"left": (commit, left), "right": (-1, right)}
        at = Offset({name: InputOffset(Position(at, -1), t, 0) for name, (at, t) in sides.items()})
        return marks.of(
            home.log_root, OperatorOffset(at).to_json(), Counters(inputs={"left": InputCounters(held=held)})
        )

    # A delivery may wait from 100 - 30 on, and its order lie up to 50 before; a shard knows better.
    assert of(0, 100, 100) == {"d": 70, "o": 70, "r": 70}
    assert of(0, 100, 100, order=40) == {"d": 70, "o": 40, "r": 70}
    assert of(0, 100, 100, order=5) == {"d": 70, "o": 20, "r": 70}
    # What has come in is a limit, too: nothing waits, but older orders may still come.
    assert of(1, 140, 200) == {"d": 140, "o": 90, "r": 140}
    assert of(1, MAX_TIME, MAX_TIME) == {"d": MAX_TIME, "o": 90, "r": MAX_TIME}
    assert of(-1, 100, 100) == {"d": 70, "r": 70}


def test_a_slicer_passes_on_the_watermarks_of_what_it_has_read_whole(home: Home) -> None:
    source = home.log().create("source", SCHEMA, shards=1)
    source.publish(0, [], {"o": 5, "d": 6})
    source.publish(1, [], {"o": 7, "d": 8})
    marks = SlicerWatermarks("source", ((TIME, "d"), ("order", "o"), ("other", "gone")))
    assert read_watermarks(json.loads(json.dumps(vars(marks)))) == marks
    assert marks.of(home.log_root, {"commit": 0, "chunk": 3}, Counters()) == {}
    assert marks.of(home.log_root, {"commit": 1, "chunk": 3}, Counters()) == {TIME: 6, "order": 5}
    assert marks.of(home.log_root, {"commit": 2, "chunk": 0}, Counters()) == {TIME: 8, "order": 7}


@pytest.mark.parametrize("idle", ["proceed", "wait"])
def test_a_silent_side_is_told_and_waited_for_if_asked(home: Home, idle: str) -> None:
    clock = [10**15]
    reader, append, _ = paced(home, clock, idle_timeout="5 seconds", slack="20 seconds", idle=idle)
    status = Path(reader._config.status_file)
    append("left", [SECOND])
    append("right", [SECOND])
    offset = reader.latestOffset(reader.initialOffset(), None)
    assert Pacing.read(status).silent is None
    for second in range(10, 100, 10):
        clock[0] += 5 * SECOND
        append("left", [second * SECOND])
        offset = reader.latestOffset(offset, None)
    said = Pacing.read(status)
    assert (said.silent, said.silent_since, said.inputs["right"]) == ("right", 10**9, "idle")
    left, right = (offset["at"]["inputs"][side]["stream_time"] for side in ("left", "right"))
    if idle == "wait":
        assert (left, right, said.paused) == (30 * SECOND, SECOND, "left")
        assert "idle = 'wait'" in said.why
    else:
        assert (left, right, said.paused) == (90 * SECOND, 90 * SECOND, None)
    assert "right has been silent since 2001-09-09T01:46:40Z" in said.why
    append("right", [40 * SECOND])
    offset = reader.latestOffset(offset, None)
    assert Pacing.read(status).silent is None


def test_a_side_whose_rows_are_yet_to_be_sliced_is_not_idle(home: Home) -> None:
    clock = [10**15]
    reader, append, _ = paced(home, clock, idle_timeout="1 second", slack="1 hour")
    raw = home.log().create("raw", pa.schema([("a", pa.int64())]), shards=1)
    told, read = home.root / "published.json", home.root / "read.json"
    fed = Fed("raw", str(told), str(read))
    patient = StepReader(replace(reader._config, fed={"left": fed}), lambda: clock[0])
    offset = patient.initialOffset()

    def left_time() -> int:
        """The stream time of the left input, after a minute in which only right rows have come."""
        nonlocal offset
        clock[0] += 60 * SECOND
        append("right", [clock[0] - 10**15 + 100 * SECOND])
        offset = patient.latestOffset(offset, None)
        return offset["at"]["inputs"]["left"]["stream_time"]

    def slice_up_to(commit: int, path: Path) -> None:
        ReadUpTo(offset={}, following={"source": (commit, 0)}).write(path)

    raw.append(pa.table({"a": [1]}))
    left_time()
    assert left_time() < 0  # nobody has read the record
    slice_up_to(1, read)
    slice_up_to(0, told)
    assert left_time() < 0  # it has been read, but is not published yet
    slice_up_to(1, told)
    assert left_time() > 0
    raw.append(pa.table({"a": [2]}))
    before = left_time()
    assert left_time() == before
    # A home of an earlier version says only what was read.
    told.unlink()
    slice_up_to(2, read)
    assert left_time() > before
