"""Spark and the local runtime are two runtimes of one engine: the same offsets, decisions and rows."""

from __future__ import annotations

import json
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from braid.core.columns import HASH, KEY, NOTE, TIME
from braid.core.config import AppConfig
from braid.core.side import Side
from braid.core.times import SECOND
from braid.engine.admission import AdmissionConfig, Facts
from braid.engine.notes import Notes
from braid.engine.offsets import OperatorOffset
from braid.engine.stepper import OperatorConfig
from braid.home.paths import Home
from braid.kernels.join.operator import JoinOperator
from braid.kernels.join.spec import (
    JoinSpec,
    JoinType,
    MatchMode,
    OutputColumn,
    SeriesMode,
    SeriesSpec,
)
from braid.log import hash_rows
from braid.log.layout import shard_range
from braid.testing.runtime import LocalOperator

pytestmark = pytest.mark.spark

WORKLOADS, GROUP = 50, 10
PHASES = 2
START = 1_700_000_000 * SECOND
SCHEMA = pa.schema([(HASH, pa.int64()), (TIME, pa.int64()), (f"{KEY}0", pa.int64()), ("id", pa.int64())])
OUTPUT = (OutputColumn("l", Side.LEFT, "id"), OutputColumn("r", Side.RIGHT, "id"))
INPUTS = {"left": "l", "right": "r"}
Row = tuple[int | None, int | None]


@dataclass
class Workload:
    """A random join of random streams, published in two phases; the query is restarted between them."""

    seed: int

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(self.seed)
        keys = rng.choice([0, 1, 1, 1])
        lower = rng.randint(-30, 10) * SECOND
        upper = lower + rng.randint(0, 40) * SECOND
        kind = rng.choice(list(JoinType)) if keys else rng.choice([JoinType.INNER, JoinType.LEFT])
        match = rng.choice([MatchMode.ALL, MatchMode.ALL, MatchMode.NEAREST, MatchMode.FIRST])
        wait = rng.choice([None, None, SECOND // 5])
        broadcast = None if keys else Side.RIGHT
        if rng.random() < 0.2 and keys:
            self.operator = JoinOperator(
                SeriesSpec(
                    kind, rng.choice([SeriesMode.PAIRS, SeriesMode.SPARSE]), 1, OUTPUT, within=upper - lower
                )
            )
            wait = None
        else:
            pads = match is MatchMode.ALL
            spec = JoinSpec(kind, lower, upper, keys, OUTPUT, match, pad_after=wait if pads else None)
            wait = spec.pad_after
            self.operator = JoinOperator(spec, broadcast)
        self.shards = rng.choice([1, 2, 3])
        options = AppConfig(
            batch_rows=rng.choice([1, 3, 10_000]), idle_timeout="10 hours", slack=f"{rng.randint(0, 20)} s"
        )
        disorder = {name: 5 * SECOND for name in INPUTS if rng.random() < 0.3}
        self.admission = AdmissionConfig(INPUTS, upper, options, disorder=disorder, pad_after=wait)
        self.commits = [self._commits(phase) for phase in range(PHASES)]

    def _commits(self, phase: int) -> list[tuple[str, pa.Table, int]]:
        """Category, rows and wall time of each commit, in order of publishing."""
        found = []
        for number in range(self.rng.randint(0, 6)):
            name = self.rng.choice(list(INPUTS.values()))
            at = START + (phase * 60 + number * 7) * SECOND
            rows = self.rng.randint(1, 40)
            times = [at + self.rng.randint(-10, 10) * SECOND for _ in range(rows)]
            keys = pa.array([self.rng.randint(0, 4) for _ in range(rows)], pa.int64())
            ids = [self.rng.randrange(10**9) for _ in range(rows)]
            table = pa.table([hash_rows([keys]), times, keys, ids], schema=SCHEMA)
            found.append((name, table, at + 10 * SECOND))
        return found

    def create(self, home: Home) -> None:
        for category in INPUTS.values():
            home.log().create(category, SCHEMA, shards=2, time_columns=(TIME,))

    def publish(self, home: Home, phase: int) -> None:
        for category, table, wall_time in self.commits[phase]:
            home.log().open(category).append(table, chunk_rows=15, wall_time=wall_time)


def on_spark(workload: Workload, spark: object, home: Home) -> tuple[list[int], list[dict], list[Counter]]:
    """Micro-batches after each phase, the offsets that Spark has logged, and the rows of each micro-batch."""
    from braid.spark.blobs import BLOBS, decode
    from braid.spark.operators.processor import StepProcessor
    from braid.spark.operators.state_keys import state_keys
    from braid.spark.schemas import spark_schema
    from braid.spark.sources.steps import StepSource, StepSourceConfig

    spark.dataSource.register(StepSource)
    drain, checkpoint = home.root / "drain", home.root / "checkpoint"
    ranges = tuple(shard_range(shard, workload.shards) for shard in range(workload.shards))
    schema = spark_schema(pa.schema([("l", pa.int64()), ("r", pa.int64()), (NOTE, pa.string())]))
    source = StepSourceConfig(
        home.log_root,
        workload.admission,
        state_keys(workload.shards, 1),
        str(drain),
        str(home.root / "pacing"),
    )
    rows: dict[int, list[tuple]] = {}

    def collect(batch: object, number: int) -> None:
        rows[number] = [tuple(row) for row in batch.collect()]

    ends = []
    for phase in range(PHASES):
        workload.publish(home, phase)
        if phase == PHASES - 1:
            drain.touch()
        run = f"{workload.seed}.{phase}"
        config = OperatorConfig(home.log_root, INPUTS, workload.operator, ranges, run)
        query = (
            spark.readStream.format(StepSource.name())
            .option("config", source.to_json())
            .load()
            .groupBy("slot")
            .transformWithStateInPandas(StepProcessor(config), BLOBS, "Append", "None")
            .mapInArrow(decode, schema)
            .writeStream.foreachBatch(collect)
            .option("checkpointLocation", str(checkpoint))
            .start()
        )
        query.processAllAvailable()
        query.stop()
        ends.append(len(list((checkpoint / "offsets").glob("[0-9]*"))))
    logged = [(checkpoint / "offsets" / str(number)).read_text() for number in range(ends[-1])]
    offsets = [json.loads(text.splitlines()[-1]) for text in logged]
    return ends, offsets, [visible(rows.get(number, [])) for number in range(ends[-1])]


def visible(rows: list[tuple]) -> Counter:
    """Rows, and the dead letters among the notes; counters hold timings and are left out."""
    return Counter(row for row in rows if row[2] is None or not row[2].startswith("#"))


def locally(workload: Workload, home: Home, ends: list[int], offsets: list[dict]) -> list[Counter]:
    """The rows of each micro-batch; offsets must be those of Spark, given the clock in them."""
    first = min(one["active"] for one in offsets[0]["at"]["inputs"].values())
    local = LocalOperator(home.log_root, workload.admission, workload.operator, workload.shards)
    local.offset = local.initial(first)
    rows, number = [], 0
    for phase, end in enumerate(ends):
        workload.publish(home, phase)
        while number < end:
            wanted = OperatorOffset.from_json(offsets[number])
            before = local.offset
            facts = Facts(draining=phase == PHASES - 1)
            _, step = local.advance(wanted.now, facts)
            if step is None:
                # A run that finds nothing to do begins with an empty step; that is the runtime's own doing.
                assert number in (0, ends[0])
                local.offset = before.again()
                step = local.step(before, local.offset)
            assert local.offset.to_json() == offsets[number]
            found: Counter = Counter()
            for table, notes in local.results(step).values():
                found += emitted(table, notes)
            rows.append(found)
            number += 1
    return rows


def emitted(table: pa.Table | None, notes: Notes) -> Counter:
    rows = [] if table is None else list(zip(table["l"].to_pylist(), table["r"].to_pylist(), strict=True))
    letters = [
        "\x1f".join(("-", *parts))
        for group in notes.letters
        for parts in zip(*(column.to_pylist() for column in group), strict=True)
    ]
    return Counter([*((*row, None) for row in rows), *((None, None, letter) for letter in letters)])


@pytest.mark.parametrize("first", range(0, WORKLOADS, GROUP))
def test_both_runtimes_decide_and_emit_the_same(spark: object, tmp_path: Path, first: int) -> None:
    from braid.spark.processes.session import open_session

    session = open_session(spark)
    for name, value in {"shuffle.partitions": 1, "streaming.minBatchesToRetain": 1000}.items():
        session.conf.set(f"spark.sql.{name}", value)

    def compare(seed: int) -> tuple[int, int]:
        workload = Workload(seed)
        mine, theirs = (Home.at(tmp_path / f"{seed}" / name) for name in ("spark", "local"))
        for home in (mine, theirs):
            workload.create(home)
        ends, offsets, rows = on_spark(workload, session, mine)
        workload = Workload(seed)
        assert locally(workload, theirs, ends, offsets) == rows, f"workload {seed}"
        return len(offsets), sum(map(Counter.total, rows))

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(compare, range(first, first + GROUP)))
    batches, rows = map(sum, zip(*done, strict=True))
    assert batches > 3 * GROUP
    assert rows > 10 * GROUP
