"""Seeded streams with the disorder of real ones: server-like (ordered, seconds late) and client-like.

The client-like stream is what section 7.4 of the paper calls stream A: minutes of delay with a heavy tail,
worse at night; the server-like one is its stream B. Everything is vectorised: a week of two million rows
takes about a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from braid.core.errors import ConfigError
from braid.core.times import DAY, HOUR, MINUTE, SECOND
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.sketch import SKETCH_K, sketch_bytes

Times = npt.NDArray[np.int64]

MONDAY = 1_704_067_200 * SECOND
"""Midnight UTC of Monday, 1 January 2024: where generated streams begin unless told otherwise."""

NIGHT_HOUR = 3.0
"""The hour of the day at which rates are lowest and client delays longest."""


@dataclass(frozen=True)
class Stream:
    """Rows in arrival order: when each happened, when it arrived, and its join key; all int64."""

    event_time: Times
    arrival_time: Times
    key: Times

    def __len__(self) -> int:
        return len(self.key)

    def between(self, start: int, stop: int) -> Stream:
        """The rows from number `start` up to, not including, `stop`."""
        cut = slice(start, stop)
        return Stream(self.event_time[cut], self.arrival_time[cut], self.key[cut])


@dataclass(frozen=True)
class Cut:
    """Rows `start` to `stop` of a stream, which one chunk holds, and when their commit is published."""

    commit: int
    chunk: int
    start: int
    stop: int
    wall_time: int
    last: bool


@dataclass(frozen=True)
class Outage:
    """Nothing arrives for `length` microseconds from `start` on; then everything held back does at once."""

    start: int
    length: int


@dataclass(frozen=True)
class ServerLike:
    """A well ordered stream of requests: each arrives seconds after it happened, keyed by its id.

    Parameters
    ----------
    rows, start, duration
        How many rows happen in `duration` microseconds from `start`.
    delay
        Mean of the exponential delay.
    swing
        How much of the mean rate is lost at night and won by day; 0 is a constant rate.
    outages
        Times in which nothing arrives.
    """

    rows: int
    start: int = MONDAY
    duration: int = 7 * DAY
    delay: int = 2 * SECOND
    swing: float = 0.5
    outages: tuple[Outage, ...] = ()

    def generate(self, seed: int = 0) -> Stream:
        """The same stream for the same seed."""
        rng = np.random.default_rng([seed, 1])
        happened = _daily_times(rng, self.rows, self.start, self.duration, self.swing)
        delay = rng.exponential(self.delay, self.rows).astype(np.int64)
        return _arrive(happened, delay, np.arange(self.rows, dtype=np.int64), self.outages)


@dataclass(frozen=True)
class ClientLike:
    """A disordered stream of what clients did with a server's requests, keyed by the request's id.

    Parameters
    ----------
    rows
        How many rows.
    unmatched
        The share of rows whose key no request has; such keys are negative.
    reaction
        Mean of the exponential time from the request to what the client did.
    delay, slow_delay, slowest_delay
        Means of the exponential delays of most rows, of `slow_share` and of `slowest_share` of them.
    night
        By how much delays are longer in the depth of the night; 1 is no difference.
    outages
        Times in which nothing arrives.
    """

    rows: int
    unmatched: float = 0.05
    reaction: int = 2 * MINUTE
    delay: int = 1 * MINUTE
    slow_share: float = 0.06
    slow_delay: int = 25 * MINUTE
    slowest_share: float = 0.01
    slowest_delay: int = 4 * HOUR
    night: float = 2.0
    outages: tuple[Outage, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.unmatched <= 1 or self.slow_share + self.slowest_share > 1:
            raise ConfigError("shares of rows must lie between 0 and 1, and not exceed 1 together")

    def generate(self, server: Stream, seed: int = 0) -> Stream:
        """The same stream for the same server stream and seed."""
        if not len(server):
            raise ConfigError("a client-like stream refers to requests, and the server stream is empty")
        rng = np.random.default_rng([seed, 2])
        asked = np.sort(rng.integers(0, len(server), self.rows))
        key = server.key[asked].copy()
        nowhere = np.flatnonzero(rng.random(self.rows) < self.unmatched)
        key[nowhere] = -1 - nowhere
        happened = server.event_time[asked] + rng.exponential(self.reaction, self.rows).astype(np.int64)
        return _arrive(happened, self._delays(rng, happened), key, self.outages)

    def _delays(self, rng: np.random.Generator, happened: Times) -> Times:
        kind = rng.random(len(happened))
        mean = np.full(len(happened), float(self.delay))
        mean[kind < self.slow_share + self.slowest_share] = self.slow_delay
        mean[kind < self.slowest_share] = self.slowest_delay
        mean *= 1 + (self.night - 1) * _nightness(happened)
        delays: Times = rng.exponential(mean).astype(np.int64)
        return delays


def cut(stream: Stream, interval: int, chunk_rows: int = 65_536) -> Iterator[Cut]:
    """Cut a stream as a slicer does: a commit per `interval` of arrival time, in chunks of bounded size.

    Intervals in which nothing arrives give no commit. A commit's wall-clock time is the end of its interval.
    """
    ticks = stream.arrival_time // interval
    starts = np.flatnonzero(np.diff(ticks, prepend=ticks[:1] - 1))
    stops = np.append(starts[1:], len(stream))
    for commit, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        wall_time = (int(ticks[start]) + 1) * interval
        for chunk, first in enumerate(range(start, stop, chunk_rows)):
            end = min(first + chunk_rows, stop)
            yield Cut(commit, chunk, first, end, wall_time, end == stop)


def chunk_of(
    times: npt.ArrayLike,
    commit: int,
    chunk: int = 0,
    *,
    nulls: int = 0,
    wall_time: int = 0,
    watermark: int | None = None,
    last: bool = True,
    k: int = SKETCH_K,
) -> ChunkTimes:
    """What the log would record of a chunk with these event times and `nulls` rows without one."""
    array = np.asarray(times, dtype=np.int64)
    return ChunkTimes(
        commit=commit,
        chunk=chunk,
        rows=len(array) + nulls,
        min=int(array.min()) if len(array) else None,
        max=int(array.max()) if len(array) else None,
        nulls=nulls,
        sketch=sketch_bytes(array, k),
        wall_time=wall_time,
        watermark=watermark,
        last=last,
    )


def chunk_times(stream: Stream, piece: Cut, k: int = SKETCH_K) -> ChunkTimes:
    """What the log would record of one chunk of a stream."""
    times = stream.event_time[piece.start : piece.stop]
    return chunk_of(times, piece.commit, piece.chunk, wall_time=piece.wall_time, last=piece.last, k=k)


def week(rows: int = 2_000_000, seed: int = 0, unmatched: float = 0.05) -> tuple[Stream, Stream]:
    """A week of `rows` rows in all, as (client-like, server-like)."""
    server = ServerLike(rows // 2).generate(seed)
    client = replace(ClientLike(rows - rows // 2), unmatched=unmatched).generate(server, seed)
    return client, server


def _nightness(times: Times) -> npt.NDArray[np.float64]:
    """Between 0 at the height of the day and 1 in the depth of the night (UTC)."""
    hours = (times % DAY) / HOUR
    wave: npt.NDArray[np.float64] = 0.5 + 0.5 * np.cos((hours - NIGHT_HOUR) * (2 * np.pi / 24))
    return wave


def _daily_times(rng: np.random.Generator, rows: int, start: int, duration: int, swing: float) -> Times:
    grid = start + np.linspace(0, duration, max(2, duration // (5 * MINUTE))).astype(np.int64)
    rate = 1 + swing * (1 - 2 * _nightness(grid))
    mass = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(grid))])
    places = np.sort(rng.random(rows)) * mass[-1]
    # Relative to the start, where doubles still tell microseconds apart.
    times: Times = np.interp(places, mass, (grid - start).astype(np.float64)).astype(np.int64) + start
    return times


def _arrive(happened: Times, delay: Times, key: Times, outages: tuple[Outage, ...]) -> Stream:
    arrived = happened + delay
    for outage in outages:
        held = (arrived >= outage.start) & (arrived < outage.start + outage.length)
        arrived[held] = outage.start + outage.length
    order = np.argsort(arrived, kind="stable")
    return Stream(happened[order], arrived[order], key[order])
