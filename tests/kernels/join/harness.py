"""Drives a join over random inputs the way the engine does, and asks DuckDB for the right answer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa

from braid.core.columns import HASH, LIVE, TIME
from braid.core.counters import Counters, merge
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MAX_TIME, MIN_TIME
from braid.kernels.arrays import Ints
from braid.kernels.join.kernel import ShardJoin, open_join
from braid.kernels.join.spec import AnySpec, JoinSpec, MatchMode, OutputColumn
from braid.kernels.join.step import two_sided
from braid.kernels.state import decode
from braid.kernels.step import Output

Row = dict[str, object]

OUTPUT = (OutputColumn("l", Side.LEFT, "id"), OutputColumn("r", Side.RIGHT, "id"))


def schema(key_types: Sequence[pa.DataType]) -> pa.Schema:
    keys = [(f"__key{i}", kind) for i, kind in enumerate(key_types)]
    return pa.schema(
        [
            (HASH, pa.int64()),
            (TIME, pa.int64()),
            (LIVE, pa.bool_()),
            *keys,
            ("id", pa.int64()),
            ("x", pa.float64()),
        ]
    )


def tiny_hash(row: Row, keys: int) -> int:
    """A hash with many collisions, so that only exact key equality can give the right answer."""
    text = "|".join(repr(row[f"__key{i}"]) for i in range(keys))
    return sum(text.encode()) % 3 - 1


def to_block(rows: Sequence[Row], kind: pa.Schema, keys: int) -> pa.RecordBatch:
    hashed = sorted(({**row, HASH: tiny_hash(row, keys)} for row in rows), key=lambda row: row[HASH])
    return pa.RecordBatch.from_pylist(hashed, kind)


class MemorySource:
    """Blocks in memory, as the log would give them; `forget` plays retention."""

    def __init__(self, kind: pa.Schema) -> None:
        self._schema = kind
        self.blocks: dict[Side, dict[Position, pa.RecordBatch]] = {side: {} for side in Side}
        self.seen: dict[Side, dict[Position, list[object]]] = {side: {} for side in Side}
        self._forgotten = dict.fromkeys(Side, MIN_TIME)

    def schema(self, side: Side) -> pa.Schema:
        return self._schema

    def read(self, side: Side, block: Position) -> pa.RecordBatch:
        return self.blocks[side][block]

    def overlapping(self, side: Side, until: Position, low: int, high: int) -> list[Position]:
        found = []
        for block, batch in self.blocks[side].items():
            times = [t for t in batch.column(TIME).to_pylist() if t is not None]
            if block <= until and times and min(times) <= high and max(times) >= low:
                found.append(block)
        return sorted(found)

    def find(
        self, side: Side, until: Position, hashes: Ints, low: Ints, high: Ints
    ) -> list[tuple[Position, Ints | None]]:
        """Whole blocks, or the rows that an index finds: the log has both, older commits with an index."""
        found: list[tuple[Position, Ints | None]] = []
        for block in self.overlapping(side, until, int(low.min()), int(high.max())):
            if block.commit % 2:
                found.append((block, None))
                continue
            rows = zip(
                *(self.blocks[side][block].column(name).to_pylist() for name in (HASH, TIME)), strict=True
            )
            hits = [
                row
                for row, (key, time) in enumerate(rows)
                if time is not None and np.any((hashes == key) & (low <= time) & (high >= time))
            ]
            if hits:
                found.append((block, np.array(hits, np.int64)))
        return found

    def arrived(self, side: Side, block: Position) -> int:
        return 100 * (block.commit * 3 + block.chunk)

    def forgotten(self, side: Side) -> int:
        return self._forgotten[side]

    def forget(self, side: Side, block: Position) -> None:
        batch = self.blocks[side].pop(block)
        times = [t for t in batch.column(TIME).to_pylist() if t is not None]
        self._forgotten[side] = max([self._forgotten[side], *times])


@dataclass
class Case:
    """Two inputs in order of arrival, cut into blocks, and the steps in which they are admitted."""

    spec: AnySpec
    left: list[list[Row]]
    right: list[list[Row]]
    key_types: Sequence[pa.DataType] = (pa.string(),)
    seed: int = 0
    late: frozenset[Side] = frozenset()
    """Sides whose stream time may pass rows that are still to come."""
    restarts: bool = True
    pairs: Counter[tuple[object, object]] = field(default_factory=Counter)
    counts: Counters = field(default_factory=Counters)
    lost: list[tuple[str, str, object, int, int]] = field(default_factory=list)
    """Side, reason, row id, matches, and the step."""
    forget: bool = False
    """Whether the log forgets blocks that the join no longer holds."""
    steps: list[tuple[list[Position], list[Position]]] = field(default_factory=list)
    states: list[bytes] = field(default_factory=list)
    """The saved state after each step."""
    source: MemorySource = field(init=False)

    def run(self) -> Case:
        rng = random.Random(self.seed)
        kind = schema(self.key_types)
        self.source = MemorySource(kind)
        waiting = {
            side: [(Position(i // 3, i % 3), rows) for i, rows in enumerate(blocks)]
            for side, blocks in ((Side.LEFT, self.left), (Side.RIGHT, self.right))
        }
        join = open_join(self.spec, self.source)
        times = dict.fromkeys(Side, MIN_TIME)
        while any(waiting.values()):
            admitted: dict[Side, list[Position]] = {side: [] for side in Side}
            for side in Side:
                for _ in range(rng.choice((0, 1, 1, 2))):
                    if waiting[side]:
                        block, rows = waiting[side].pop(0)
                        self.source.blocks[side][block] = to_block(rows, kind, self.spec.keys)
                        self.source.seen[side][block] = [row["id"] for row in rows]
                        admitted[side].append(block)
                times[side] = max(times[side], self._stream_time(rng, side, waiting[side]))
            self._note(join.step(two_sided(*admitted.values(), *times.values(), self._clock())))
            self.steps.append((admitted[Side.LEFT], admitted[Side.RIGHT]))
            self.states.append(join.snapshot())
            if self.restarts and rng.random() < 0.4:
                join = open_join(self.spec, self.source, self.states[-1])
            if self.forget:
                self._forget(rng, join)
        self._note(join.step(two_sided([], [], MAX_TIME, MAX_TIME, self._clock())))
        assert join.pending == {Side.LEFT: 0, Side.RIGHT: 0}
        return self

    def _clock(self) -> int:
        """The wall clock of the next step: steps follow each other about as fast as blocks arrive."""
        return 100 * len(self.steps)

    def _stream_time(self, rng: random.Random, side: Side, rest: list[tuple[Position, list[Row]]]) -> int:
        times = [row[TIME] for _, rows in rest for row in rows if row[TIME] is not None]
        certain = min(times, default=10_000)
        if side in self.late:
            return rng.choice((certain, certain + rng.randint(0, 20)))
        return certain - rng.choice((0, 0, 1, 5))

    def _forget(self, rng: random.Random, join: ShardJoin) -> None:
        state = decode(join.snapshot())
        for side in Side:
            held = set(state.inputs[side].blocks)
            old = [block for block in self.source.blocks[side] if block not in held]
            for block in old:
                if rng.random() < 0.5:
                    self.source.forget(side, block)

    def arrivals(self) -> dict[object, int]:
        """Step in which each row was admitted, by id."""
        found = {}
        for number, admitted in enumerate(self.steps):
            for side, blocks in zip(Side, admitted, strict=True):
                for block in blocks:
                    found |= dict.fromkeys(self.source.seen[side][block], number)
        return found

    def _note(self, out: Output) -> None:
        self.pairs.update(zip(out.rows["l"].to_pylist(), out.rows["r"].to_pylist(), strict=True))
        self.counts = merge([self.counts, out.counts.cumulative()])
        for entry in out.lost.to_pylist():
            batch = self.source.read(Side(entry["side"]), Position(entry["commit"], entry["chunk"]))
            self.lost.append(
                (
                    entry["side"],
                    entry["reason"],
                    batch.column("id")[entry["row"]].as_py(),
                    entry["matches"],
                    len(self.steps),
                )
            )

    def check_decided(self) -> None:
        """In the end every row is decided, once; where matches are remembered, they are those emitted."""
        for place, (side, blocks) in enumerate(((Side.LEFT, self.left), (Side.RIGHT, self.right))):
            counted, rows = self.counts.input(side), sum(map(len, blocks))
            matched = len({pair[place] for pair in self.pairs if None not in pair})
            if side not in self.spec.remembered:
                assert (counted.matched, counted.unmatched, counted.match_rate) == (0, 0, None)
                continue
            assert (counted.decided, counted.matched, counted.unmatched) == (rows, matched, rows - matched)
            assert counted.match_rate == (matched / rows if rows else None)

    def lost_rows(self, reason: str) -> int:
        """Rows of both sides that were counted as lost for a reason."""
        return sum(counted.lost.get(reason, 0) for counted in self.counts.inputs.values())


def expected(case: Case) -> Counter[tuple[object, object]]:
    """DuckDB's answer: the SQL join, or for single-match modes a window-function query over it."""
    spec = case.spec
    assert isinstance(spec, JoinSpec)
    residual = " AND l.x < r.x" if spec.residual is not None else ""
    rank = {
        MatchMode.ALL: "1",
        MatchMode.FIRST: "r.arrival",
        MatchMode.NEAREST: "abs(r.__time - l.__time), r.__time, r.arrival",
        MatchMode.EARLIEST: "r.__time, r.arrival",
        MatchMode.LATEST: "r.__time DESC, r.arrival",
    }[spec.match]
    return answer(
        case,
        f"SELECT l.id AS l, r.id AS r FROM left_rows l JOIN right_rows r ON {same_key(spec)} "
        f"AND r.__time BETWEEN l.__time + {spec.lower} AND l.__time + {spec.upper}{residual} "
        + ("" if spec.match is MatchMode.ALL else first_by("l.id", rank)),
    )


def same_key(spec: AnySpec) -> str:
    """SQL: both rows can match, and their keys are equal."""
    return " AND ".join(["l.__live", "r.__live", *(f"l.{k} = r.{k}" for k in spec.key_columns)])


def first_by(partition: str, order: str) -> str:
    """SQL: only the first row of each partition."""
    return f"QUALIFY row_number() OVER (PARTITION BY {partition} ORDER BY {order}) = 1"


def answer(case: Case, matches: str) -> Counter[tuple[object, object]]:
    """The output that a query for the matches implies, padded rows included."""
    kind = schema(case.key_types)
    parts = [f"WITH m AS ({matches}) SELECT * FROM m"]
    if case.spec.type.pads(Side.LEFT):
        parts.append("SELECT id, NULL FROM left_rows WHERE id NOT IN (SELECT l FROM m)")
    if case.spec.type.pads(Side.RIGHT):
        parts.append("SELECT NULL, id FROM right_rows WHERE id NOT IN (SELECT r FROM m)")
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, blocks in (("left_rows", case.left), ("right_rows", case.right)):
            rows = [row for block in blocks for row in block]
            table = pa.Table.from_pylist(rows, kind) if rows else kind.empty_table()
            connection.register(name, table.append_column("arrival", pa.array(np.arange(len(rows)))))
        return Counter(connection.execute(" UNION ALL ".join(parts)).fetchall())
