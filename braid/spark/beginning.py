"""How a run begins: from what the last one has left, by an update if the program is another one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from braid.core.config import AppConfig
from braid.core.errors import RunError
from braid.core.logging import Log
from braid.engine.savepoints import Savepoint
from braid.home.files import write_json
from braid.home.options import write_options
from braid.home.paths import AppHome
from braid.home.versions import keep_version, versions
from braid.plan.serialise import plan_to_json
from braid.plan.stages.base import Plan, Stage
from braid.plan.update.change import Change
from braid.plan.update.rules import Way
from braid.spark.checkpoints import read_checkpoint
from braid.spark.last_run import ran_plan
from braid.spark.restoring import check_restored
from braid.spark.saving import Saving
from braid.spark.updating import Consent, Update, UpdateSteps


@dataclass(frozen=True)
class Beginning:
    """What is done before the queries of a run start.

    Parameters
    ----------
    home
        Of the application.
    plan
        What will run, with names of columns as rows in flight have them.
    update
        What it changes; None if the application has not run yet.
    """

    home: AppHome
    plan: Plan
    update: Update | None = None

    @classmethod
    def of(cls, home: AppHome, plan: Plan, options: AppConfig, consent: Consent) -> Beginning:
        """How a plan begins with some options; a `RunError` if it cannot. Nothing is touched."""
        check_restored(home)
        if not home.plan_file.exists():
            return cls(home, plan)
        update = Update.of(home, ran_plan(home), plan.with_options(options))
        update.check(consent)
        return cls(home, replace(update.found.after, options=plan.options), update)

    @property
    def verdict(self) -> str | None:
        """The verdict on the update, in a word."""
        return None if self.update is None else self.update.found.verdict.value

    @property
    def changes(self) -> tuple[Change, ...]:
        """What it changes."""
        return () if self.update is None else self.update.found.changes

    def tell(self, log: Log, overridden: tuple[str, ...]) -> None:
        """Log what is changed."""
        for change in self.changes:
            # Which options are the program's, and which were set at the start, is not seen from the program.
            log.warning(
                f"{change.subject} changed",
                values=change.detail,
                verdict=change.verdict.value,
                why=change.rule.reason,
                overridden=overridden,
            )

    def carry_out(self, steps: UpdateSteps) -> None:
        """Do what an update needs before the new plan starts."""
        if self.update is not None:
            self.update.carry_out(steps)

    def keep(self, options: AppConfig, overridden: tuple[str, ...]) -> None:
        """Write down what is about to run: from here on, it is what ran last."""
        self._keep_version()
        write_json(self.home.plan_file, plan_to_json(self.plan))
        write_options(self.home, options, overridden)
        self.home.updating_file.unlink(missing_ok=True)
        self.home.next_plan_file.unlink(missing_ok=True)

    def save(self, name: str, steps: UpdateSteps) -> None:
        """Take a savepoint of the stopped application.

        Stages with a state hand it over. Others end what was under way: it may be published.
        """
        launcher = replace(steps.launcher, cadence_file=None)
        launcher.prepare()
        for stage in self.plan.stages:
            if stage.stateful:
                steps.take(launcher, stage, Way.CARRY)
            elif read_checkpoint(self.home.checkpoint(stage.name)).in_flight:
                steps.take_all(launcher, stage)

        @contextmanager
        def state_of(stage: Stage) -> Iterator[Savepoint | None]:
            found = self.home.generation(stage.name)
            named = None if found is None else found.savepoint
            yield None if named is None else Savepoint.read(self.home.savepoints / named)

        def pause(stage: Stage) -> None:
            raise RunError(
                f"stage {stage.name!r} has published more than its checkpoint knows of",
                hint="start the application once, then try again",
            )

        steps.on_phase("writing the savepoint")
        Saving(self.home, self.plan, launcher.options).save(name, state_of, pause)

    def _keep_version(self) -> None:
        """Keep the plan among those that one can go back to; of an older home, the last one, too."""
        if self.update is None:
            keep_version(self.home, plan_to_json(self.plan), time.time())
            return
        if not versions(self.home):
            before = self.home.plan_file
            keep_version(self.home, json.loads(before.read_text()), before.stat().st_mtime)
        words = tuple(f"{change.subject}: {change.detail}" for change in self.changes)
        keep_version(self.home, plan_to_json(self.plan), time.time(), self.verdict, words)
