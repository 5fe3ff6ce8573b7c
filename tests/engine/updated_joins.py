"""Random joins that change while rows are in flight, and what has to come of them.

A pair is judged by the program that runs when the later one of its rows is taken in. When the match mode
changes, left rows that have a match are done; all others go on by the new one. A row comes out padded if the
program that runs when its time is up says so, and it has had no match.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from braid.core.side import Side
from braid.core.times import MIN_TIME, SECOND
from braid.kernels.join.operator import JoinOperator
from braid.kernels.join.spec import JoinSpec, JoinType, MatchMode
from braid.kernels.step import Step
from braid.log.shared import reader
from tests.engine.random_joins import RANKS, START, Pair, RandomJoin, Row


@dataclass(frozen=True)
class Version:
    """What a join was, or is.

    Parameters
    ----------
    spec
        The join itself.
    modulus
        Keys are equal if they are so modulo this.
    settled
        Whether left rows with a match were done when it began.
    """

    spec: JoinSpec
    modulus: int = 1000
    settled: bool = False


@dataclass
class UpdatedJoin(RandomJoin):
    """A random join that is changed now and then, with a record of who has decided on what.

    Parameters
    ----------
    versions
        What it was, and is.
    steps
        All steps, with the version that has taken them.
    taken
        In which step rows were taken in.
    """

    versions: list[Version] = field(default_factory=list)
    steps: list[tuple[int, Step]] = field(default_factory=list)
    taken: dict[Side, dict[int, int]] = field(default_factory=lambda: {side: {} for side in Side})

    def __post_init__(self) -> None:
        super().__post_init__()
        assert isinstance(self.spec, JoinSpec)
        self.spec = replace(self.spec, keys=1)
        self.broadcast = None
        self.versions = [Version(self.spec)]
        # No input is ever taken for idle, so that no row is late but by a change of the window.
        self.options = self.options.model_copy(update={"idle_timeout": 10**15})

    def take(self, step: Step) -> None:
        """Take note of who takes rows in."""
        super().take(step)
        self.note(self._local.root, step)

    def note(self, root: str, step: Step) -> None:
        """Take note of a step; one that settles is the last of its version."""
        for side in Side:
            found = reader(root, side.value)
            for block in step.blocks[side]:
                rows = found.read(*block, columns=("id",))["id"].to_pylist()
                self.taken[side].update(dict.fromkeys(rows, len(self.steps)))
        self.steps.append((len(self.versions) - 1, step))
        if step.settles:
            self.versions.append(replace(self.versions[-1], settled=True))

    def update(self, spec: JoinSpec, shards: int) -> None:
        """Go on as another join, in another process, with other shards."""
        assert isinstance(self.spec, JoinSpec)
        if self._local.offset is not None:
            settles = (spec.match, spec.consume) != (self.spec.match, self.spec.consume)
            self.take(self._local.seal(str(len(self.versions)), settles=settles))
        self.spec = spec
        self.versions.append(replace(self.versions[-1], spec=spec, settled=False))
        self.rescale(shards)
        operator = JoinOperator(spec, self.broadcast)
        self._local = replace(self._local, operator=operator, admission=self.admission())

    # -- what is expected -------------------------------------------------------------------------

    def taken_by(self, side: Side, row: int) -> int:
        """The version that has taken a row in."""
        return self.steps[self.taken[side][row]][0]

    def judge(self, left: int, right: int) -> int:
        """The version that judges a pair."""
        return max(self.taken_by(Side.LEFT, left), self.taken_by(Side.RIGHT, right))

    def decided(self, side: Side, row: Row) -> int:
        """The version that runs when the time of a row is up."""
        return self.steps[self.decided_in(side, row)][0]

    def decided_in(self, side: Side, row: Row) -> int:
        """The step in which the time of a row is up."""
        for number in range(self.taken[side][row.id], len(self.steps)):
            below = self._floors[side][number] > (START + row.time) * SECOND
            if below and not (side is Side.RIGHT and self._is_held(row.id, number)):
                return number
        raise AssertionError("the drain decides every row")

    def _is_held(self, right: int, number: int) -> bool:
        """Whether a left row waits, after a step, for a better one than a right row that may be padded."""
        version = self.steps[number][0]
        spec = self.versions[version].spec
        mode = spec.match
        if not (mode.waits and spec.type.pads(Side.RIGHT)):
            return False
        for left in self.rows[Side.LEFT]:
            rights = self._candidates[mode].get(left.id, [])
            taken = self.taken[Side.LEFT].get(left.id, number + 1)
            if right not in rights or taken > number or self.decided_in(Side.LEFT, left) <= number:
                continue
            for begin, last, found in self._periods(left):
                there = [one for one in found if self.taken[Side.RIGHT][one] <= number]
                if begin <= version <= last and there[:1] == [right]:
                    return True
                if found:
                    break  # a row with a match is done when the mode changes
        return False

    @cached_property
    def _floors(self) -> dict[Side, list[int]]:
        """Event times below which rows are decided, after each step; a drain begins anew."""
        found: dict[Side, list[int]] = {side: [] for side in Side}
        floor, epoch = dict.fromkeys(Side, MIN_TIME), 0
        for version, step in self.steps:
            if step.epoch != epoch:
                floor, epoch = dict.fromkeys(Side, MIN_TIME), step.epoch
            spec = self.versions[version].spec
            left = step.times[Side.RIGHT] - spec.upper
            right = step.times[Side.LEFT] + spec.lower
            if spec.match.waits and spec.type.pads(Side.RIGHT):
                right = min(right, left + spec.lower)
            for side, at in ((Side.LEFT, left), (Side.RIGHT, right)):
                floor[side] = max(floor[side], at)
                found[side].append(floor[side])
        return found

    def expected(self) -> Counter[Pair]:
        """All that comes out, given that only type and match mode have changed: candidates are DuckDB's."""
        found = [pair for row in self.rows[Side.LEFT] for pair in self._pairs(row)]
        return Counter(found) + self.padded(found)

    def padded(self, pairs: Iterable[Pair]) -> Counter[Pair]:
        """Rows that come out padded, given the pairs."""
        out: Counter[Pair] = Counter()
        for side in Side:
            had = {pair[side is Side.RIGHT] for pair in pairs}
            for row in self.rows[side]:
                if row.id not in had and self.versions[self.decided(side, row)].spec.type.pads(side):
                    out[(row.id, None) if side is Side.LEFT else (None, row.id)] += 1
        return out

    def fitting(self, version: Version, mode: MatchMode = MatchMode.ALL) -> list[tuple[int, int]]:
        """DuckDB's matches by a version, in the order in which a match mode prefers them."""
        spec, modulus = version.spec, version.modulus
        asked = (spec.lower, spec.upper, modulus, mode)
        if asked not in self._answers:
            near = f"BETWEEN l.time + {spec.lower // SECOND} AND l.time + {spec.upper // SECOND}"
            self._answers[asked] = self.ask(
                f"SELECT l.id, r.id FROM l JOIN r ON l.key % {modulus} = r.key % {modulus} "
                f"AND r.time {near} ORDER BY {RANKS.get(mode, 'r.id')}"
            )
        return self._answers[asked]

    @cached_property
    def _answers(self) -> dict[tuple[object, ...], list[tuple[int, int]]]:
        return {}

    @cached_property
    def _candidates(self) -> dict[MatchMode, dict[int, list[int]]]:
        """Right rows in reach of each left row, in the order in which each match mode prefers them."""
        found: dict[MatchMode, dict[int, list[int]]] = {}
        for mode in {version.spec.match for version in self.versions}:
            rights: dict[int, list[int]] = found.setdefault(mode, {})
            for left, right in self.fitting(self.versions[0], mode):
                rights.setdefault(left, []).append(right)
        return found

    def _pairs(self, row: Row) -> Iterable[Pair]:
        """The matches of a left row."""
        for begin, _, found in self._periods(row):
            for right in found if self.versions[begin].spec.match is MatchMode.ALL else found[:1]:
                yield row.id, right
            if found:
                return  # a row with a match is done when the mode changes

    def _periods(self, row: Row) -> Iterable[tuple[int, int, list[int]]]:
        """The first and last version of each time for which a left row waits in one mode, and its matches."""
        begin, end = self.taken_by(Side.LEFT, row.id), self.decided(Side.LEFT, row)
        while begin <= end:
            mode, last = self.versions[begin].spec.match, begin
            while last < end and self._goes_on(last + 1, mode):
                last += 1
            yield (
                begin,
                last,
                [
                    right
                    for right in self._candidates[mode].get(row.id, [])
                    if begin <= self.judge(row.id, right) <= last
                ],
            )
            begin = last + 1

    def _goes_on(self, number: int, mode: MatchMode) -> bool:
        """Whether left rows with a match go on when a version begins."""
        version = self.versions[number]
        return not version.settled and version.spec.match is mode

    # -- what is expected of joins with MATCH ALL ----------------------------------------------------

    def judged(self) -> set[tuple[int, int]]:
        """Pairs that their judges take for matches."""
        versions = enumerate(self.versions)
        return {p for number, one in versions for p in self.fitting(one) if self.judge(*p) == number}

    def too_late(self, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        """Pairs that are lost: when the later row comes, the other one is decided, and may have come out.

        That is where the program of the later row pads such rows, or where one that did so has handed over
        its state since the other one was taken in.
        """
        rows = {side: {row.id: row for row in self.rows[side]} for side in Side}
        found = set()
        for left, right in pairs:
            ids = {Side.LEFT: left, Side.RIGHT: right}
            side = max(Side, key=lambda one: self.taken[one][ids[one]])
            other = side.other
            before, now = self.taken[other][ids[other]], self.taken[side][ids[side]]
            if before == now or self.decided_in(other, rows[other][ids[other]]) >= now:
                continue
            spec = self.versions[self.steps[now][0]].spec
            if side not in spec.rescued or before <= self._handed_over[other][now]:
                found.add((left, right))
        return found

    @cached_property
    def _handed_over(self) -> dict[Side, list[int]]:
        """Before each step: the last one of which rows of a side may have come out by another program."""
        found: dict[Side, list[int]] = {side: [] for side in Side}
        last, modulus = dict.fromkeys(Side, -1), self.versions[0].modulus
        begun = {side: min(self.taken[side].values(), default=len(self.steps)) for side in Side}
        for number, (version, step) in enumerate(self.steps):
            program = self.versions[version]
            if program.modulus != modulus:
                # Of rows that were sliced again, what is true of some is taken to be true of all.
                last = {side: number - 1 if at >= 0 else at for side, at in last.items()}
                begun = {side: min(at, number) for side, at in begun.items()}
                modulus = program.modulus
            for side in Side:
                found[side].append(last[side])
                if step.seals and side.other not in program.spec.rescued and begun[side] <= number:
                    last[side] = number
        return found

    def check_judged(self) -> None:
        """All pairs come out that their judges take for matches, but for those that are too late."""
        pairs = self.judged()
        lost = self.too_late(pairs)
        expected = Counter[Pair](pairs - lost)
        assert Counter(self.emitted) == expected + self.padded(expected)
        assert self.counts.lost_matches == len(lost)

    # -- what must hold whatever has changed -------------------------------------------------------

    def check_sound(self) -> None:
        """Nothing twice, padded and matched never both, every pair fits; and padded sides are whole."""
        emitted = Counter(self.emitted)
        assert max(emitted.values(), default=1) == 1
        pairs = {pair for pair in emitted if None not in pair}
        fitting: set[Pair] = set()
        for version in self.versions:
            fitting.update(self.fitting(version))
        assert pairs <= fitting
        for side, position in ((Side.LEFT, 0), (Side.RIGHT, 1)):
            padded = {pair[position] for pair in emitted if pair[1 - position] is None}
            partnered = {pair[position] for pair in pairs}
            assert not padded & partnered
            if all(version.spec.type.pads(side) for version in self.versions):
                assert padded | partnered == {row.id for row in self.rows[side]}


def other(
    spec: JoinSpec, rng: random.Random, *, modes: bool = True, windows: bool = False, waits: bool = False
) -> JoinSpec:
    """A change of the type, and of what else may change; with `waits`, of CONSUME, too."""
    if rng.random() < 0.7:
        spec = replace(spec, type=rng.choice(list(JoinType)))
    if modes and rng.random() < 0.7:
        spec = replace(spec, match=rng.choice([MatchMode.ALL, *MatchMode]), consume=False)
    if waits and spec.match is MatchMode.FIRST:
        spec = replace(spec, consume=rng.random() < 0.6)
    if waits and rng.random() < 0.5:
        spec = replace(spec, pad_after=rng.choice([None, 0, 3 * SECOND, 30 * SECOND]))
    if windows and rng.random() < 0.5:
        lower = rng.randint(-60, 20) * SECOND
        spec = replace(spec, lower=lower, upper=lower + rng.randint(0, 80) * SECOND)
    return spec
