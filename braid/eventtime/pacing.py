"""Pacing: which chunks of its inputs an operator takes next, so that their stream times stay together.

Everything here is a pure function of chunk records, an offset and a wall-clock time that is passed in
(section 5.2 of the paper): the same arguments give the same decision, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from braid.core.config import AppConfig
from braid.core.errors import ConfigError, StateError
from braid.core.positions import Position
from braid.core.times import MAX_TIME, MIN_TIME, MINUTE, is_known, iso_time, shift_time
from braid.eventtime.ascending import Ascending
from braid.eventtime.calibrated import Calibrated
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.estimator import Estimator
from braid.eventtime.offset import InputOffset, Offset
from braid.eventtime.ordered import Ordered
from braid.eventtime.propagated import Propagated

PERCENTILE = 1.0
RESCUED_PERCENTILE = 5.0
"""Shares of rows, in percent, that may arrive behind stream time, where no option says otherwise."""
_CATCHING_UP = 2
"""How much faster than the other input's a silent input's stream time goes until it is level with it."""


@dataclass(frozen=True)
class PacingConfig:
    """How the inputs of an operator are paced.

    Parameters
    ----------
    estimators
        The inputs by name, each with its estimator of stream time.
    upper
        Of two inputs whose rows meet in a window, its upper bound: the second input (a join's right one) is
        kept at the first one's stream time plus this. Of any sign, and enough: where the window begins does
        not matter for pacing. None for inputs that need not wait for each other.
    slack
        How far the second input may be ahead of that before it is paused. The first one may be ahead by this
        and by a positive `upper`: its rows wait for later rows of the second anyway, but find earlier ones at
        once. For it counts how far the second input has come, not its stream time: rows of the first would
        have to wait for as long as those of the second may be late, and their matches with them.
    idle_timeout
        Silence after which an input no longer holds back the other one.
    waits
        Whether it goes on holding it back, however long it is silent.
    batch_rows
        Rows admitted at once when there is no backlog.
    max_growth
        By how much `batch_rows` may be exceeded under backlog.
    patient
        Inputs that are waited for however long they are silent: rows are known to be on their way.
    """

    estimators: Mapping[str, Estimator]
    upper: int | None = None
    slack: int = MINUTE
    idle_timeout: int = 30_000_000
    batch_rows: int = 1_000_000
    max_growth: int = 8
    patient: tuple[str, ...] = ()
    waits: bool = False

    def __post_init__(self) -> None:
        if self.upper is not None and len(self.estimators) != 2:
            raise ConfigError(f"a window is between two inputs, not {len(self.estimators)}")
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
        names: Iterable[str],
        upper: int | None,
        propagated: Iterable[str] = (),
        disorder: Mapping[str, int] | None = None,
        rescued: Iterable[str] = (),
    ) -> PacingConfig:
        """Pacing by an application's options.

        `propagated` inputs carry an upstream join's watermarks; `disorder` says how far records may be behind
        earlier ones, of inputs for which that is declared.
        Late rows of `rescued` inputs find their partners in the log: a daring stream time costs them
        lookups, not matches, and saves most of the delay (bench/paper: the same matches in minutes
        instead of an hour).
        """
        make = Ascending if options.stream_time == "ascending" else Calibrated
        upstream, declared, daring = set(propagated), disorder or {}, set(rescued)

        def estimator(name: str) -> Estimator:
            if name in upstream:
                return Propagated()
            if name in declared:
                return Ordered(declared[name])
            return make(options.percentile or (RESCUED_PERCENTILE if name in daring else PERCENTILE))

        return cls(
            {str(name): estimator(name) for name in names},
            upper,
            options.slack,
            options.idle_timeout,
            options.batch_rows,
            waits=options.idle == "wait",
        )


class InputStatus(StrEnum):
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
    status: InputStatus


@dataclass(frozen=True)
class Pause:
    """Why an input that has chunks is not read.

    Parameters
    ----------
    input, behind
        The input that is paused, and the one that it is ahead of.
    ahead
        How many microseconds it is beyond where the other one would have it; None while the other has no
        stream time at all.
    other
        What the other input is doing.
    """

    input: str
    behind: str
    ahead: int | None
    other: InputStatus

    def describe(self) -> str:
        """One line for people."""
        other = self.behind
        far = "" if self.ahead is None else f" by {self.ahead / 1_000_000:.1f} s"
        why = {
            InputStatus.WAITING: f"{other} has nothing to read",
            InputStatus.IDLE: f"{other} is silent, and idle = 'wait'",
        }.get(self.other, f"{other} catches up")
        return f"{self.input} is paused: ahead of {other}{far}; {why}"


@dataclass(frozen=True)
class Silence:
    """An input that has had nothing to read for longer than `idle_timeout`, while another one goes on.

    Parameters
    ----------
    input
        Its name.
    since
        The wall clock when rows with event times were last admitted; or when it was first looked at.
    waited_for
        Whether rows of the other input wait for it however long that takes.
    """

    input: str
    since: int
    waited_for: bool

    def describe(self) -> str:
        """One line for people."""
        what = (
            "all rows wait for it" if self.waited_for else "rows wait until the other input has passed them"
        )
        return f"{self.input} has been silent since {iso_time(self.since)}: {what}"


@dataclass(frozen=True)
class Decision:
    """The next offset and what lies between it and the one before.

    Parameters
    ----------
    offset
        The next offset; the same object as before when there is nothing to do.
    inputs
        What was admitted of each input, with the stream times after it.
    pause
        Why an input with chunks was left unread, if one was.
    limited
        Whether the row budget ended the micro-batch; there is more to admit at once.
    silence
        Which input is silent while the other one goes on, if one is.
    """

    offset: Offset
    inputs: Mapping[str, Admission]
    pause: Pause | None
    limited: bool
    silence: Silence | None = None

    @property
    def rows(self) -> int:
        """Rows admitted of all inputs."""
        return sum(admission.rows for admission in self.inputs.values())


def next_offset(
    offset: Offset,
    records: Mapping[str, Iterable[ChunkTimes]],
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
        Where the operator stands.
    records
        Chunk records of each input in order, from just after its `needed`; read only as far as needed, so
        they may be generators over a long backlog.
    config
        How to pace.
    now
        The wall clock, in microseconds.
    draining
        The records given are all there will ever be: an input that is used up holds nothing back, and once
        all are, all stream times become `MAX_TIME`.
    watching_since
        When this process began to look at the inputs. Silence is not counted from before, so that after an
        outage an input is not taken for idle while its writer is still starting.
    """
    inputs = [
        _Input(name, offset.inputs[name], estimator, records[name], name in config.patient)
        for name, estimator in config.estimators.items()
    ]
    silence = _Listening(draining, now - config.idle_timeout, watching_since)
    pace = _Independent(inputs) if config.upper is None else _Window(inputs, config, offset, silence)
    budget = config.batch_rows * offset.growth
    rows = 0
    limited = False
    while True:
        pace.follow()
        chosen = pace.choose()
        if chosen is None:
            break
        chunk = chosen.peek()
        assert chunk is not None
        if rows and rows + chunk.rows > budget:
            limited = True
            break
        rows += chunk.rows
        chosen.admit(now)
    drained = offset.drained
    if draining and all(one.peek() is None for one in inputs):
        drained = True
        for one in inputs:
            one.time = MAX_TIME
    growth = min(offset.growth * 2, config.max_growth) if limited else max(offset.growth // 2, 1)
    following = Offset({one.name: one.offset() for one in inputs}, growth, drained)
    unchanged = following.inputs == offset.inputs and drained == offset.drained
    statuses = {one.name: _status(one, pace, silence) for one in inputs}
    return Decision(
        offset if unchanged else following,
        {one.name: one.admission(statuses[one.name]) for one in inputs},
        pace.pause(statuses),
        limited,
        pace.silence(),
    )


@dataclass(frozen=True)
class _Listening:
    """When an input that has nothing to read counts as silent; see `next_offset`."""

    draining: bool
    quiet: int
    watching_since: int


class _Input:
    """One input while a decision is being made."""

    def __init__(
        self,
        name: str,
        offset: InputOffset,
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
        # With another kind of estimator than before, stream time stays until the new one has passed it.
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

    @property
    def active(self) -> int:
        """The wall clock when rows with event times were last admitted."""
        return self._active

    def silent(self, silence: _Listening) -> bool:
        """Whether there is nothing to read, and has been nothing for so long that it may never come."""
        if self._next is not None:
            return False
        since = max(self._active, silence.watching_since)
        return silence.draining or (not self._patient and since <= silence.quiet)

    def offset(self) -> InputOffset:
        """Where this input stands now; the same object as before when nothing was admitted or moved."""
        if not self._chunks:
            before = self._before
            if self.time == before.stream_time:
                return before
            return InputOffset(before.position, self.time, before.active, before.estimator)
        return InputOffset(self._position, self.time, self._active, self._clock.snapshot())

    def admission(self, status: InputStatus) -> Admission:
        """What has been admitted."""
        return Admission(self._before.position, self._position, self._chunks, self._rows, self.time, status)


class _Independent:
    """Inputs that do not wait for each other: the one that is furthest behind is read next."""

    def __init__(self, inputs: Sequence[_Input]) -> None:
        self._inputs = inputs

    def choose(self) -> _Input | None:
        """The input to read next."""
        return min((one for one in self._inputs if one.peek() is not None), key=_by_time, default=None)

    def follow(self) -> None:
        """No stream time depends on another one."""

    def paused(self, one: _Input) -> bool:
        """None is."""
        return False

    def pause(self, statuses: Mapping[str, InputStatus]) -> Pause | None:
        """Nothing to explain."""
        return None

    def silence(self) -> Silence | None:
        """Nobody waits for it."""
        return None


class _Window:
    """Two inputs whose rows meet in a window: the first, and the second up to `upper` after it."""

    def __init__(
        self, inputs: Sequence[_Input], config: PacingConfig, offset: Offset, silence: _Listening
    ) -> None:
        assert config.upper is not None
        self._first, self._second = inputs
        self._upper = config.upper
        self._slack = config.slack
        self._waits = config.waits
        self._drained = offset.drained
        self._silence = silence
        self._seen = {one.name: one.time for one in inputs}

    def choose(self) -> _Input | None:
        """The input to read next: the one behind, or else the other unless it is paused."""
        pair = (self._first, self._second)
        behind, ahead = pair if self._lead() > 0 else reversed(pair)
        if behind.peek() is not None:
            return behind
        return ahead if ahead.peek() is not None and not self.paused(ahead) else None

    def follow(self) -> None:
        """Move the stream time of an input that is silent along with the other's, unless that is silent too.

        Of one that has ended, nothing comes any more: rows that wait for it are decided at once. One that is
        only silent may come back with everything, so rows wait until the other input has itself passed their
        window, at least: see `_level`. And it gets there by degrees, so that a silence which is hardly longer
        than the timeout costs hardly a match.
        """
        one = self._alone()
        if one is not None:
            other = self._other(one)
            if self._silence.draining:
                apart = -self._upper if one is self._first else self._upper
                one.time = max(one.time, shift_time(other.time, apart))
            elif not self._waits:
                target, before = self._level(one), self._seen[other.name]
                if is_known(one.time):
                    moved = other.time - before if is_known(before) else 0
                    target = min(target, shift_time(one.time, _CATCHING_UP * moved))
                one.time = max(one.time, target)
        self._seen = {one.name: one.time for one in (self._first, self._second)}

    def paused(self, one: _Input) -> bool:
        """Whether an input is too far ahead. Never both, so one of two that have chunks can always go on."""
        held = self._waits and not self._silence.draining
        return (held or not self._other(one).silent(self._silence)) and self._ahead(one) > self._slack

    def silence(self) -> Silence | None:
        """The input that is silent while the other one goes on; not in a drain, where that is its end."""
        one = None if self._silence.draining else self._alone()
        return None if one is None else Silence(one.name, one.active, self._waits)

    def _alone(self) -> _Input | None:
        """The input that is silent, if one is and the other is not."""
        first, second = self._first, self._second
        quiet = first.silent(self._silence), second.silent(self._silence)
        return {(True, False): first, (False, True): second}.get(quiet)

    def _other(self, one: _Input) -> _Input:
        return self._second if one is self._first else self._first

    def _level(self, one: _Input) -> int:
        """The latest stream time of a silent input at which the other one's rows wait for what they must.

        The second input's lets rows of the first go that are `upper` before it: they must wait until the
        first has passed both them and their window. Likewise the other way round, where without knowing the
        window's lower bound its whole width will do.
        """
        if one is self._second:
            return shift_time(self._first.time, min(self._upper, 0))
        return shift_time(self._second.time, -max(self._upper, 0))

    def pause(self, statuses: Mapping[str, InputStatus]) -> Pause | None:
        """Why an input that has chunks was not read."""
        for one, other in ((self._first, self._second), (self._second, self._first)):
            if statuses[one.name] is InputStatus.PAUSED:
                known = MIN_TIME not in (one.time, other.time)
                ahead = self._ahead(one) if known else None
                return Pause(one.name, other.name, ahead, statuses[other.name])
        return None

    def _lead(self) -> int:
        """How far the second stream time is ahead of where the first would have it; negative if behind."""
        if self._drained or self._first.time == self._second.time == MIN_TIME:
            return 0
        return self._second.time - self._first.time - self._upper

    def _ahead(self, one: _Input) -> int:
        """How far an input is beyond where the other one would have it."""
        if one is self._second or self._drained or self._first.time == self._second.time == MIN_TIME:
            return self._lead()
        return self._first.time - self._second.frontier + min(self._upper, 0)


def _by_time(one: _Input) -> int:
    return one.time


def _status(one: _Input, pace: _Independent | _Window, silence: _Listening) -> InputStatus:
    """What an input is doing."""
    if one.time == MAX_TIME:
        return InputStatus.ENDED
    if one.silent(silence):
        return InputStatus.IDLE
    if one.peek() is None:
        return InputStatus.WAITING
    return InputStatus.PAUSED if pace.paused(one) else InputStatus.RUNNING
