"""Try a join offline: the log, event time and the kernels in one process, from two streams, faster than life.

The wall clock is simulated. Rows are published in commits as they arrive, pacing decides from the commit
records what to admit, and the kernels join what was admitted, shard by shard, as in a running application.
What comes out is compared, row by row, with a batch join of the same streams.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import fields, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np

from braid.core.config import AppConfig
from braid.core.counters import Counters, merge
from braid.core.errors import ConfigError
from braid.core.side import Side
from braid.core.times import HOUR, MAX_TIME, MIN_TIME, MINUTE
from braid.engine.admission import AdmissionConfig, Facts
from braid.kernels.join.operator import JoinOperator
from braid.kernels.join.spec import JoinSpec, JoinType, MatchMode, OutputColumn
from braid.kernels.step import Step
from braid.log import Log
from braid.testing.batch import batch_matched
from braid.testing.inputs import SimulatedInput
from braid.testing.outcome import Simulation, Timeline
from braid.testing.recording import Recorder
from braid.testing.runtime import LocalOperator
from braid.testing.streams import Stream, cut

_OUTPUT = (OutputColumn("left", Side.LEFT, "id"), OutputColumn("right", Side.RIGHT, "id"))
_UPKEEP = 6 * HOUR
"""How often retention is applied, in simulated time."""
_MEMORY = Path("/dev/shm")
_ROW_BYTES, _COMMIT_BYTES = 64, 32_768
"""What rows and commits take in the log, generously."""
_STEP = tuple(field.name for field in fields(Timeline))


def simulate(
    left: Stream,
    right: Stream,
    bounds: tuple[int, int],
    options: AppConfig | None = None,
    *,
    interval: int = 5 * MINUTE,
    join: JoinType = JoinType.LEFT,
    match: MatchMode = MatchMode.ALL,
    folder: str | Path | None = None,
) -> Simulation:
    """Run a join over two streams as the engine would, in simulated time.

    Parameters
    ----------
    left, right
        The inputs, in order of arrival; from `braid.testing.streams`, or made of recorded data.
    bounds
        The window: lower and upper bound of `right.time - left.time` in microseconds, both inclusive.
    options
        The application's options, of which all that matter to a join are used: `stream_time`, `percentile`,
        `slack`, `late_lookup`, `retention`, `max_per_key`, `shards` and the row limits. The defaults are
        those of an application, but for a single shard, which changes no result and is faster.
    interval
        Simulated time between commits, which is as fine as time gets: `idle_timeout` is taken to be at
        least twice as long. Shorter intervals are truer to an application and take longer.
    join, match
        Join type and match mode.
    folder
        Where to put the temporary log; by default in memory if there is room, else with temporary files.
    """
    _check(left, right, interval)
    options = AppConfig(shards=1) if options is None else options
    spec = JoinSpec(
        join, *bounds, 1, _OUTPUT, match, max_per_key=options.max_per_key, late_lookup=options.late_lookup
    )
    place = _folder(left, right, interval) if folder is None else folder
    with tempfile.TemporaryDirectory(prefix="braid-simulation-", dir=place) as root:
        run = _Run(root, {Side.LEFT: left, Side.RIGHT: right}, spec, options, interval)
        run.live()
        run.drain()
        return run.result()


class _Run:
    """A simulation under way."""

    def __init__(
        self, root: str, streams: dict[Side, Stream], spec: JoinSpec, options: AppConfig, interval: int
    ) -> None:
        log = Log(root)
        self._streams, self._spec, self._options, self._interval = streams, spec, options, interval
        self._cuts = {side: list(cut(streams[side], interval, options.chunk_rows)) for side in Side}
        self._inputs = {side: SimulatedInput(log, side, streams[side], options) for side in Side}
        rescued = tuple(side.value for side in spec.rescued)
        admission = AdmissionConfig(
            {side.value: side.value for side in Side}, spec.upper, options, rescued=rescued
        )
        pacing = admission.pacing()
        self._recorders = {side: Recorder(pacing.estimators[side]) for side in Side}
        pacing = replace(
            pacing,
            estimators={side.value: self._recorders[side] for side in Side},
            idle_timeout=max(pacing.idle_timeout, 2 * interval),
        )
        self._operator = LocalOperator(root, admission, JoinOperator(spec), options.shards, pacing)
        self._matched = np.zeros(len(streams[Side.LEFT]), np.bool_)
        self._emitted = np.full(len(streams[Side.LEFT]), MAX_TIME)
        self._counts = Counters()
        self._steps: list[tuple[int, ...]] = []
        self._now = 0

    def live(self) -> None:
        """Publish what arrives, tick by tick, and let the join follow."""
        commits = sorted(
            (
                (pieces[0].wall_time, side, pieces)
                for side in Side
                for pieces in (list(some) for _, some in groupby(self._cuts[side], attrgetter("commit")))
            ),
            key=lambda item: item[:2],
        )
        upkeep = MIN_TIME
        for now, tick in groupby(commits, lambda item: item[0]):
            for _, side, pieces in tick:
                self._inputs[side].publish(pieces[0].start, pieces[-1].stop, now)
            self._now = now
            while self._advance(Facts()):
                continue
            if now >= upkeep + _UPKEEP:
                self._retain()
                upkeep = now

    def drain(self) -> None:
        """Let the join finish: nothing more will come."""
        self._now += self._interval
        while self._operator.offset is None or not self._operator.offset.at.drained:
            self._advance(Facts(draining=True))

    def result(self) -> Simulation:
        """Everything that was seen."""
        streams, bounds = self._streams, (self._spec.lower, self._spec.upper)
        accuracy = {side: self._recorders[side].accuracy(streams[side], self._cuts[side]) for side in Side}
        table = np.array(self._steps, np.int64).reshape(-1, len(_STEP))
        timeline = Timeline(*(table[:, column].copy() for column in range(len(_STEP))))
        happened = np.sort(streams[Side.RIGHT].event_time)
        begin = np.searchsorted(happened, timeline.left_time + bounds[0])
        end = np.searchsorted(happened, timeline.left_time + bounds[1] + self._options.slack, side="right")
        delay = np.where(self._emitted < MAX_TIME, self._emitted - streams[Side.LEFT].arrival_time, -1)
        return Simulation(
            bounds,
            self._options,
            self._interval,
            self._matched,
            batch_matched(streams[Side.LEFT], streams[Side.RIGHT], bounds),
            delay,
            accuracy[Side.LEFT],
            accuracy[Side.RIGHT],
            timeline,
            end - begin,
            self._counts,
        )

    def _advance(self, facts: Facts) -> bool:
        """One decision, and the micro-batch that follows from it; whether there is more to admit."""
        admitted, step = self._operator.advance(self._now, facts)
        if step is not None:
            self._step(step)
        return admitted is not None and admitted.decision.limited

    def _step(self, step: Step) -> None:
        counted: list[Counters] = []
        for table, notes in self._operator.results(step).values():
            counted += notes.counts
            if table is None:
                continue
            rows = table.filter(table["left"].is_valid())
            left = rows["left"].to_numpy()
            self._emitted[left] = np.minimum(self._emitted[left], self._now)
            self._matched[left[rows["right"].is_valid().to_numpy()]] = True
        counts = merge(counted)
        sides = [counts.inputs[side] for side in Side]
        self._steps.append(
            (
                self._now,
                *(step.times[side] for side in Side),
                *(side.pending for side in sides),
                *(side.rows for side in sides),
                *(side.late for side in sides),
                counts.rescued,
            )
        )
        self._counts = merge([self._counts, counts.cumulative()])

    def _retain(self) -> None:
        """Let the log forget what is older than the retention and no longer needed."""
        for side in Side:
            before = self._now - self._options.retention
            self._inputs[side].category.retain(before, self._operator.needed(side))


def _check(left: Stream, right: Stream, interval: int) -> None:
    if interval < 1:
        raise ConfigError(f"interval is {interval}, but must be at least a microsecond")
    for name, stream in (("left", left), ("right", right)):
        if not len(stream):
            raise ConfigError(f"the {name} stream is empty", where="simulate", hint="give it at least a row")
        if np.any(np.diff(stream.arrival_time) < 0):
            raise ConfigError(
                f"the rows of the {name} stream are not in order of arrival",
                where="simulate",
                hint="sort all three arrays by arrival_time",
            )


def _folder(left: Stream, right: Stream, interval: int) -> Path | None:
    """Memory, if the log fits there twice: syncing to a disk would take most of the time, for nothing."""
    span = max(int(s.arrival_time[-1] - s.arrival_time[0]) for s in (left, right))
    rows = len(left) + len(right)
    wanted = rows * _ROW_BYTES + 2 * min(rows, span // interval + 1) * _COMMIT_BYTES
    try:
        return _MEMORY if shutil.disk_usage(_MEMORY).free > 2 * wanted else None
    except OSError:
        return None
