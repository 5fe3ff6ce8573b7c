"""A join that runs for months of simulated time: outages, bursts, wrong clocks, restarts, upkeep of its log.

What months would do to an application is seen in minutes: does the log stay small, do state and memory stay
bounded, is every row decided, and is every match either given or counted as lost?
"""

from __future__ import annotations

import gc
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.core.config import AppConfig
from braid.core.counters import Counters, merge
from braid.core.side import Side
from braid.core.times import DAY, HOUR, MINUTE
from braid.engine.admission import AdmissionConfig, Facts
from braid.engine.offsets import OperatorOffset
from braid.kernels.join.operator import JoinOperator
from braid.kernels.join.spec import JoinSpec, JoinType, OutputColumn
from braid.kernels.step import Step
from braid.log import Log
from braid.log.compaction import CompactionConfig
from braid.testing.inputs import SimulatedInput
from braid.testing.runtime import LocalOperator, MemoryCell
from braid.testing.streams import MONDAY, ClientLike, Cut, Outage, ServerLike, Stream, Times, cut

_UPKEEP = 6 * HOUR
_COMPACTION = CompactionConfig(segment_bytes=1 << 20)
"""Segments are small beside what is retained, as they are in a log of many gigabytes."""
_OUTPUT = (OutputColumn("left", Side.LEFT, "id"), OutputColumn("right", Side.RIGHT, "id"))


@dataclass(frozen=True)
class Marathon:
    """What happens.

    Parameters
    ----------
    days, rows
        How long it goes on, and rows of both sides in that time.
    seed
        Of everything that is random.
    interval
        Simulated time between commits.
    bounds
        The window of the join.
    join
        Its type.
    options
        Of the application.
    outages
        Of either side, per month: half of them take minutes, the others up to a day. What was held back
        arrives at once when one is over.
    bursts
        Per month: for ten minutes, twenty times as many rows come.
    wrong_clocks
        Share of rows whose event time is off by up to a year.
    restarts
        Per day: everything but offset and state is forgotten.
    """

    days: float = 365
    rows: int = 2_000_000
    seed: int = 0
    interval: int = 15 * MINUTE
    bounds: tuple[int, int] = (-3 * HOUR, 30 * MINUTE)
    join: JoinType = JoinType.LEFT
    options: AppConfig = field(
        default_factory=lambda: AppConfig(shards=2, retention="2 days", idle_timeout="40 minutes")
    )
    outages: float = 4
    bursts: float = 2
    wrong_clocks: float = 0.0005
    restarts: float = 1

    def streams(self) -> dict[Side, Stream]:
        """Clients on the left, servers on the right."""
        rng = np.random.default_rng([self.seed, 9])
        length = round(self.days * DAY)
        bursts = MONDAY + rng.integers(0, length, rng.poisson(self.bursts * self.days / 30))
        server = ServerLike(self.rows // 2, duration=length, outages=self._outages(rng))
        right = server.generate(self.seed)
        client = ClientLike(self.rows - self.rows // 2, outages=self._outages(rng))
        left = client.generate(right, self.seed)
        return {
            side: self._unsettled(stream, bursts, rng)
            for side, stream in ((Side.LEFT, left), (Side.RIGHT, right))
        }

    def _outages(self, rng: np.random.Generator) -> tuple[Outage, ...]:
        count = rng.poisson(self.outages * self.days / 30)
        starts = MONDAY + rng.integers(0, round(self.days * DAY), count)
        short = rng.integers(MINUTE, HOUR, count)
        lengths = np.where(rng.random(count) < 0.5, short, rng.integers(HOUR, DAY, count))
        return tuple(Outage(int(start), int(length)) for start, length in zip(starts, lengths, strict=True))

    def _unsettled(self, stream: Stream, bursts: Times, rng: np.random.Generator) -> Stream:
        """The same rows, some of them in bursts, and some with wrong clocks."""
        event, arrival = stream.event_time.copy(), stream.arrival_time.copy()
        for begin in bursts:
            near = np.flatnonzero((event >= begin) & (event < begin + 200 * MINUTE))
            moved = (begin - event[near]) * 19 // 20
            event[near] += moved
            arrival[near] += moved
        wrong = np.flatnonzero(rng.random(len(event)) < self.wrong_clocks)
        event[wrong] += rng.integers(-365 * DAY, 365 * DAY, len(wrong))
        order = np.argsort(arrival, kind="stable")
        return Stream(event[order], arrival[order], stream.key[order])


@dataclass(frozen=True)
class Sample:
    """How things stand at the end of a simulated day."""

    day: int
    files: int
    bytes: int
    state_bytes: int
    held: int
    blocks: int
    arrow_bytes: int
    maps: int


@dataclass
class Outcome:
    """What a marathon has shown.

    Parameters
    ----------
    streams
        The rows; those of `pairs`, `padded` and `lost` are numbers in them.
    pairs, padded
        What came out: numbers of left and right rows, and of left rows without a match.
    lost
        Rows of each side that were listed as having lost something.
    counts
        What was counted in all.
    samples
        One a day.
    """

    streams: dict[Side, Stream]
    pairs: Times
    padded: Times
    lost: dict[Side, Times]
    counts: Counters
    samples: list[Sample]


@dataclass(frozen=True)
class Verdict:
    """How what came out compares with DuckDB's join of all rows. Everything but the first three must be 0.

    Parameters
    ----------
    matches
        Matches that DuckDB finds.
    missing
        Those that did not come out.
    counted
        Those that the join says it has lost.
    unexplained
        Missing ones of which neither row was listed.
    wrong, repeated
        Pairs that DuckDB does not find, and pairs that came out more than once.
    undecided
        Left rows that never came out.
    twice
        Left rows that came out without a match more than once, or though they have one.
    """

    matches: int
    missing: int
    counted: int
    unexplained: int
    wrong: int
    repeated: int
    undecided: int
    twice: int

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.unexplained or self.wrong or self.repeated or self.undecided or self.twice)


def judge(marathon: Marathon, outcome: Outcome) -> Verdict:
    """Compare an outcome of a LEFT join with DuckDB's."""
    import duckdb

    left, right = (outcome.streams[side] for side in Side)
    valid = {
        side: stream.event_time
        <= (stream.arrival_time // marathon.interval + 1) * marathon.interval + marathon.options.max_future
        for side, stream in outcome.streams.items()
    }
    with duckdb.connect() as connection:
        for side, stream in outcome.streams.items():
            ids = np.flatnonzero(valid[side])
            rows = {"id": ids, "key": stream.key[ids], "t": stream.event_time[ids]}
            connection.register(side.value, pa.table(rows))
        lower, upper = marathon.bounds
        found = connection.execute(
            'SELECT l.id AS l, r.id AS r FROM "left" l JOIN "right" r ON l.key = r.key '
            f"AND r.t BETWEEN l.t + {lower} AND l.t + {upper}"
        ).fetchnumpy()
    expected = found["l"] * len(right) + found["r"]
    given = outcome.pairs[:, 0] * len(right) + outcome.pairs[:, 1]
    missing = np.setdiff1d(expected, given)
    listed = np.isin(missing // len(right), outcome.lost[Side.LEFT]) | np.isin(
        missing % len(right), outcome.lost[Side.RIGHT]
    )
    times = np.bincount(outcome.padded, minlength=len(left))
    matched = np.bincount(outcome.pairs[:, 0], minlength=len(left)) > 0
    return Verdict(
        len(expected),
        len(missing),
        outcome.counts.lost_matches,
        int(np.count_nonzero(~listed)),
        len(np.setdiff1d(given, expected)),
        len(given) - len(np.unique(given)),
        int(np.count_nonzero((times == 0) & ~matched)),
        int(np.count_nonzero(times > ~matched)),
    )


def run(marathon: Marathon, show: Callable[[Sample], None] | None = None) -> Outcome:
    """Run a marathon on a real log, kept in memory where there is room."""
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() and shutil.disk_usage(memory).free > 4 << 30 else None
    with tempfile.TemporaryDirectory(prefix="braid-marathon-", dir=place) as root:
        return _Run(marathon, root, show).go()


class _Run:
    def __init__(self, marathon: Marathon, root: str, show: Callable[[Sample], None] | None) -> None:
        self._marathon, self._root, self._show = marathon, root, show
        self._rng = np.random.default_rng([marathon.seed, 10])
        self._streams = marathon.streams()
        log = Log(root)
        options = marathon.options
        self._inputs = {side: SimulatedInput(log, side, self._streams[side], options) for side in Side}
        self._spec = JoinSpec(marathon.join, *marathon.bounds, 1, _OUTPUT)
        self._operator = self._open(None, [], None)
        self._out: list[Times] = [np.empty((0, 2), np.int64)]
        self._lost: dict[Side, list[int]] = {side: [] for side in Side}
        self._last = self._counts = Counters()
        self._samples: list[Sample] = []

    def go(self) -> Outcome:
        """Everything, day by day, and a drain in the end."""
        now = kept = MONDAY
        commits = sorted(
            (pieces[0].wall_time, side, pieces) for side in Side for pieces in self._commits(side)
        )
        for day, of_day in groupby(commits, lambda item: (item[0] - MONDAY) // DAY):
            for now, tick in groupby(of_day, lambda item: item[0]):
                for _, side, pieces in tick:
                    self._inputs[side].publish(pieces[0].start, pieces[-1].stop, now)
                self._follow(now)
                if self._rng.random() < self._marathon.restarts * self._marathon.interval / DAY:
                    self._restart()
                if now >= kept + _UPKEEP:
                    self._keep_up(now)
                    kept = now
            self._sample(day)
        while self._operator.offset is None or not self._operator.offset.at.drained:
            self._advance(now + self._marathon.interval, Facts(draining=True))
        return self._outcome()

    def _commits(self, side: Side) -> list[list[Cut]]:
        pieces = cut(self._streams[side], self._marathon.interval, self._marathon.options.chunk_rows)
        return [list(some) for _, some in groupby(pieces, lambda piece: piece.commit)]

    def _open(
        self, offset: OperatorOffset | None, states: list[MemoryCell], counts: Counters | None
    ) -> LocalOperator:
        options = self._marathon.options
        admission = AdmissionConfig(
            {side.value: side.value for side in Side},
            self._spec.upper,
            options,
            rescued=tuple(side.value for side in self._spec.rescued),
        )
        return LocalOperator(
            self._root,
            admission,
            JoinOperator(self._spec),
            options.shards,
            offset=offset,
            states=states,
            counts=counts,
        )

    def _restart(self) -> None:
        """Go on from what is durable: the offset as text, the states, and what the last step counted."""
        old = self._operator
        if old.offset is not None:
            offset = OperatorOffset.from_json(json.loads(json.dumps(old.offset.to_json())))
            self._operator = self._open(offset, [MemoryCell(cell.value) for cell in old.states], old.counts)

    def _follow(self, now: int) -> None:
        while self._advance(now, Facts()):
            continue

    def _advance(self, now: int, facts: Facts) -> bool:
        admitted, step = self._operator.advance(now, facts)
        if step is not None:
            self._step(step)
        return admitted is not None and admitted.decision.limited

    def _step(self, step: Step) -> None:
        counted = []
        for table, notes in self._operator.results(step).values():
            counted += notes.counts
            if table is not None:
                self._out.append(_ids(table))
            if notes.letters:
                _, sides, rows = (part.to_pylist() for part in notes.columns())
                for side, row in zip(sides, rows, strict=True):
                    self._lost[Side(side)].append(json.loads(row)["id"])
        self._last = merge(counted)
        self._counts = merge([self._counts, self._last.cumulative()])

    def _keep_up(self, now: int) -> None:
        """Retention and compaction, as the upkeep of a home does them."""
        for side, one in self._inputs.items():
            one.category.retain(now - self._marathon.options.retention, self._operator.needed(side))
            while one.category.compact(_COMPACTION, now):
                continue

    def _sample(self, day: int) -> None:
        gc.collect()
        sizes = [path.stat().st_size for path in Path(self._root).rglob("*") if path.is_file()]
        sides = self._last.inputs.values()
        maps = Path("/proc/self/maps")
        sample = Sample(
            day,
            len(sizes),
            sum(sizes),
            self._last.state_bytes,
            sum(side.pending for side in sides),
            sum(side.blocks for side in sides),
            pa.total_allocated_bytes(),
            maps.read_text().count(self._root) if maps.exists() else 0,
        )
        self._samples.append(sample)
        if self._show is not None:
            self._show(sample)

    def _outcome(self) -> Outcome:
        out = np.concatenate(self._out)
        matched = out[:, 1] >= 0
        lost = {side: np.unique(np.array(rows, np.int64)) for side, rows in self._lost.items()}
        return Outcome(self._streams, out[matched], out[~matched, 0], lost, self._counts, self._samples)


def _ids(table: pa.Table) -> Times:
    """Numbers of left and right rows, in memory of NumPy: what Arrow holds is the join's."""
    columns = [np.array(pc.fill_null(table[name], -1)) for name in ("left", "right")]
    return np.column_stack(columns)
