"""From the program that an application ran last to another one: what is done before the new one starts.

Most changes need nothing, or that the old program finishes what it has begun. Where the state of a stage is
of use to the new program, but not as it is, the old one runs once more, takes nothing new in, and hands it
over in a savepoint: see `braid.plan.update.rules.Way`.

Whatever is killed, the next start does what is left. Until the new plan is written down, the old program can
be started again, too: all that was handed over is as good for it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from braid.core.config import parse_options
from braid.core.errors import PermanentError
from braid.core.logging import Log
from braid.core.times import FAR, MIN_TIME
from braid.engine.savepoints import Savepoint, savepoint_name
from braid.engine.slicing_again import Progress
from braid.home.control import Generation, Updating
from braid.home.files import write_json, write_text
from braid.home.metrics import MicroBatch
from braid.home.paths import AppHome
from braid.home.status import Status
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.physical.layout import layout
from braid.plan.serialise import plan_to_json
from braid.plan.stages.base import Plan, Stage
from braid.plan.update.change import Change
from braid.plan.update.diff import Diff, diff
from braid.plan.update.rules import Verdict, Way
from braid.spark.checkpoints import read_checkpoint
from braid.spark.generations import Generations, forget_generations
from braid.spark.last_run import with_returning
from braid.spark.launcher import Launcher
from braid.spark.slicing_again import slice_again
from braid.spark.supervised import Supervised

OTHER_TIMES = ("join.time", "input.time_unit")
"""Changes after which event times cannot be compared with those of before."""


@dataclass(frozen=True)
class Consent:
    """What the user has agreed to.

    Parameters
    ----------
    replay
        An update with the verdict *replayed*.
    discard
        That rows in flight are decided before their time, where that has to be.
    """

    replay: bool = False
    discard: bool = False


NO_CONSENT = Consent()


@dataclass(frozen=True)
class Update:
    """What an update changes, and what has to be done for it.

    Parameters
    ----------
    home
        Of the application.
    before
        The plan of the last run, with the options that it was run with.
    found
        The changes.
    """

    home: AppHome
    before: Plan
    found: Diff

    @classmethod
    def of(cls, home: AppHome, before: Plan, after: Plan) -> Update:
        """What leads from the plan of the last run to another."""
        before = with_returning(home, before, after)
        return cls(home, before, diff(before, after))

    def in_flight(self) -> dict[str, int]:
        """Rows that stages hold, which are decided before their time, as of their last micro-batch."""
        closed = [name for name, way in self.found.ways.items() if way.closes]
        last = {name: self._last(name) for name in closed}
        return {name: batch.counters.pending for name, batch in last.items() if batch is not None}

    def _last(self, name: str) -> MicroBatch | None:
        """The last micro-batch of a stage, as far as the status tells."""
        status = Status.read(self.home.status_file)
        return None if status is None or name not in status.stages else status.stages[name].last

    def check(self, consent: Consent) -> None:
        """Raise `RunError` if it cannot be done, or nobody has agreed to it."""
        updating = Updating.read(self.home.updating_file)
        if updating is not None and updating.plan not in (self._digest, _digest(self.before)):
            raise PermanentError(
                f"an update of application {self.home.name!r} to another program was interrupted",
                where=str(self.home.next_plan_file),
                hint=f"end it first, then run this one: braid run {self.home.next_plan_file} --yes --discard",
            )
        self.check_possible()
        verdict, what = self.found.verdict, self._what
        if verdict is Verdict.REPLAYED and not consent.replay:
            raise PermanentError(what, hint="`braid diff` says what that means; agree to it with --yes")
        held = {name: rows for name, rows in self.in_flight().items() if rows}
        if held and not consent.discard:
            rows = ", ".join(f"{name} {rows:,}" for name, rows in held.items())
            raise PermanentError(
                f"{what}; rows in flight are decided before their time: {rows}",
                hint="stop the inputs and drain it first (--drain), or agree to it with --discard",
            )

    def check_possible(self) -> None:
        """Raise `RunError` if it cannot be done at all."""
        if self.found.verdict is Verdict.REFUSED:
            alternatives = dict.fromkeys(text for each in self._worst for text in each.rule.alternatives)
            raise PermanentError(
                self._what,
                hint="; or ".join(alternatives)
                or "run it as an application of another name, or in another home",
            )

    @property
    def _worst(self) -> list[Change]:
        """What the verdict is due to."""
        return [change for change in self.found.changes if change.verdict is self.found.verdict]

    @property
    def _what(self) -> str:
        """The verdict, and what it is due to."""
        words = "; ".join(f"{change.subject}, {change.detail}" for change in self._worst)
        return f"the update of application {self.home.name!r} is {self.found.verdict.value}: {words}"

    def carry_out(self, steps: UpdateSteps) -> None:
        """Do all that has to be done before the new plan starts."""
        if not self.found.ways:
            return
        old = replace(
            steps.launcher,
            plan=self.before,
            options=parse_options(dict(self.before.options)),
            cadence_file=None,
            built={},
        )
        old.prepare()
        again, anew = (self._to_do(way) for way in (Way.SLICE_AGAIN, Way.ANEW))
        updating = Updating.read(self.home.updating_file)
        if updating is None or updating.plan != self._digest:
            self._end_old(steps, old)
            updating = Updating(id=uuid.uuid4().hex[:12], plan=self._digest)
            if again or anew:
                write_json(self.home.next_plan_file, plan_to_json(self.found.after))
                updating.write(self.home.updating_file)
        for name in again:
            steps.slice_again(name, self._slicers(name), updating.id, self._since(name))
        for name in anew:
            steps.begin_anew(self.found.after.stage(name))
            # There may be blocks of an operator that had the name still earlier.
            steps.slice_again(name, self._slicers(name), updating.id, None)

    def _to_do(self, way: Way) -> list[str]:
        return [name for name, found in self.found.ways.items() if found is way]

    def _end_old(self, steps: UpdateSteps, old: Launcher) -> None:
        """Let stages of the old plan end so that the new ones can go on, in the order of the plan."""
        ways, stay = self.found.ways, {stage.name for stage in self.found.after.stages}
        # All inputs of a stage, so that none is ahead of where rows of the others can find theirs.
        again = [self.before.stage(name) for name in self._to_do(Way.SLICE_AGAIN)]
        feeding = {category for stage in again for category in stage.reads().values()}
        for name in self._to_do(Way.ANEW):
            feeding |= {slicer.sink.name for slicer in self._slicers(name).values()}
        for stage in self.before.stages:
            way = ways.get(stage.name)
            if stage.sink.name in feeding:
                steps.take_all(old, stage)
            elif way is not None and stage.stateful and stage.name in stay:
                steps.take(old, stage, way)
            elif way is not None and not stage.stateful:
                in_flight = read_checkpoint(self.home.checkpoint(stage.name)).in_flight
                if way is not Way.FINISH or in_flight or stage.name not in stay:
                    steps.take_all(old, stage)
            if stage.name not in stay:
                steps.forget_target(stage)

    def _slicers(self, name: str) -> dict[str, SlicerStage]:
        """Slicers of the new plan that have to slice again, by the inputs of a stage."""
        found = {}
        for one, category in self.found.after.stage(name).reads().items():
            now, was = self.found.after.writer(category), self.before.writer(category)
            if isinstance(now, SlicerStage) and isinstance(was, SlicerStage) and not now.can_use(was):
                found[one] = now
        return found

    def _since(self, name: str) -> int | None:
        """The event time from which on rows are sliced again; None is all that the source has."""
        last = self._last(name)
        changes = [
            each for each in self.found.changes if each.stage == name and each.rule.way is Way.SLICE_AGAIN
        ]
        known = [each.replay for each in changes if each.kind not in OTHER_TIMES]
        if last is None or len(known) < len(changes) or None in known:
            return None
        times = [counted.stream_time for counted in last.counters.inputs.values()]
        reached = min((time for time in times if time is not None), default=MIN_TIME)
        return None if abs(reached) >= FAR else reached - max(back for back in known if back is not None)

    @property
    def _digest(self) -> str:
        return _digest(self.found.after)


@dataclass(frozen=True)
class UpdateSteps:
    """Runs stages of the old plan until they have handed over what the new one needs.

    Parameters
    ----------
    home, log
        Of the application.
    stopping
        Set when nothing is to be started any more.
    launcher
        Starts stages of the new plan.
    on_phase
        Called with what is about to be done.
    """

    home: AppHome
    log: Log
    stopping: threading.Event
    launcher: Launcher
    on_phase: Callable[[str], None]

    def take_all(self, old: Launcher, stage: Stage) -> None:
        """Let a stateless stage of the old plan take in what there is: nothing is under way then."""
        self.on_phase(f"finishing {stage.name}")
        log = self.log.bind(stage=stage.name)
        begin = partial(old.start, stage, available_now=True)
        Supervised(begin, log, self.stopping, bounded=True).wait()

    def forget_target(self, stage: Stage) -> None:
        """Forget where a stage that goes has begun to write: others may write there before it comes back."""
        if not read_checkpoint(self.home.checkpoint(stage.name)).in_flight:
            self.home.control_file(stage.name, "sink").unlink(missing_ok=True)

    def begin_anew(self, stage: Stage) -> None:
        """Give a stage of the new plan an empty checkpoint, whatever had its name; its commits go on."""
        before, checkpoint = (
            self.home.generation(stage.name),
            read_checkpoint(self.home.checkpoint(stage.name)),
        )
        if checkpoint.begun < 0:
            return
        wanted = self.launcher.wanted(stage) if stage.stateful else layout(1, 1)
        generation = Generation(
            shards=wanted.shards,
            partitions=wanted.partitions,
            number=1 if before is None else before.number + 1,
            first_batch=checkpoint.done + 1 + (0 if before is None else before.first_batch),
        )
        folder = self.home.checkpoint_of(stage.name, generation.number)
        shutil.rmtree(folder, ignore_errors=True)
        write_text(folder / "metadata", (checkpoint.folder / "metadata").read_text())
        # What it needed, and how far it had read, was said of other inputs.
        for what in ("needs", "read", "published"):
            self.home.control_file(stage.name, what).unlink(missing_ok=True)
        generation.write(self.home.control_file(stage.name, "state"))
        forget_generations(self.home, stage.name)
        self.log.info("stage begins anew", stage=stage.name, batch=generation.first_batch)

    def slice_again(
        self, name: str, slicers: Mapping[str, SlicerStage], update: str, since: int | None
    ) -> None:
        """Slice inputs of a stage again, and let it begin behind them."""
        generation = self.home.generation(name)
        ends = {}
        for one, slicer in slicers.items():

            def tell(now: Progress, stage: str = slicer.name) -> None:
                self.on_phase(f"slicing {stage} again: {now.rows:,} rows, {now.read:,} of {now.total:,} read")

            done = slice_again(self.launcher, slicer, update, since=since, progress=tell)
            self.log.info("sliced again", stage=slicer.name, rows=done.rows, gone=done.gone)
            ends[one] = done.position
        if generation is None or generation.savepoint is None:
            return  # it has never run, and takes in what was sliced again as if it were new
        named = savepoint_name(name, update)
        if generation.savepoint != named:
            Savepoint.read(self.home.savepoints / generation.savepoint).moved(update, ends).write(
                self.home.savepoints / named
            )
            moved = generation.model_copy(update={"savepoint": named})
            moved.write(self.home.control_file(name, "state"))

    def take(self, old: Launcher, stage: Stage, way: Way) -> None:
        """Let a stateful stage of the old plan end in a way that the new one can go on from."""
        checkpoint, generation = (
            read_checkpoint(self.home.checkpoint(stage.name)),
            self.home.generation(stage.name),
        )
        never = generation is None or (checkpoint.begun < 0 and generation.savepoint is None)
        if never or (way is Way.FINISH and not checkpoint.in_flight):
            return
        self.on_phase(f"{_DOING[way]} {stage.name}")
        drain = self.home.control_file(stage.name, "drain")
        if way.closes:
            write_json(drain, {})
        query = Supervised(
            partial(old.start, stage),
            self.log.bind(stage=stage.name),
            self.stopping,
            first_batch=partial(old.first_batch, stage.name),
        )
        generations = Generations(self.home, self.log, self.stopping)
        try:
            if way.closes:
                query.process_available()
            if way is Way.ANEW:
                return
            wanted = self.launcher.wanted(self.launcher.plan.stage(stage.name))
            with generations.sealed(stage.name, query, settles=way is Way.SETTLE) as saved:
                query.stop()
                generations.begin(saved, wanted)
        finally:
            query.stop()
            drain.unlink(missing_ok=True)
        forget_generations(self.home, stage.name)
        self.log.info("stage handed over", stage=stage.name, way=way.name.lower(), batch=saved.batch)


def _digest(plan: Plan) -> str:
    text = json.dumps(plan_to_json(replace(plan, options=())), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


_DOING: Mapping[Way, str] = {
    Way.FINISH: "finishing what is under way in",
    Way.CARRY: "handing over",
    Way.SETTLE: "settling matches of",
    Way.CLOSE: "closing windows of",
    Way.SLICE_AGAIN: "closing windows of",
    Way.ANEW: "closing windows of",
}
