"""The kernel on the local runtime: random keys, times, commits and restarts against row by row."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.core.columns import HASH, KEY, TIME
from braid.core.config import AppConfig
from braid.core.times import SECOND
from braid.engine.admission import AdmissionConfig, Facts
from braid.home.paths import Home
from braid.kernels.deduplicate import Deduplicate
from braid.kernels.operator import INPUT
from braid.log import hash_rows
from braid.testing.runtime import LocalOperator

SCHEMA = pa.schema(
    [
        (HASH, pa.int64()),
        (TIME, pa.int64()),
        (f"{KEY}0", pa.int64()),
        (f"{KEY}1", pa.string()),
        ("id", pa.int64()),
    ]
)
Row = tuple[int | None, int | None, str | None, int]


def expected(rows: list[Row], within: int) -> set[int]:
    """The rows that stay, one after the other: what the kernel does for all keys at once."""
    kept: dict[object, int] = {}
    found = set()
    for time, *key, number in sorted(
        (row for row in rows if row[0] is not None), key=lambda row: (row[0], row[3])
    ):
        if tuple(key) not in kept or time > kept[tuple(key)] + within:
            kept[tuple(key)] = time
            found.add(number)
    return found


class Running:
    """The operator over one category, which another process may take over at any time."""

    def __init__(self, home: Home, within: int, shards: int, disorder: int) -> None:
        self.category = home.log().create("in", SCHEMA, shards=2, time_columns=(TIME,))
        self._admission = AdmissionConfig({INPUT: "in"}, None, AppConfig(), disorder={INPUT: disorder})
        self._operator = Deduplicate(2, within, ("id",))
        self._home = home
        self._local = LocalOperator(home.log_root, self._admission, self._operator, shards)
        self.emitted: list[int] = []
        self.pending = 0
        self.dead: list[tuple[str, str]] = []

    def append(self, rows: list[Row]) -> None:
        times, first, second, ids = (list(column) for column in zip(*rows, strict=True))
        keys = [pa.array(first, pa.int64()), pa.array(second, pa.string())]
        # Keys that differ must not be taken for equal when their hashes are.
        table = pa.table([hash_rows(keys[:1]), times, *keys, ids], schema=SCHEMA)
        self.category.append(table, chunk_rows=5)

    def restart(self, shards: int | None = None) -> None:
        """Go on in another process, with other shards if any are given."""
        if shards is None:
            self._local = replace(self._local)
        else:
            self._local = self._local.rescaled(shards, self._home.root / f"savepoint-{uuid.uuid4().hex}")

    def run(self, *, draining: bool = False) -> None:
        while (step := self._local.advance(0, Facts(draining=draining))[1]) is not None:
            results = self._local.results(step).values()
            self.pending = sum(counts.pending for _, notes in results for counts in notes.counts)
            for table, notes in results:
                self.emitted += [] if table is None else table["id"].to_pylist()
                for reasons, _, records in notes.letters:
                    self.dead += zip(reasons.to_pylist(), records.to_pylist(), strict=True)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 30), st.integers(1, 3))
def test_of_rows_within_the_window_the_first_stays(
    tmp_path_factory: pytest.TempPathFactory, seed: int, within: int, shards: int
) -> None:
    rng = random.Random(seed)
    home = Home.at(tmp_path_factory.mktemp("home"))
    running = Running(home, within * SECOND, shards, disorder=20 * SECOND)
    rows: list[Row] = []
    for commit in range(rng.randint(1, 6)):
        fresh: list[Row] = [
            (
                None if rng.random() < 0.05 else (commit * 10 + rng.randint(0, 20)) * SECOND,
                rng.choice((None, 0, 1)),
                rng.choice((None, "a", "b")),
                len(rows) + number,
            )
            for number in range(rng.randint(1, 12))
        ]
        rows += fresh
        running.append(fresh)
        if rng.random() < 0.5:
            running.restart(rng.choice((None, 1, 2, 3, 4)))
        running.run()
    running.run(draining=True)
    # Of rows at the same time any may stay; how many do is certain.
    by_id = {row[3]: row[:3] for row in rows}
    assert len(running.emitted) == len(set(running.emitted))
    wanted = sorted(map(repr, (by_id[number] for number in expected(rows, within * SECOND))))
    assert sorted(map(repr, (by_id[number] for number in running.emitted))) == wanted


def test_a_row_that_comes_late_is_lost_and_said_to_be(home: Home) -> None:
    running = Running(home, 10 * SECOND, 1, disorder=0)
    running.append([(100 * SECOND, 1, "a", 0), (200 * SECOND, 1, "a", 1)])
    running.run()
    running.append([(150 * SECOND, 1, "a", 2), (210 * SECOND, 2, "a", 3)])
    running.run(draining=True)
    assert sorted(running.emitted) == [0, 1, 3]
    assert running.dead == [("late_input", '{"id":2}')]


def test_rows_that_only_hide_others_are_not_waited_for(home: Home) -> None:
    running = Running(home, 1000 * SECOND, 1, disorder=20 * SECOND)
    running.append([(100 * SECOND, 1, "a", 0), (110 * SECOND, 2, "a", 1)])
    running.run()
    assert (running.emitted, running.pending) == ([], 2)
    running.append([(140 * SECOND, 1, "a", 2)])
    running.run()
    assert (sorted(running.emitted), running.pending) == ([0, 1], 1)


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.integers(0, 30))
def test_a_row_that_was_kept_before_a_drain_hides_those_after_it(
    tmp_path_factory: pytest.TempPathFactory, seed: int, within: int
) -> None:
    rng = random.Random(seed)
    running = Running(Home.at(tmp_path_factory.mktemp("home")), within * SECOND, 2, disorder=20 * SECOND)
    rows: list[Row] = []
    begin = 0
    for _ in range(rng.randint(2, 4)):
        for _ in range(rng.randint(1, 3)):
            times = [begin + rng.randint(0, 20) for _ in range(rng.randint(1, 8))]
            fresh = [(t * SECOND, rng.randint(0, 1), "a", len(rows) + n) for n, t in enumerate(times)]
            rows += fresh
            running.append(fresh)
            if rng.random() < 0.5:
                running.restart()
            running.run()
        running.run(draining=True)
        begin = max(row[0] for row in rows) // SECOND
    by_id = {row[3]: row[:3] for row in rows}
    wanted = sorted(by_id[number] for number in expected(rows, within * SECOND))
    assert sorted(by_id[number] for number in running.emitted) == wanted


def test_a_row_that_is_older_than_those_of_before_a_drain_leaves_them_hiding_others(home: Home) -> None:
    running = Running(home, 10 * SECOND, 1, disorder=0)
    running.append([(100 * SECOND, 1, "a", 0)])
    running.run(draining=True)
    running.append([(95 * SECOND, 1, "a", 1), (108 * SECOND, 1, "a", 2)])
    running.run(draining=True)
    assert running.emitted == [0, 1]
    running.restart()
    running.append([(109 * SECOND, 1, "a", 3), (111 * SECOND, 1, "a", 4)])
    running.run(draining=True)
    assert running.emitted == [0, 1, 4]


def expected_of_drains(drains: list[list[Row]], within: int) -> list[tuple[object, ...]]:
    """Time and keys of the rows that stay: those kept at the end of a drain go on hiding others."""
    kept: list[Row] = []
    found = []
    for rows in drains:
        for row in sorted(rows, key=lambda row: row[0]):
            if not any(row[1:3] == old[1:3] and 0 <= row[0] - old[0] <= within for old in kept):
                kept.append(row)
                found.append(row[:3])
        end = max(row[0] for row in kept)
        kept = [row for row in kept if row[0] >= end - within]
    return sorted(found)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(0, 30))
def test_rows_that_were_kept_before_a_drain_hide_those_after_them_whatever_else_comes(
    tmp_path_factory: pytest.TempPathFactory, seed: int, within: int
) -> None:
    """Streams that go back in time after each drain; within one, no row is decided before its end."""
    rng = random.Random(seed)
    running = Running(Home.at(tmp_path_factory.mktemp("home")), within * SECOND, 1, disorder=100 * SECOND)
    drains: list[list[Row]] = []
    for _ in range(rng.randint(2, 4)):
        drains.append([])
        begin = 1000 + rng.randint(0, 40)
        for _ in range(rng.randint(1, 3)):
            count = sum(map(len, drains))
            times = [begin + rng.randint(0, 20) for _ in range(rng.randint(1, 8))]
            fresh: list[Row] = [(t * SECOND, rng.randint(0, 1), "a", count + n) for n, t in enumerate(times)]
            drains[-1] += fresh
            running.append(fresh)
            if rng.random() < 0.5:
                running.restart()
            running.run()
        running.run(draining=True)
    by_id = {row[3]: row[:3] for rows in drains for row in rows}
    assert len(running.emitted) == len(set(running.emitted))
    assert sorted(by_id[number] for number in running.emitted) == expected_of_drains(drains, within * SECOND)
