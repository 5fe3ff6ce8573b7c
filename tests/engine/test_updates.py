"""A join whose type, match mode and window change while rows are in flight, with other shards in between.

A pair is judged by the program that runs when the later one of its rows is taken in. When the match mode
changes, left rows that have a match are done; all others go on by the new one. A row comes out padded if the
program that runs when its time is up says so, and it has had no match.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from braid.core.side import Side
from braid.core.times import MIN_TIME, SECOND
from braid.kernels.join.operator import JoinOperator
from braid.kernels.join.spec import JoinSpec, JoinType, MatchMode
from braid.kernels.step import Step
from braid.log.shared import reader
from tests.engine.random_joins import RANKS, START, Pair, RandomJoin, Row
from tests.seeds import seeds

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
SHARDS = (1, 2, 3, 5)


@dataclass
class UpdatedJoin(RandomJoin):
    """A random join that is changed now and then, with a record of who has decided on what.

    Parameters
    ----------
    versions
        What it was, and is.
    steps
        The version of every step, and the stream times after it.
    taken
        Under which version rows were taken in.
    """

    versions: list[JoinSpec] = field(default_factory=list)
    steps: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    taken: dict[Side, dict[int, int]] = field(default_factory=lambda: {side: {} for side in Side})

    def __post_init__(self) -> None:
        super().__post_init__()
        assert isinstance(self.spec, JoinSpec)
        self.spec = replace(self.spec, keys=1)
        self.broadcast = None
        self.versions = [self.spec]
        # No input is ever taken for idle, so that no row is late but by a change of the window.
        self.options = self.options.model_copy(update={"idle_timeout": 10**15})

    def take(self, step: Step) -> None:
        """Take note of who takes rows in."""
        super().take(step)
        self.steps.append((len(self.versions) - 1, dict(step.times)))
        for side in Side:
            found = reader(self._local.root, side.value)
            for block in step.blocks[side]:
                for row in found.read(*block, columns=("id",))["id"].to_pylist():
                    self.taken[side][row] = len(self.versions) - 1

    def update(self, spec: JoinSpec, shards: int) -> None:
        """Go on as another join, in another process, with other shards."""
        assert isinstance(self.spec, JoinSpec)
        if self._local.offset is not None:
            settles = (spec.match, spec.consume) != (self.spec.match, self.spec.consume)
            self.take(self._local.seal(str(len(self.versions)), settles=settles))
        self.spec = spec
        self.versions.append(spec)
        self.rescale(shards)
        operator = JoinOperator(spec, self.broadcast)
        self._local = replace(self._local, operator=operator, admission=self.admission())

    # -- what is expected -------------------------------------------------------------------------

    def decided(self, side: Side, row: Row) -> int:
        """The version that runs when the time of a row is up."""
        floor = MIN_TIME
        for version, times in self.steps:
            spec = self.versions[version]
            left = times[Side.RIGHT] - spec.upper
            right = times[Side.LEFT] + spec.lower
            if spec.match.waits and spec.type.pads(Side.RIGHT):
                right = min(right, left + spec.lower)
            floor = max(floor, left if side is Side.LEFT else right)
            if floor > (START + row.time) * SECOND:
                return max(version, self.taken[side][row.id])
        raise AssertionError("the drain decides every row")

    def expected(self) -> Counter[Pair]:
        """All that comes out, given that only type and match mode have changed: candidates are DuckDB's."""
        found = [pair for row in self.rows[Side.LEFT] for pair in self._pairs(row, self._candidates())]
        out: Counter[Pair] = Counter(found)
        for side in Side:
            had = {pair[side is Side.RIGHT] for pair in found}
            for row in self.rows[side]:
                if row.id not in had and self.versions[self.decided(side, row)].type.pads(side):
                    out[(row.id, None) if side is Side.LEFT else (None, row.id)] += 1
        return out

    def _candidates(self) -> dict[int, list[tuple[MatchMode, int]]]:
        """Right rows in reach of each left row, in the order in which each match mode prefers them."""
        if not hasattr(self, "_found"):
            spec = self.versions[0]
            near = f"BETWEEN l.time + {spec.lower // SECOND} AND l.time + {spec.upper // SECOND}"
            self._found: dict[int, list[tuple[MatchMode, int]]] = {}
            with duckdb.connect(config={"threads": 1}) as connection:
                for name, side in (("l", Side.LEFT), ("r", Side.RIGHT)):
                    names = ("id", "key", "time")
                    rows = {n: [getattr(row, n) for row in self.rows[side]] for n in names}
                    connection.register(name, pa.table({n: pa.array(v, pa.int64()) for n, v in rows.items()}))
                for mode in MatchMode:
                    order = RANKS.get(mode, "r.id")
                    query = (
                        f"SELECT l.id, r.id FROM l JOIN r ON l.key = r.key AND r.time {near} ORDER BY {order}"
                    )
                    for left, right in connection.execute(query).fetchall():
                        self._found.setdefault(left, []).append((mode, right))
        return self._found

    def _pairs(self, row: Row, candidates: dict[int, list[tuple[MatchMode, int]]]) -> Iterable[Pair]:
        """The matches of a left row."""
        begin, end = self.taken[Side.LEFT][row.id], self.decided(Side.LEFT, row)
        while begin <= end:
            mode, last = self.versions[begin].match, begin
            while last < end and self.versions[last + 1].match is mode:
                last += 1
            found = [
                right
                for preferred, right in candidates.get(row.id, [])
                if preferred is mode
                and begin <= max(self.taken[Side.LEFT][row.id], self.taken[Side.RIGHT][right]) <= last
            ]
            for right in found if mode is MatchMode.ALL else found[:1]:
                yield row.id, right
            if found:
                return  # a row with a match is done when the mode changes
            begin = last + 1


def other(spec: JoinSpec, rng: random.Random, *, windows: bool) -> JoinSpec:
    """A change of one or two things."""
    if rng.random() < 0.7:
        spec = replace(spec, type=rng.choice(list(JoinType)))
    if rng.random() < 0.7:
        spec = replace(spec, match=rng.choice([MatchMode.ALL, *MatchMode]), consume=False)
    if windows:
        if spec.match is MatchMode.FIRST:
            spec = replace(spec, consume=rng.random() < 0.6)
        if rng.random() < 0.5:
            spec = replace(spec, pad_after=rng.choice([None, 0, 3 * SECOND, 30 * SECOND]))
        if rng.random() < 0.5:
            lower = rng.randint(-60, 20) * SECOND
            spec = replace(spec, lower=lower, upper=lower + rng.randint(0, 80) * SECOND)
    return spec


def run(join: UpdatedJoin, *, windows: bool) -> UpdatedJoin:
    """Publish as rows arrive, and change the join, its shards and its process at random."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        join.open(root)
        rng = random.Random(join.seed)
        now = 0
        for now, arrived in join.ticks():
            for side in Side:
                join.publish(side, arrived[side], now)
            join.run(now)
            chance = rng.random()
            if chance < 0.2:
                assert isinstance(join.spec, JoinSpec)
                # Now and then back to what it was: a rollback is an update like any other.
                back = rng.random() < 0.3 and len(join.versions) > 1
                spec = rng.choice(join.versions) if back else other(join.spec, rng, windows=windows)
                join.update(spec, rng.choice(SHARDS))
            elif chance < 0.3:
                join.rescale(rng.choice(SHARDS))
            elif chance < 0.4:
                join.restart()
        join.run(now + 1, draining=True)
    return join


@pytest.mark.parametrize("seed", seeds(200))
def test_type_and_match_mode_change_with_rows_in_flight(seed: int) -> None:
    join = run(UpdatedJoin(seed, span=120), windows=False)
    assert Counter(join.emitted) == join.expected()
    assert not any(join.lost.values())


@pytest.mark.parametrize("seed", seeds(60))
def test_whatever_changes_no_row_comes_out_padded_and_matched(seed: int) -> None:
    """Windows, waits by the clock and CONSUME change, too."""
    join = run(UpdatedJoin(seed, waits=seed % 2 == 0), windows=True)
    emitted = Counter(join.emitted)
    assert max(emitted.values(), default=1) == 1
    fitting: set[Pair] = set()
    for spec in join.versions:
        join.spec = spec
        fitting |= join.matches()
    pairs = {pair for pair in emitted if None not in pair}
    assert pairs <= fitting
    for side, position in ((Side.LEFT, 0), (Side.RIGHT, 1)):
        padded = {pair[position] for pair in emitted if pair[1 - position] is None}
        partnered = {pair[position] for pair in pairs}
        assert not padded & partnered
        if all(spec.type.pads(side) for spec in join.versions):
            assert padded | partnered == {row.id for row in join.rows[side]}
