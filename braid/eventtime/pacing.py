"""Pacing: which chunks of two inputs a join takes next, so that their stream times stay together.

Everything here is a pure function of chunk records, an offset and a wall-clock time that is passed in
(section 5.2 of the paper): the same arguments give the same decision, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from braid.core.config import AppConfig
from braid.core.errors import ConfigError, StateError
from braid.core.positions import Position
from braid.core.times import MAX_TIME, MIN_TIME, shift_time
from braid.eventtime.ascending import Ascending
from braid.eventtime.calibrated import Calibrated
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.estimator import Estimator
from braid.eventtime.offset import Offset, SideName, SideOffset
from braid.eventtime.ordered import Ordered
from braid.eventtime.propagated import Propagated

PERCENTILE = 1.0
RESCUED_PERCENTILE = 5.0
"""Shares of rows, in percent, that may arrive behind stream time, where no option says otherwise."""


@dataclass(frozen=True)
class PacingConfig:
    """How two inputs are paced.

    Parameters
    ----------
    upper
        Upper bound of the join's window: the right input is kept at the left's stream time plus this.
        Of any sign, and enough: where the window begins does not matter for pacing.
    slack
        How far the right input may be ahead of that before it is paused. The left one may be ahead by this
        and by a positive `upper`: its rows wait for later right rows anyway, but find earlier ones at once.
        For it counts how far the right input has come, not its stream time: left rows would have to wait
        for as long as right rows may be late, and their matches with them.
    idle_timeout
        Silence after which an input no longer holds back the other one.
    batch_rows
        Rows admitted at once when there is no backlog.
    max_growth
        By how much `batch_rows` may be exceeded under backlog.
    left, right
        The estimators.
    patient
        Inputs that are waited for however long they are silent: rows are known to be on their way.
    """

    upper: int
    slack: int = 60_000_000
    idle_timeout: int = 30_000_000
    batch_rows: int = 1_000_000
    max_growth: int = 8
    left: Estimator = field(default_factory=Calibrated)
    right: Estimator = field(default_factory=Calibrated)
    patient: tuple[SideName, ...] = ()

    def __post_init__(self) -> None:
        for name in ("slack", "idle_timeout"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}, but must not be negative")
        for name in ("batch_rows", "max_growth"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}, but must be at least 1")

    @classmethod
    def of(
        cls,
        options: AppConfig,
        upper: int,
        propagated: Iterable[SideName] = (),
        disorder: Mapping[SideName, int] | None = None,
        rescued: Iterable[SideName] = (),
    ) -> PacingConfig:
        """Pacing by an application's options.

        `propagated` inputs carry an upstream join's watermarks; `disorder` says how far records may be behind
        earlier ones, of inputs for which that is declared.
        Late rows of `rescued` inputs find their partners in the log: a daring stream time costs them
        lookups, not matches, and saves most of the delay (bench/paper: the same matches in minutes
        instead of an hour).
        """
        make = Ascending if options.stream_time == "ascending" else Calibrated
        daring = set(rescued)

        def estimated(side: SideName) -> Estimator:
            return make(options.percentile or (RESCUED_PERCENTILE if side in daring else PERCENTILE))

        known: dict[SideName, Estimator] = {name: Ordered(most) for name, most in (disorder or {}).items()}
        known |= dict.fromkeys(propagated, Propagated())
        return cls(
            upper,
            options.slack,
            options.idle_timeout,
            options.batch_rows,
            left=known.get("left") or estimated("left"),
            right=known.get("right") or estimated("right"),
        )


class SideStatus(StrEnum):
    """What an input is doing after a decision."""

    RUNNING = "running"
    PAUSED = "paused"
    WAITING = "waiting"
    IDLE = "idle"
    ENDED = "ended"


@dataclass(frozen=True)
class Admission:
    """What was admitted of one input: the chunks after `after`, up to and including `upto`."""

    after: Position
    upto: Position
    chunks: int
    rows: int
    stream_time: int
    status: SideStatus


@dataclass(frozen=True)
class Pause:
    """Why an input that has chunks is not read.

    Parameters
    ----------
    side
        The input that is paused.
    ahead
        How many microseconds it is beyond where the other one would have it; None while the other has no
        stream time at all.
    other
        What the other input is doing.
    """

    side: SideName
    ahead: int | None
    other: SideStatus

    def describe(self) -> str:
        """One line for people."""
        other = "right" if self.side == "left" else "left"
        far = "" if self.ahead is None else f" by {self.ahead / 1_000_000:.1f} s"
        why = f"{other} has nothing to read" if self.other is SideStatus.WAITING else f"{other} catches up"
        return f"{self.side} is paused: ahead of {other}{far}; {why}"


@dataclass(frozen=True)
class Decision:
    """The next offset and what lies between it and the one before.

    Parameters
    ----------
    offset
        The next offset; the same object as before when there is nothing to do.
    left, right
        What was admitted, with the stream times after it.
    pause
        Why an input with chunks was left unread, if one was.
    limited
        Whether the row budget ended the micro-batch; there is more to admit at once.
    """

    offset: Offset
    left: Admission
    right: Admission
    pause: Pause | None
    limited: bool

    @property
    def rows(self) -> int:
        """Rows admitted of both inputs."""
        return self.left.rows + self.right.rows


def next_offset(
    offset: Offset,
    left: Iterable[ChunkTimes],
    right: Iterable[ChunkTimes],
    config: PacingConfig,
    now: int,
    *,
    draining: bool = False,
    watching_since: int = MIN_TIME,
) -> Decision:
    """Decide what to admit next.

    Parameters
    ----------
    offset
        Where the join stands.
    left, right
        Chunk records in order, from just after `offset.side(...).needed`; read only as far as needed, so
        they may be generators over a long backlog.
    config
        How to pace.
    now
        The wall clock, in microseconds.
    draining
        The records given are all there will ever be: an input that is used up holds nothing back, and once
        both are, both stream times become `MAX_TIME`.
    watching_since
        When this process began to look at the inputs. Silence is not counted from before, so that after an
        outage an input is not taken for idle while its writer is still starting.
    """
    sides = _Sides(
        _Side("left", offset.left, config.left, left, "left" in config.patient),
        _Side("right", offset.right, config.right, right, "right" in config.patient),
        config,
        offset.drained,
    )
    budget = config.batch_rows * offset.growth
    quiet = now - config.idle_timeout
    rows = 0
    limited = False
    while True:
        sides.follow(draining, quiet, watching_since)
        side = sides.choose()
        if side is None:
            break
        chunk = side.peek()
        assert chunk is not None
        if rows and rows + chunk.rows > budget:
            limited = True
            break
        rows += chunk.rows
        side.admit(now)
    drained = offset.drained
    if draining and sides.left.peek() is None and sides.right.peek() is None:
        drained = True
        sides.left.time = sides.right.time = MAX_TIME
    growth = min(offset.growth * 2, config.max_growth) if limited else max(offset.growth // 2, 1)
    following = Offset(sides.left.offset(), sides.right.offset(), growth, drained)
    unchanged = (
        following.left == offset.left and following.right == offset.right and drained == offset.drained
    )
    statuses = [sides.status(side, draining, quiet, watching_since) for side in (sides.left, sides.right)]
    return Decision(
        offset if unchanged else following,
        sides.left.admission(offset.left.position, statuses[0]),
        sides.right.admission(offset.right.position, statuses[1]),
        sides.pause(statuses),
        limited,
    )


class _Side:
    """One input while a decision is being made."""

    def __init__(
        self,
        name: SideName,
        offset: SideOffset,
        estimator: Estimator,
        records: Iterable[ChunkTimes],
        patient: bool,
    ) -> None:
        self.name = name
        self._patient = patient
        self.time = offset.stream_time
        self._before = offset
        self._position = offset.position
        self._active = offset.active
        # After an update to another kind of estimator, stream time stays until the new one is beyond it.
        snapshot = offset.estimator or {}
        same = snapshot.get("kind") == estimator.kind
        self._clock = estimator.restore(snapshot) if same else estimator.start(offset.position)
        self._chunks = 0
        self._rows = 0
        self._records = self._ordered(iter(records))
        self._next = next(self._records, None)
        while self._next is not None and self._next.position <= offset.position:
            if self._next.position > offset.needed:
                self._clock.recall(self._next)
            self._next = next(self._records, None)

    def _ordered(self, records: Iterator[ChunkTimes]) -> Iterator[ChunkTimes]:
        last: Position | None = None
        for chunk in records:
            if last is not None and chunk.position <= last:
                raise StateError(
                    f"chunk {tuple(chunk.position)} of the {self.name} input comes after {tuple(last)}",
                    where="pacing",
                    hint="give chunk records in the order of commits and chunks, each once",
                )
            last = chunk.position
            yield chunk

    @property
    def frontier(self) -> int:
        """How far it has come: beyond its stream time by as much as its rows may be late."""
        return max(self.time, self._clock.frontier)

    def peek(self) -> ChunkTimes | None:
        """The next chunk that could be admitted."""
        return self._next

    def admit(self, now: int) -> None:
        """Take the next chunk."""
        chunk = self._next
        assert chunk is not None
        self._clock.observe(chunk)
        self.time = max(self.time, self._clock.stream_time)
        self._position = chunk.position
        self._chunks += 1
        self._rows += chunk.rows
        # A chunk without a single event time says nothing about time: it must not hold back the other
        # input for as long as such chunks keep coming. One with a watermark does.
        if chunk.timed or chunk.watermark is not None:
            self._active = now
        self._next = next(self._records, None)

    def silent(self, draining: bool, quiet: int, watching_since: int) -> bool:
        """Whether there is nothing to read, and has been nothing for so long that it may never come."""
        if self._next is not None:
            return False
        return draining or (not self._patient and max(self._active, watching_since) <= quiet)

    def offset(self) -> SideOffset:
        """Where this input stands now; the same object as before when nothing was admitted or moved."""
        if not self._chunks:
            before = self._before
            if self.time == before.stream_time:
                return before
            return SideOffset(before.position, self.time, before.active, before.estimator)
        return SideOffset(self._position, self.time, self._active, self._clock.snapshot())

    def admission(self, after: Position, status: SideStatus) -> Admission:
        """What has been admitted."""
        return Admission(after, self._position, self._chunks, self._rows, self.time, status)


@dataclass
class _Sides:
    """Both inputs while a decision is being made."""

    left: _Side
    right: _Side
    config: PacingConfig
    drained: bool

    def lead(self) -> int:
        """How far the right stream time is ahead of where the left one would have it; negative if behind."""
        if self.drained or self.left.time == self.right.time == MIN_TIME:
            return 0
        return self.right.time - self.left.time - self.config.upper

    def paused(self, side: _Side) -> bool:
        """Whether a side is too far ahead. Never both, so one of two that have chunks can always go on."""
        return self.ahead(side) > self.config.slack

    def ahead(self, side: _Side) -> int:
        """How far a side is beyond where the other one would have it."""
        if side is self.right or self.drained or self.left.time == self.right.time == MIN_TIME:
            return self.lead()
        return self.left.time - self.right.frontier + min(self.config.upper, 0)

    def choose(self) -> _Side | None:
        """The side to read next: the one behind, or else the other unless it is paused."""
        behind, ahead = (self.left, self.right) if self.lead() > 0 else (self.right, self.left)
        if behind.peek() is not None:
            return behind
        return ahead if ahead.peek() is not None and not self.paused(ahead) else None

    def follow(self, draining: bool, quiet: int, watching_since: int) -> None:
        """Let the stream time of a side that is silent follow the other's, unless that is silent too."""
        left = self.left.silent(draining, quiet, watching_since)
        right = self.right.silent(draining, quiet, watching_since)
        if left and not right:
            self.left.time = max(self.left.time, shift_time(self.right.time, -self.config.upper))
        if right and not left:
            self.right.time = max(self.right.time, shift_time(self.left.time, self.config.upper))

    def status(self, side: _Side, draining: bool, quiet: int, watching_since: int) -> SideStatus:
        """What a side is doing."""
        if side.time == MAX_TIME:
            return SideStatus.ENDED
        if side.silent(draining, quiet, watching_since):
            return SideStatus.IDLE
        if side.peek() is None:
            return SideStatus.WAITING
        return SideStatus.PAUSED if self.paused(side) else SideStatus.RUNNING

    def pause(self, statuses: list[SideStatus]) -> Pause | None:
        """Why a side that has chunks was not read."""
        for side, own, other in zip((self.left, self.right), statuses, reversed(statuses), strict=True):
            if own is SideStatus.PAUSED:
                known = MIN_TIME not in (self.left.time, self.right.time)
                return Pause(side.name, self.ahead(side) if known else None, other)
        return None
