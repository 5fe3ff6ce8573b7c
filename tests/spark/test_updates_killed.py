"""Programs change, and the process is killed at any step of that: nothing is lost, and nothing comes twice.

What plans, checks and carries out updates is the real thing, down to generations, savepoints and inputs that
are sliced again; a few lines stand for Spark, see `tests.spark.life`, and for slicers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from unittest.mock import Mock

import pytest

from braid import api
from braid.core.columns import TIME
from braid.core.config import AppConfig
from braid.core.errors import RunError
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import SECOND
from braid.engine.slicing_again import Outcome, Part, SlicingAgain
from braid.eventtime.arrival import ChunkOrder
from braid.home.control import SinkStart
from braid.home.files import write_json
from braid.home.paths import AppHome
from braid.home.sliced_again import SlicedPart
from braid.kernels.join.spec import JoinSpec, JoinType, MatchMode
from braid.kernels.step import Step
from braid.log.category import Category
from braid.log.records import FileEntry
from braid.log.writer import write_file
from braid.plan.physical.layout import Layout, layout
from braid.plan.serialise import dumps, loads, plan_to_json
from braid.plan.stages.base import Plan, Stage
from braid.spark import updating
from braid.spark.generations import forget_generations
from braid.spark.last_run import ran_plan
from braid.spark.updating import Consent, Update, UpdateSteps
from tests.engine.random_joins import CHUNK_ROWS, SCHEMA, START, Row
from tests.engine.updated_joins import UpdatedJoin, Version, other
from tests.home.killed import Killed, Mortal
from tests.seeds import seeds
from tests.spark.life import LAYOUTS, STAGE, Life, Query

PROGRAM = """
  CREATE APPLICATION app;
  CREATE INPUT TABLE l (id bigint, t timestamp, k bigint) FROM SCRIBE("l") TIME t;
  CREATE INPUT TABLE r (id bigint, t timestamp, k bigint) FROM SCRIBE("r") TIME t;
  CREATE TABLE j AS SELECT l.id AS lid, r.id AS rid FROM l {type} JOIN r
    ON l.k % {modulus} = r.k % {modulus} AND r.t BETWEEN l.t {lower} AND l.t {upper}
    {match} {unmatched}
    STORAGE SCRIBE(category = "out");
"""
AGREED = Consent(replay=True, discard=True)
PART_ROWS = 25


@lru_cache(None)
def compiled(version: Version) -> Plan:
    """The plan of a version."""
    spec = version.spec

    def plus(microseconds: int) -> str:
        return f"{'+' if microseconds >= 0 else '-'} INTERVAL '{abs(microseconds) // SECOND} seconds'"

    text = PROGRAM.format(
        type=spec.type.name,
        modulus=version.modulus,
        lower=plus(spec.lower),
        upper=plus(spec.upper),
        match=f"MATCH {spec.match.name}{' CONSUME' if spec.consume else ''}",
        unmatched=""
        if spec.pad_after is None or spec.type is JoinType.INNER
        else f"EMIT UNMATCHED AFTER INTERVAL '{spec.pad_after // SECOND} seconds'",
    )
    return api.compile_text(text).plan


@dataclass
class Slicer:
    """Slices what has arrived of one side; its micro-batches become commits."""

    app: AppHome
    join: UpdatedJoin
    side: Side
    arrived: list[Row] = field(default_factory=list)
    read: int = 0
    done: int = -1

    def __post_init__(self) -> None:
        self.name = f"{STAGE}.{self.side}"
        SinkStart(target=self.side.value, first_commit=0).write(self.app.control_file(self.name, "sink"))

    @property
    def category(self) -> Category:
        return self.app.home.log().open(self.side.value)

    def micro_batch(self, modulus: int, now: int) -> None:
        """Slice what has arrived since."""
        start = SinkStart.read(self.app.control_file(self.name, "sink"))
        assert start is not None
        rows = self.arrived[self.read :]
        if rows:
            entry = self._write(self.category, rows, modulus)
            assert self.category.publish(start.first_commit + self.done + 1, [entry], wall_time=now)
            self.read, self.done = len(self.arrived), self.done + 1

    def slice_again(self, update: str, modulus: int, since: int | None) -> Outcome:
        """Slice what was sliced so far."""
        draft = self.app.home.log().draft(self.side.value, SCHEMA, shards=2, time_columns=(TIME,))

        def store(part: Part) -> SlicedPart:
            rows = self.arrived[part.start.commit : part.end.commit]
            entry = self._write(draft, rows, modulus)
            return SlicedPart(
                start=part.start,
                end=part.end,
                rows=len(rows),
                gone=0,
                files=(entry.to_json(),),
                watermarks={},
            )

        again = SlicingAgain(
            self.app, self.name, update, self.done, self.category, draft.settings, ChunkOrder.MEDIAN, since
        )
        return again.run(self, store, lambda progress: None)

    def _write(self, category: Category, rows: list[Row], modulus: int) -> FileEntry:
        batches = self.join.sliced(self.side, rows, modulus).to_batches()
        return write_file(category, self.name, batches, CHUNK_ROWS)

    @property
    def end(self) -> Position:
        return Position(self.read, 0)

    def part(self, start: Position, end: Position | None = None) -> Part:
        after = end or Position(min(start.commit + PART_ROWS, self.read), 0)
        return Part(start, after, after, ("rows",) if after > start else ())


@dataclass(frozen=True)
class Launching:
    """Starts the stages of a plan."""

    life: UpdatedLife
    plan: Plan
    options: AppConfig = field(default_factory=AppConfig)
    cadence_file: str | None = None
    built: dict[str, object] = field(default_factory=dict)

    def prepare(self) -> None:
        """Nothing is to be prepared."""

    def start(self, stage: Stage, *, available_now: bool = False) -> Query:
        """Slicers have nothing under way that they could end."""
        return self.life.begin(self.plan) if stage.name == STAGE else Mock()

    def wanted(self, stage: Stage) -> Layout:
        """Any."""
        return layout(self.life.rng.choice(LAYOUTS), 1)

    def first_batch(self, stage: str) -> int:
        """Of its generation."""
        found = self.life.app.generation(stage)
        return 0 if found is None else found.first_batch


class UpdatedLife(Life):
    """An application of one join, whose program changes."""

    join: UpdatedJoin

    def __init__(self, root: Path, join: UpdatedJoin, rng: random.Random) -> None:
        super().__init__(root, join)
        self.rng = rng
        self.up = False
        self._slicers = {f"{STAGE}.{side}": Slicer(self.app, join, side) for side in Side}
        self._programs: dict[str, Version] = {}
        self._stored = -1

    def run(self, version: Version) -> None:
        """Start a program, as a process does that knows nothing of the one before."""
        self.up = False
        plan = compiled(version)
        for what in ("drain", "seal"):
            self.app.control_file(STAGE, what).unlink(missing_ok=True)
        launching = Launching(self, plan)
        if self.app.plan_file.exists():
            update = Update.of(self.app, ran_plan(self.app), plan)
            plan = update.found.after
            self._programs[dumps(plan)] = version
            launching = replace(launching, plan=plan)
            update.check(AGREED)
            update.carry_out(UpdateSteps(self.app, Mock(), self, launching, lambda phase: None))  # type: ignore[arg-type]
        self._programs[dumps(plan)] = version
        write_json(self.app.plan_file, plan_to_json(plan))
        self.app.updating_file.unlink(missing_ok=True)
        self.app.next_plan_file.unlink(missing_ok=True)
        forget_generations(self.app, STAGE)
        self.begin(plan)
        self.up = True

    def begin(self, plan: Plan) -> Query:
        """Start the join of a plan."""
        version = self._programs[dumps(plan)]
        last = self.join.versions[-1]
        if (version.spec, version.modulus) != (last.spec, last.modulus):
            self.join.versions.append(version)
        self.join.spec = version.spec
        self.query = Query(self.app, self.join, lambda: (START + self._now) * SECOND, self._ran)
        return self.query

    def _ran(self, batch: int, step: Step) -> None:
        """Take note of a micro-batch, which may be done more than once."""
        if batch > self._stored:
            self._stored = batch
            self.join.note(self.app.home.log_root, step)

    def _fresh(self) -> Query:
        return self.begin(ran_plan(self.app))

    def is_set(self) -> bool:
        """It is never stopped in good order."""
        return False

    @property
    def ran(self) -> Version:
        """The program that counts as the last one."""
        return self._programs[dumps(ran_plan(self.app))]

    @property
    def interrupted(self) -> Version | None:
        """The program that must be started, if an update was interrupted when it could not go back."""
        if not self.app.updating_file.exists():
            return None
        wanted = self._programs[dumps(loads(self.app.next_plan_file.read_bytes()))]
        return None if wanted == self.ran else wanted  # all was done but to clear up

    def publish(self) -> bool:
        """Let rows arrive, and be sliced if the application runs; False if there are no more."""
        if not self._ticks:
            return False
        self._now, arrived = self._ticks.pop(0)
        for slicer in self._slicers.values():
            slicer.arrived += arrived[slicer.side]
        self.slice()
        return True

    def slice(self) -> None:
        """Slice what has arrived, if the application runs."""
        if self.up:
            for slicer in self._slicers.values():
                slicer.micro_batch(self.ran.modulus, (START + self._now) * SECOND)

    def slice_again(
        self, launching: Launching, stage: Stage, update: str, *, since: int | None, progress: object
    ) -> Outcome:
        """In place of what Spark would do."""
        version = self._programs[dumps(launching.plan)]
        return self._slicers[stage.name].slice_again(update, version.modulus, since)


Change = Callable[[Version, random.Random], Version]


def changed(version: Version, rng: random.Random) -> Version:
    """Another type or match mode."""
    return replace(version, spec=other(version.spec, rng))


def changed_anyhow(version: Version, rng: random.Random) -> Version:
    """Another window, wait or CONSUME, too."""
    return replace(version, spec=other(version.spec, rng, windows=True, waits=True))


def rekeyed(version: Version, rng: random.Random) -> Version:
    """Another type or window, or other keys, for which inputs are sliced again."""
    modulus = rng.choice([version.modulus, 2, 3, 1000])
    return replace(version, spec=other(version.spec, rng, modes=False, windows=True), modulus=modulus)


def live(life: UpdatedLife, mortal: Mortal, change: Change) -> int:
    """Let rows arrive, change programs and shards at random, be killed; the number of kills."""
    rng, kills = life.rng, 0
    wanted = life.join.versions[0]
    life.run(wanted)
    while life.publish():
        try:
            with mortal.within(rng.randrange(1, 120)):
                if not life.up:
                    life.run(life.interrupted or wanted)
                for _ in range(rng.randrange(4)):
                    life.query.trigger()
                chance = rng.random()
                if chance < 0.3:
                    back = rng.random() < 0.3
                    wanted = replace(
                        rng.choice(life.join.versions) if back else change(life.ran, rng), settled=False
                    )
                    life.run(wanted)
                elif chance < 0.4:
                    life.rescale(rng.choice(LAYOUTS))
        except Killed:
            kills += 1
            life.up = False
            # The same again; what ran before, which may not be so easy any more; or something else.
            wanted = rng.choice([wanted, wanted, life.ran, change(life.ran, rng)])
            if life.interrupted is not None and life.interrupted != wanted:
                with pytest.raises(RunError, match="was interrupted"):
                    life.run(wanted)
    if not life.up:
        life.run(life.interrupted or wanted)
    life.slice()
    life.finish()
    return kills


@pytest.fixture
def mortal(monkeypatch: pytest.MonkeyPatch) -> Mortal:
    return Mortal(monkeypatch)


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slicing again is the life's own."""
    monkeypatch.setattr(
        updating,
        "slice_again",
        lambda launching, *arguments, **named: launching.life.slice_again(launching, *arguments, **named),
    )


@pytest.mark.parametrize("seed", seeds(20))
def test_types_and_modes_change_and_processes_are_killed(
    memory_path: Path, mortal: Mortal, seed: int
) -> None:
    join = UpdatedJoin(seed, span=90)
    live(UpdatedLife(memory_path, join, random.Random(seed)), mortal, changed)
    assert Counter(join.emitted) == join.expected()
    assert join.counts.lost_matches == 0


@pytest.mark.parametrize("seed", seeds(20))
def test_anything_changes_and_processes_are_killed(memory_path: Path, mortal: Mortal, seed: int) -> None:
    join = UpdatedJoin(seed, span=90, waits=seed % 2 == 0)
    live(UpdatedLife(memory_path, join, random.Random(seed)), mortal, changed_anyhow)
    join.check_sound()


@pytest.mark.parametrize("seed", seeds(20))
@pytest.mark.usefixtures("slices")
def test_keys_and_windows_change_and_processes_are_killed(
    memory_path: Path, mortal: Mortal, seed: int
) -> None:
    join = UpdatedJoin(seed, span=90, modes=(MatchMode.ALL,))
    live(UpdatedLife(memory_path, join, random.Random(seed)), mortal, rekeyed)
    join.check_judged()


WAYS: dict[str, Callable[[JoinSpec], Version]] = {
    "finish": lambda spec: Version(replace(spec, upper=spec.upper + 5 * SECOND)),
    "carry": lambda spec: Version(replace(spec, type=JoinType.FULL)),
    "settle": lambda spec: Version(replace(spec, match=MatchMode.LATEST)),
    "slice again": lambda spec: Version(spec, modulus=2),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("slices")
def test_an_update_is_killed_before_every_step(memory_path: Path, mortal: Mortal, way: str) -> None:
    """One step after the other, there and back, until an update is over without a kill."""
    join = UpdatedJoin(5, span=600, modes=(MatchMode.ALL,), types=(JoinType.LEFT,))
    life = UpdatedLife(memory_path, join, random.Random(1))
    one = join.versions[0]
    two = WAYS[way](one.spec)
    life.run(one)
    for steps in range(1000):
        life.publish()
        wanted = two if life.ran == one else one
        try:
            with mortal.within(steps):
                life.query.trigger()
                life.run(wanted)
        except Killed:
            # On to the new program, or back to the old one while that is possible.
            life.run(life.interrupted or (life.ran if steps % 3 == 0 else wanted))
            continue
        break
    assert 10 < steps < 500
    while life.publish():
        life.query.trigger()
    life.finish()
    if way == "settle":
        assert Counter(join.emitted) == join.expected()
    else:
        join.check_judged()
