"""A join does not notice that its inputs are compacted: between its steps, or before a restart."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from braid.core.columns import HASH, KEY, LIVE, TIME
from braid.core.positions import Position
from braid.core.side import Side
from braid.engine.blocks import LogBlocks
from braid.kernels.join.operator import JoinOperator
from braid.kernels.join.spec import JoinSpec, JoinType, MatchMode, OutputColumn
from braid.kernels.join.step import two_sided
from braid.log import CompactionConfig, Log, hash_rows, shard_range
from braid.log.data_file import DataFile
from braid.log.segment_file import SegmentFile

EAGER = CompactionConfig(min_age=0, keep_commits=0, min_commits=2, fanout=2)
SCHEMA = pa.schema(
    [(HASH, pa.int64()), (TIME, pa.int64()), (f"{KEY}0", pa.string()), ("id", pa.int64()), (LIVE, pa.bool_())]
)
OUTPUT = (OutputColumn("l", Side.LEFT, "id"), OutputColumn("r", Side.RIGHT, "id"))
SHARDS = 2


def table(rng: random.Random, count: int, now: int, start: int) -> pa.Table:
    """Rows of which some are late, very late, without a key, without a time, or not live."""
    late = rng.choices([3, 30, 400], [6, 2, 1], k=count)
    times = [max(0, now - rng.randint(0, most)) if rng.random() < 0.95 else None for most in late]
    keys = pa.array([f"k{rng.randint(0, 4)}" if rng.random() < 0.95 else None for _ in range(count)])
    live = [rng.random() < 0.95 for _ in range(count)]
    hashes = pa.array(hash_rows([keys]))
    return pa.table([hashes, times, keys, list(range(start, start + count)), live], schema=SCHEMA)


class Shards:
    """The shards of a join over the categories `left` and `right` of a log."""

    def __init__(self, log: Log, spec: JoinSpec) -> None:
        self._log, self._operator = log, JoinOperator(spec)
        self._states: list[bytes | None] = [None] * SHARDS
        self._open()

    def _open(self) -> None:
        readers = {side: self._log.open(side).reader() for side in Side}
        self._joins = [
            self._operator.open(LogBlocks(readers, shard_range(shard, SHARDS), self._operator), state)
            for shard, state in enumerate(self._states)
        ]

    def step(self, step, restart: bool):
        if restart:
            self._open()
        outputs = [join.step(step) for join in self._joins]
        self._states = [join.snapshot() for join in self._joins]
        return [(output.rows.to_pydict(), output.lost.to_pydict(), output.counts) for output in outputs]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("kind", "match", "keys"),
    [
        (JoinType.INNER, MatchMode.ALL, 1),
        (JoinType.LEFT, MatchMode.ALL, 1),
        (JoinType.INNER, MatchMode.FIRST, 1),
        (JoinType.INNER, MatchMode.NEAREST, 1),
        (JoinType.INNER, MatchMode.ALL, 0),
    ],
)
def test_a_join_gives_the_same_with_and_without_compaction(
    memory_path: Path, kind, match, keys, seed
) -> None:
    rng = random.Random(f"{kind} {match} {keys} {seed}")
    spec = JoinSpec(kind, -5, 8, keys, OUTPUT, match)
    logs = [Log(memory_path / name) for name in ("plain", "compacted")]
    categories = [{side: log.create(side, SCHEMA, shards=3) for side in Side} for log in logs]
    joins = [Shards(log, spec) for log in logs]
    rescued = compactions = 0
    times = dict.fromkeys(Side, 0)
    for number in range(24):
        new: dict[Side, list[Position]] = {}
        for side in Side:
            rows = table(rng, rng.randint(0, 12), number * 10, number * 100)
            chunk_rows = rng.randint(2, 6)
            for both in categories:
                both[side].append(rows, chunk_rows=chunk_rows, wall_time=number)
            chunks = categories[0][side].reader().commit(number).chunks
            new[side] = [Position(number, chunk.index) for chunk in chunks]
            times[side] = max(times[side], number * 10 - rng.randint(2, 40))
            for _ in range(rng.randint(0, 3)):
                compactions += bool(categories[1][side].compact(EAGER, now=99))
        step = two_sided(new[Side.LEFT], new[Side.RIGHT], times[Side.LEFT], times[Side.RIGHT])
        restart = rng.random() < 0.2
        plain, compacted = (join.step(step, restart) for join in joins)
        assert compacted == plain
        rescued += sum(counts.rescued + counts.lost_matches for _, _, counts in plain)
    assert rescued > 10
    assert compactions > 10


def test_a_late_row_costs_the_same_however_long_the_application_has_run(
    memory_path: Path, monkeypatch
) -> None:
    """A partner in the middle of a growing log: blocks that are opened and pages that are searched."""
    category = Log(memory_path).create("left", SCHEMA, shards=2)
    opened: list[str] = []
    for kind, name in ((DataFile, "block"), (SegmentFile, "block"), (SegmentFile, "page")):
        monkeypatch.setattr(kind, name, counted(opened, name, getattr(kind, name)))
    rng = np.random.default_rng(1)
    costs = []
    for grown in (100, 200, 400):
        while category.latest() < grown:
            number = category.latest() + 1
            # A heavy tail: the times of every block reach far back.
            times = number * 10 - rng.integers(0, 5000, 20)
            keys = pa.array([f"k{key}" for key in rng.integers(0, 10_000, 20)])
            rows = [pa.array(hash_rows([keys])), times, keys, np.arange(20), np.ones(20, bool)]
            category.append(pa.table(rows, schema=SCHEMA), wall_time=0)
        while category.compact(CompactionConfig(min_age=0), now=1):
            continue
        reader = Log(memory_path).open("left").reader()
        partner = reader.read(grown // 2, 0)
        before = len(opened)
        at = np.array([partner[TIME][3].as_py()])
        until = (category.settings.covered, 99)
        found = reader.find(until, np.array([partner[HASH][3].as_py()]), at - 5, at + 5, shard_range(0, 1))
        assert [(block, rows.tolist()) for block, rows in found if rows is not None] == [
            ((grown // 2, 0), [3])
        ]
        reader.read(grown // 2, 0)
        costs.append(len(opened) - before)
    assert max(costs) < 10
    assert len(category.settings.segments) < 10


def counted(calls: list[str], name: str, real):
    def call(*arguments):
        calls.append(name)
        return real(*arguments)

    return call
