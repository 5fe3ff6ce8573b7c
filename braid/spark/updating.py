"""From the program that an application ran last to another one: what is done before the new one starts.

Most changes need nothing, or that the old program finishes what it has begun. Where the state of a stage is
of use to the new program, but not as it is, the old one runs once more, takes nothing new in, and hands it
over in a savepoint: see `braid.plan.update.rules.Way`.

Whatever is killed, the next start does what is left. Until the new plan is written down, the old program can
be started again, too: all that was handed over is as good for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from braid.core.config import parse_options
from braid.core.errors import RunError
from braid.core.logging import Log
from braid.home.files import write_json
from braid.home.paths import AppHome
from braid.home.status import read_status
from braid.plan.stages.base import Plan
from braid.plan.update.diff import Diff, diff
from braid.plan.update.rules import Verdict, Way
from braid.spark.checkpoints import read_checkpoint
from braid.spark.generations import Generations, forget_generations
from braid.spark.launcher import Launcher
from braid.spark.supervised import Supervised


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
        """What leads from one plan to another."""
        return cls(home, before, diff(before, after))

    def in_flight(self) -> dict[str, int]:
        """Rows that stages hold, which are decided before their time, as of their last micro-batch."""
        status = read_status(self.home)
        stages = {} if status is None else status.stages
        closed = [name for name, way in self.found.ways.items() if way.closes and name in stages]
        last = {name: stages[name].last for name in closed}
        return {name: batch.counters.pending for name, batch in last.items() if batch is not None}

    def check(self, consent: Consent) -> None:
        """Raise `RunError` if it cannot be done, or nobody has agreed to it."""
        verdict = self.found.verdict
        worst = [change for change in self.found.changes if change.verdict is verdict]
        what = f"the update of application {self.home.name!r} is {verdict.value}: " + "; ".join(
            f"{change.subject}, {change.detail}" for change in worst
        )
        if verdict is Verdict.REFUSED or any(each.kind == "input.source" for each in worst):
            raise RunError(
                what,
                hint="; or ".join(dict.fromkeys(text for each in worst for text in each.rule.alternatives))
                or "run it as an application of another name, or in another home",
            )
        if verdict is Verdict.REPLAYED and not consent.replay:
            raise RunError(what, hint="`braid diff` says what that means; agree to it with --yes")
        held = {name: rows for name, rows in self.in_flight().items() if rows}
        if held and not consent.discard:
            rows = ", ".join(f"{name} {rows:,}" for name, rows in held.items())
            raise RunError(
                f"{what}; rows in flight are decided before their time: {rows}",
                hint="stop the inputs and drain it first (--drain), or agree to it with --discard",
            )

    def carry_out(self, steps: UpdateSteps) -> None:
        """Do all that has to be done before the new plan starts."""
        if not self.found.ways:
            return
        old = replace(
            steps.launcher,
            plan=self.before,
            options=parse_options(dict(self.before.options)),
            cadence_file=None,
        )
        old.prepare()
        for name, way in self.found.ways.items():
            steps.take(old, name, way)


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

    def take(self, old: Launcher, name: str, way: Way) -> None:
        """Let a stage of the old plan end in a way that the new one can go on from."""
        stage = old.plan.stage(name)
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
        wanted = self.launcher.wanted(self.launcher.plan.stage(name))
        try:
            if way.closes:
                query.process_available()
            with generations.sealed(stage.name, query, settles=way is Way.SETTLE) as saved:
                query.stop()
                generations.begin(saved, wanted)
        finally:
            query.stop()
            drain.unlink(missing_ok=True)
        forget_generations(self.home, stage.name)
        self.log.info("stage handed over", stage=stage.name, way=way.name.lower(), batch=saved.batch)


_DOING: Mapping[Way, str] = {
    Way.FINISH: "finishing what is under way in",
    Way.CARRY: "handing over",
    Way.SETTLE: "settling matches of",
    Way.CLOSE: "closing windows of",
    Way.SLICE_AGAIN: "closing windows of",
}
