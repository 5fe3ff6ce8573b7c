"""The stateful operator without Spark: what a worker's cache may have lost, and what shards list."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pandas as pd
import pyarrow as pa
import pytest

from braid.core.columns import HASH, KEY, TIME
from braid.core.counters import Counters, merge
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MAX_TIME
from braid.engine import stepper as worker_code
from braid.engine.notes import Notes
from braid.engine.stepper import OperatorConfig, Stepper
from braid.home.paths import Home
from braid.kernels.join.operator import JoinOperator
from braid.kernels.join.spec import (
    AnySpec,
    JoinSpec,
    JoinType,
    MatchMode,
    OutputColumn,
    SeriesMode,
    SeriesSpec,
)
from braid.kernels.join.step import two_sided
from braid.kernels.operator import Operator
from braid.kernels.step import Step
from braid.log.layout import shard_range
from braid.log.reader import Reader
from braid.spark.blobs import decode
from braid.spark.operators.processor import SparkState, StepProcessor

SCHEMA = pa.schema([(HASH, pa.int64()), (TIME, pa.int64()), (f"{KEY}0", pa.string()), ("id", pa.int64())])
OUTPUT = (OutputColumn("l", Side.LEFT, "id"), OutputColumn("r", Side.RIGHT, "id"))
STEPS, ROWS, SHARDS = 5, 40, 3
SIDES = {"left": "left", "right": "right"}
Pair = tuple[int | None, int | None]


@dataclass
class State:
    """One value, as Spark keeps it: what is not committed is gone when a task is tried again."""

    value: tuple[bytes] | None = None

    def getValueState(self, name: str, schema: str) -> State:  # noqa: N802  Spark's name
        return self

    def get(self) -> tuple[bytes] | None:
        return self.value

    def update(self, value: tuple[bytes]) -> None:
        self.value = value


@dataclass
class Worker:
    """All shards of a join in one process."""

    config: OperatorConfig
    states: list[State] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.states = self.states or [State() for _ in range(SHARDS)]

    def opened(self, shard: int) -> Operator:
        """The shard as it was at first."""
        stepper = Stepper(self.config, SparkState(self.states[shard]))
        return self.config.operator.open(stepper._blocks(shard))

    def step(self, shard: int, step: Step) -> tuple[list[Pair], Notes]:
        processor = StepProcessor(self.config)
        processor.init(self.states[shard])
        frame = pd.DataFrame({"shard": [shard], "step": [step.to_text()]})
        blobs = [blob for out in processor.handleInputRows((0,), iter([frame]), None) for blob in out["data"]]
        processor.close()
        notes = Notes()
        rows = notes.strip(decode(iter([pa.RecordBatch.from_pydict({"data": pa.array(blobs, pa.binary())})])))
        return [(row["l"], row["r"]) for batch in rows for row in batch.to_pylist()], notes


def step(commit: int | None, left_time: int, right_time: int) -> Step:
    blocks = [] if commit is None else [Position(commit, 0), Position(commit, 1)]
    return two_sided(blocks, blocks, left_time, right_time)


def fill(home: Home) -> list[Step]:
    """Two categories of blocks, a commit per step and two chunks in each, and the steps that admit them."""
    rng = random.Random(3)
    for side in Side:
        category = home.log().create(side.value, SCHEMA, shards=SHARDS, time_columns=(TIME,))
        for commit in range(STEPS):
            keys = [rng.randrange(12) for _ in range(ROWS)]
            times = sorted(100 * commit + rng.randrange(100) for _ in range(ROWS))
            columns = [[hashed(key) for key in keys], times, [f"k{key}" for key in keys]]
            ids = list(range(commit * ROWS, commit * ROWS + ROWS))
            category.append(pa.table([*columns, ids], schema=SCHEMA), chunk_rows=ROWS // 2)
    done = [step(commit, 100 * commit + 99, 100 * commit + 60) for commit in range(STEPS)]
    return [*done, step(None, MAX_TIME, MAX_TIME)]


def hashed(key: int) -> int:
    return (key * 0x9E3779B97F4A7C15 + 2**63) % 2**64 - 2**63


def config(home: Home, spec: AnySpec, run: str, broadcast: Side | None = None) -> OperatorConfig:
    ranges = tuple(shard_range(shard, SHARDS) for shard in range(SHARDS))
    return OperatorConfig(home.log_root, SIDES, JoinOperator(spec, broadcast), ranges, run)


def nothing(worker: Worker, shard: int) -> None:
    """Leave the cache as it is."""


def lost(worker: Worker, shard: int) -> None:
    """The worker is a new one, or has dropped its blocks."""
    assert worker_code._cache.pop((worker.config.run, shard)).version > 0


def stale(worker: Worker, shard: int) -> None:
    """The worker has not seen the last steps of the shard: another one did them."""
    old = worker.opened(shard)
    version = worker_code._cache[worker.config.run, shard].version
    worker_code._cache[worker.config.run, shard] = worker_code._Cached(version - 1, old)


def restarted(worker: Worker, shard: int) -> None:
    """The query was started again; what the worker still has belongs to the run before."""
    cached = worker_code._cache[worker.config.run, shard]
    worker.config = replace(worker.config, run=worker.config.run + "+")
    empty = worker.opened(shard)
    worker_code._cache["another run", shard] = worker_code._Cached(cached.version, empty)


def unmapped(worker: Worker, shard: int) -> None:
    """Readers have forgotten every file that they had open, too."""
    worker_code.reader.cache_clear()
    lost(worker, shard)


SPECS: dict[str, AnySpec] = {
    "full": JoinSpec(JoinType.FULL, -30, 50, 1, OUTPUT),
    "nearest": JoinSpec(JoinType.LEFT, -30, 50, 1, OUTPUT, MatchMode.NEAREST),
    "consume": JoinSpec(JoinType.FULL, -30, 50, 1, OUTPUT, MatchMode.FIRST, consume=True),
    "pairs": SeriesSpec(JoinType.FULL, SeriesMode.PAIRS, 1, OUTPUT, within=40),
}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    worker_code._cache.clear()
    worker_code._begun.clear()
    worker_code.reader.cache_clear()


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("between", [lost, stale, restarted, unmapped])
def test_a_lost_or_stale_cache_changes_nothing(
    home: Home, name: str, between: Callable[[Worker, int], None]
) -> None:
    steps = fill(home)
    kept, broken = (Worker(config(home, SPECS[name], run)) for run in ("kept", "broken"))
    seen: Counter[Pair] = Counter()
    for one in steps:
        for shard in range(SHARDS):
            rows = kept.step(shard, one)[0]
            assert broken.step(shard, one)[0] == rows
            assert broken.states[shard] == kept.states[shard]
            between(broken, shard)
            seen.update(rows)
    assert {pair[0] for pair in seen} >= set(range(STEPS * ROWS))
    assert sum(None not in pair for pair in seen) > ROWS


def test_shards_that_have_moved_to_another_worker_are_let_go(home: Home) -> None:
    first, *steps = fill(home)
    worker = Worker(config(home, SPECS["full"], "moved"))
    for shard in range(SHARDS):
        worker.step(shard, first)
    for one in steps[:2]:
        assert sorted(worker_code._cache) == [("moved", shard) for shard in range(SHARDS)]
        worker.step(0, one)
    assert sorted(worker_code._cache) == [("moved", 0)]


def test_shards_that_are_built_again_are_counted(home: Home) -> None:
    worker = Worker(config(home, SPECS["full"], "counted"))

    def rebuilt(one: Step) -> list[int]:
        return [merge(worker.step(shard, one)[1].counts).rebuilt for shard in range(SHARDS)]

    first, second, third, *_ = fill(home)
    assert rebuilt(first) == [0, 0, 0], "they have no state to be built from"
    lost(worker, 1)
    assert rebuilt(second) == [0, 1, 0]
    assert rebuilt(third) == [0, 0, 0]


@pytest.mark.parametrize("name", SPECS)
def test_a_task_that_is_tried_again_gives_the_same(
    home: Home, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may fail in the middle of reading blocks, or when all is done but Spark's commit."""
    steps = fill(home)
    kept, broken = (Worker(config(home, SPECS[name], run)) for run in ("kept", "broken"))
    for number, one in enumerate(steps):
        for shard in range(SHARDS):
            rows = kept.step(shard, one)[0]
            before = replace(broken.states[shard])
            if number % 2 or number == STEPS:
                broken.step(shard, one)
            else:
                with monkeypatch.context() as patch:
                    fail_after(patch, reads=2)
                    with pytest.raises(ZeroDivisionError):
                        broken.step(shard, one)
                assert ("broken", shard) not in worker_code._cache
            broken.states[shard] = before
            assert broken.step(shard, one)[0] == rows
            assert broken.states[shard] == kept.states[shard]


@pytest.mark.parametrize("name", SPECS)
def test_steps_begun_before_their_turn_change_nothing(
    home: Home, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens in between: lost and stale caches, tasks that fail and are tried again."""
    steps = fill(home)
    plain, ahead = (Worker(config(home, SPECS[name], run)) for run in ("plain", "ahead"))
    wanted = [
        (plain.step(shard, one)[0], replace(plain.states[shard])) for one in steps for shard in range(SHARDS)
    ]
    begun: list[int] = []
    monkeypatch.setattr(worker_code, "LOOK_AHEAD_BLOCKS", 0)
    rng = random.Random(name)
    for number, one in enumerate(steps):
        for shard in range(SHARDS):
            begun.append(len(worker_code._begun))
            before = replace(ahead.states[shard])
            with monkeypatch.context() as patch:
                fail_after(patch, reads=rng.choice([0, 1, 2, 1000]))
                with suppress(ZeroDivisionError):
                    ahead.step(shard, one)
                    before = rng.choice([before, ahead.states[shard]])
            if before != ahead.states[shard] or before != wanted[number * SHARDS + shard][1]:
                ahead.states[shard] = before
                assert ahead.step(shard, one)[0] == wanted[number * SHARDS + shard][0]
            assert ahead.states[shard] == wanted[number * SHARDS + shard][1]
            rng.choice([nothing, nothing, lost, stale, unmapped])(ahead, shard)
    assert sum(begun) > SHARDS


def fail_after(patch: pytest.MonkeyPatch, reads: int) -> None:
    left, read = [reads], Reader.read

    def failing(self: Reader, *arguments: object, **more: object) -> pa.RecordBatch:
        left[0] -= 1
        if left[0] < 0:
            raise ZeroDivisionError
        return read(self, *arguments, **more)  # type: ignore[arg-type]

    patch.setattr(Reader, "read", failing)


TIME_ONLY: dict[str, tuple[AnySpec, Side]] = {
    "left": (JoinSpec(JoinType.LEFT, -30, 50, 0, OUTPUT), Side.RIGHT),
    "right": (JoinSpec(JoinType.RIGHT, -30, 50, 0, OUTPUT), Side.LEFT),
    "nearest": (JoinSpec(JoinType.LEFT, -30, 50, 0, OUTPUT, MatchMode.NEAREST), Side.RIGHT),
    "previous": (SeriesSpec(JoinType.LEFT, SeriesMode.PREVIOUS, 0, OUTPUT, within=40), Side.RIGHT),
}


@pytest.mark.parametrize("name", TIME_ONLY)
def test_late_rows_of_a_side_that_all_shards_read_are_listed_and_counted_once(home: Home, name: str) -> None:
    """Row 900 finds all shards' rows decided, row 901 only one of them, and row 902 none at all."""
    spec, whole = TIME_ONLY[name]
    split = home.log().create(whole.other.value, SCHEMA, shards=SHARDS, time_columns=(TIME,))
    late = home.log().create(whole.value, SCHEMA, shards=SHARDS, time_columns=(TIME,))
    spread = [(hashed(n), 100 + n % 7, "k", n) for n in range(60)]
    last = max(spread)[0]
    commits = [[*spread, (last, 500, "k", 60)], [(last, 2000, "k", 61)]]
    others = [[(0, 1000, "k", 800)], [(0, 100, "k", 900), (0, 500, "k", 901), (0, 300, "k", 902)]]
    for category, found in ((split, commits), (late, others)):
        for rows in found:
            columns = [list(values) for values in zip(*rows, strict=True)]
            category.append(pa.table(columns, schema=SCHEMA), chunk_rows=100)

    worker = Worker(config(home, spec, "run", broadcast=whole))
    listed: list[tuple[str, int]] = []
    counts = Counters()
    for one in (
        two_sided([Position(0, 0)], [Position(0, 0)], 1000, 1000),
        two_sided([Position(1, 0)], [Position(1, 0)], 2000, 2000),
    ):
        for shard in range(SHARDS):
            notes = worker.step(shard, one)[1]
            for reasons, _, raws in notes.letters:
                pairs = zip(reasons.to_pylist(), raws.to_pylist(), strict=True)
                listed += [(reason, json.loads(raw)["id"]) for reason, raw in pairs]
            counts = merge([counts, *notes.counts])
    reason = f"late_{whole}"
    ids = [900, 901, 902] if isinstance(spec, SeriesSpec) else [900, 901]
    assert sorted(listed) == [(reason, number) for number in ids]
    assert counts.inputs[whole].lost["late"] == len(ids)
    assert counts.inputs[whole].rows == 4
    if isinstance(spec, JoinSpec):
        assert counts.lost_matches == 61
        assert counts.inputs[whole].late == 3
