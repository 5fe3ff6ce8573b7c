"""Random joins of two random streams on the local runtime, with outages, restarts and drains, and DuckDB.

What must hold whatever happens: a match is emitted or counted as missing, never both; a row of a padded side
comes out padded if and only if it has not come out with a partner; nothing comes out twice.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from braid.core.columns import HASH, KEY, TIME
from braid.core.config import AppConfig
from braid.core.counters import Counters, merge
from braid.core.side import Side
from braid.core.times import SECOND
from braid.engine.admission import AdmissionConfig, Facts
from braid.kernels.join.operator import JoinOperator
from braid.kernels.join.spec import AnySpec, JoinSpec, JoinType, MatchMode, OutputColumn, SeriesSpec
from braid.kernels.step import Step
from braid.log import Log, hash_rows
from braid.testing.runtime import LocalOperator

SCHEMA = pa.schema([(HASH, pa.int64()), (TIME, pa.int64()), (f"{KEY}0", pa.int64()), ("id", pa.int64())])
OUTPUT = (OutputColumn("l", Side.LEFT, "id"), OutputColumn("r", Side.RIGHT, "id"))
START = 1_700_000_000
CHUNK_ROWS = 20
INPUTS = {side.value: side.value for side in Side}
Pair = tuple[int | None, int | None]
RANKS = {
    MatchMode.FIRST: "r.id",
    MatchMode.NEAREST: "abs(r.time - l.time), r.time, r.id",
    MatchMode.EARLIEST: "r.time, r.id",
    MatchMode.LATEST: "r.time DESC, r.id",
}


@cache
def oracle() -> duckdb.DuckDBPyConnection:
    """One for all joins of a process: to open another one takes longer than what they ask."""
    return duckdb.connect(config={"threads": 1})


@dataclass(frozen=True)
class Row:
    """A row: numbers in seconds. Its id is its place in the order of arrival."""

    id: int
    key: int
    time: int
    arrival: int


@dataclass
class RandomJoin:
    """A random join, its streams, and all that has come of it."""

    seed: int
    span: int = 240
    modes: tuple[MatchMode, ...] = (MatchMode.ALL, MatchMode.ALL, *MatchMode)
    types: tuple[JoinType, ...] = tuple(JoinType)
    waits: bool = False
    """Whether rows without a match wait by the wall clock, and some joins consume right rows."""
    rescales: int = 0
    emitted: list[Pair] = field(default_factory=list)
    counts: Counters = field(default_factory=Counters)
    lost: dict[str, Counter[int]] = field(default_factory=lambda: {side.value: Counter() for side in Side})

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(self.seed)
        keyed = rng.random() < 0.85
        lower = rng.randint(-60, 20)
        upper = lower + rng.randint(0, 80)
        kind = rng.choice(self.types)
        if not keyed and kind not in (JoinType.INNER, JoinType.LEFT):
            kind = JoinType.LEFT
        self.keys = rng.choice([1, 5, 30]) if keyed else 1
        spec = JoinSpec(kind, lower * SECOND, upper * SECOND, int(keyed), OUTPUT, rng.choice(self.modes))
        if self.waits:
            consume = keyed and spec.match is MatchMode.FIRST and rng.random() < 0.7
            spec = replace(spec, pad_after=rng.choice([0, 3, 20, 90]) * SECOND, consume=consume)
        self.spec: AnySpec = spec
        self.broadcast = None if keyed else Side.RIGHT
        self.shards = rng.choice([1, 1, 2])
        self.disorder = {side.value: rng.choice([0, 3, 20]) for side in Side}
        self.options = AppConfig(
            shards=self.shards,
            slack=f"{rng.randint(0, 40)} s",
            idle_timeout="5 s",
            batch_rows=rng.choice([1, 20, 10_000]),
        )
        self.rows = {side: self._stream(side, rng.choice([10, 60, 120])) for side in Side}

    def _stream(self, side: Side, size: int) -> list[Row]:
        """Rows within the declared disorder of each other, some late by an outage or two."""
        rng, disorder = self.rng, self.disorder[side]
        found = []
        for _ in range(size):
            time = rng.randint(0, self.span)
            found.append((time + rng.randint(0, disorder), rng.randrange(self.keys), time))
        return [Row(i, key, time, at) for i, (at, key, time) in enumerate(sorted(found))]

    def silence(self, side: Side, start: int, length: int) -> None:
        """Let nothing arrive for a while, and then all of it at once."""
        self.rows[side] = [
            replace(row, arrival=start + length) if start <= row.arrival < start + length else row
            for row in self.rows[side]
        ]

    def admission(self, *, declared: bool = True) -> AdmissionConfig:
        """How inputs are admitted; with the order that they really have, if that is declared."""
        disorder = {name: value * SECOND for name, value in self.disorder.items()} if declared else {}
        if isinstance(self.spec, SeriesSpec):
            return AdmissionConfig(INPUTS, 0, self.options, disorder=disorder)
        rescued = tuple(side.value for side in self.spec.rescued)
        return AdmissionConfig(
            INPUTS,
            self.spec.upper,
            self.options,
            disorder=disorder,
            rescued=rescued,
            pad_after=self.spec.pad_after,
        )

    # -- running ----------------------------------------------------------------------------------

    def open(self, root: str, *, declared: bool = True) -> None:
        """Begin on an empty log."""
        log = Log(root)
        self._categories = {side: log.create(side.value, SCHEMA, shards=2) for side in Side}
        operator = JoinOperator(self.spec, self.broadcast)
        self._local = LocalOperator(root, self.admission(declared=declared), operator, self.shards)

    def publish(self, side: Side, rows: list[Row], now: int) -> None:
        """Write a commit."""
        if rows:
            table = self.sliced(side, rows)
            self._categories[side].append(table, chunk_rows=CHUNK_ROWS, wall_time=(START + now) * SECOND)

    def sliced(self, side: Side, rows: list[Row], modulus: int = 1000) -> pa.Table:
        """Rows as a slicer writes them; only what is left of keys modulo a number counts."""
        keys = pa.array([row.key % modulus for row in rows], pa.int64())
        times = [(START + row.time) * SECOND for row in rows]
        ids = [row.id for row in rows]
        # Without keys, hashes only spread the rows of the left side over the shards.
        spread = keys if self.spec.keys or side is Side.RIGHT else pa.array(ids)
        return pa.table([hash_rows([spread]), times, keys, ids], schema=SCHEMA)

    def restart(self) -> None:
        """Go on in another process: only offset and state are left."""
        self._local = replace(self._local, counts=None)

    def rescale(self, shards: int) -> None:
        """Go on with other shards, in another process."""
        self.rescales += 1
        path = Path(self._local.root) / f"savepoint-{self.rescales}"
        self._local = self._local.rescaled(shards, path)

    def run(self, now: int, *, draining: bool = False) -> None:
        """Take what there is, until nothing is left to do."""
        while True:
            admitted, step = self._local.advance((START + now) * SECOND, Facts(draining=draining))
            self.admitted = admitted
            if step is None:
                return
            self.take(step)

    def take(self, step: Step) -> None:
        """Take a step, and collect what comes of it."""
        for table, notes in self._local.results(step).values():
            if table is not None:
                self.emitted += zip(table["l"].to_pylist(), table["r"].to_pylist(), strict=True)
            self.counts = merge([self.counts, *(one.cumulative() for one in notes.counts)])
            for _, sides, texts in notes.letters:
                for side, text in zip(sides.to_pylist(), texts.to_pylist(), strict=True):
                    self.lost[side][json.loads(text)["id"]] += 1

    def live(self, restarts: float = 0.1) -> None:
        """Publish rows as they arrive, second by second, then drain."""
        end = 0
        for now, arrived in self.ticks():
            for side in Side:
                self.publish(side, arrived[side], now)
            self.run(now)
            if self.rng.random() < restarts:
                self.restart()
            end = now
        self.run(end + 1, draining=True)

    def ticks(self) -> Iterator[tuple[int, dict[Side, list[Row]]]]:
        """What arrives, every few seconds; long silences of both sides are skipped."""
        waiting = {side: list(self.rows[side]) for side in Side}
        now = 0
        while any(waiting.values()):
            now = max(now + self.rng.randint(1, 9), min(rows[0].arrival for rows in waiting.values() if rows))
            arrived = {side: [row for row in waiting[side] if row.arrival <= now] for side in Side}
            waiting = {side: rows[len(arrived[side]) :] for side, rows in waiting.items()}
            yield now, arrived

    # -- checking ---------------------------------------------------------------------------------

    def matches(self, *, chosen: bool = False) -> set[Pair]:
        """DuckDB's matches; of a single-match join all candidates, unless the chosen ones are asked for."""
        spec = self.spec
        conditions = [f"r.time BETWEEN l.time + {spec.lower // SECOND} AND l.time + {spec.upper // SECOND}"]
        conditions += ["l.key = r.key"] * spec.keys
        query = f"SELECT l.id, r.id FROM l JOIN r ON {' AND '.join(conditions)}"
        if chosen and spec.match is not MatchMode.ALL:
            query += f" QUALIFY row_number() OVER (PARTITION BY l.id ORDER BY {RANKS[spec.match]}) = 1"
        return set(self.ask(query))

    def ask(self, query: str) -> list[tuple[int, int]]:
        """DuckDB's answer; rows are in `l` and `r`."""
        for name, side in (("l", Side.LEFT), ("r", Side.RIGHT)):
            rows = self.rows[side]
            table = {
                n: pa.array([getattr(row, n) for row in rows], pa.int64()) for n in ("id", "key", "time")
            }
            oracle().register(name, pa.table(table))
        return oracle().execute(query).fetchall()

    def check(self) -> None:
        """What must hold whatever has happened."""
        assert not [pair for pair, times in Counter(self.emitted).items() if times > 1]
        pairs = {pair for pair in self.emitted if None not in pair}
        candidates, chosen = self.matches(), self.matches(chosen=True)
        assert pairs <= candidates
        for side, position in ((Side.LEFT, 0), (Side.RIGHT, 1)):
            padded = {pair[position] for pair in self.emitted if pair[1 - position] is None}
            partnered = {pair[position] for pair in pairs}
            every = {row.id for row in self.rows[side]}
            assert padded == (every - partnered if self.spec.type.pads(side) else set()), side
        if self.spec.match is not MatchMode.ALL:
            assert len({left for left, _ in pairs}) == len(pairs)
        if self.spec.consume:
            # What a row cannot have is another one's: nobody can tell whose match is missing.
            assert len({right for _, right in pairs}) == len(pairs)
            return
        missing, padded_before = chosen - pairs, self.counts.matches_after_padding
        if self.spec.match is MatchMode.ALL:
            assert self.counts.lost_matches + padded_before == len(missing)
        unlisted = [
            (left, right)
            for left, right in missing
            if left not in self.lost[Side.LEFT] and right not in self.lost[Side.RIGHT]
        ]
        assert len(unlisted) <= padded_before

    def check_complete(self) -> None:
        """The output is DuckDB's, and nothing is counted as lost."""
        self.check()
        assert {pair for pair in self.emitted if None not in pair} == self.matches(chosen=True)
        assert self.counts.lost_matches == 0
        assert not any(self.lost.values())
