"""Whether an application can go on from what is there, asked before Spark is started.

Three things remember how far a stage has come: its checkpoint, its control files, and its target, which knows
what was published. If one is lost, or older than the others, going on would publish rows twice, or never.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from braid.core.config import AppConfig
from braid.core.errors import PermanentError, RunError
from braid.home.control import ANEW, Generation, SinkStart
from braid.home.paths import AppHome
from braid.plan.physical.targets import (
    CategoryTarget,
    LookupTarget,
    TableTarget,
    Target,
    relay_name,
    target_of,
)
from braid.plan.stages.base import Plan, Stage
from braid.spark.checkpoints import Checkpoint, read_checkpoint
from braid.spark.sinks.lookup_table import last_upsert
from braid.spark.sinks.table import last_commit

_LOOK_BACK = 100
"""Commits that are looked at for one that has rows."""


@dataclass(frozen=True)
class Resuming:
    """How stages go on.

    Parameters
    ----------
    home, plan, options
        Of the application.
    """

    home: AppHome
    plan: Plan
    options: AppConfig

    def check(self) -> None:
        """Raise `RunError` if a stage cannot go on soundly; nothing is changed."""
        for stage in self.plan.stages:
            if stage.sink.kind.connector.relayed:
                read_checkpoint(self.home.checkpoint(relay_name(stage)))
            if stage.stateful:
                self.generation(stage)
            self.first_commit(stage)

    def generation(self, stage: Stage) -> Generation | None:
        """How the state of a stage is cut; None at its first start."""
        found, checkpoint = self.home.generation(stage.name), self._checkpoint(stage)
        if checkpoint.begun < 0:
            return None
        if found is None:
            raise PermanentError(
                f"the file that says how the state of stage {stage.name!r} is cut is missing",
                where=str(self.home.control_file(stage.name, "state")),
                hint=f"restore it from a backup; or {ANEW}",
            )
        if found.savepoint is not None and checkpoint.done < found.first_batch:
            path = self.home.savepoints / found.savepoint
            if not path.exists():
                raise PermanentError(
                    f"the savepoint that stage {stage.name!r} begins from is missing",
                    where=str(path),
                    hint=f"restore it from a backup; or {ANEW}",
                )
        return found

    def keep_start(self, stage: Stage) -> SinkStart:
        """Where a stage begins to write, and as whom, kept for the next start."""
        first, name = self.first_commit(stage), self._target(stage).name
        before, checkpoint = SinkStart.read(self._control(stage)), self._checkpoint(stage)
        writer: str | None = f"{stage.name}/{uuid.uuid4().hex[:8]}"
        if checkpoint.begun >= 0 and before is not None and before.target == name:
            writer = before.writer
        elif before is None and checkpoint.in_flight:
            writer = None  # earlier versions kept nothing about tables
        start = SinkStart(target=name, first_commit=first, writer=writer)
        start.write(self._control(stage))
        return start

    def first_commit(self, stage: Stage) -> int:
        """The commit that micro-batch 0 of a stage's checkpoint has written, or would have."""
        target, checkpoint = self._target(stage), self._checkpoint(stage)
        if isinstance(target, TableTarget):
            # A table knows commits by stage and number, and takes them in any order.
            return self._going_on(stage, checkpoint, 0, self.published(stage, target))
        start = SinkStart.read(self._control(stage))
        published = self.published(stage, target)
        if start is not None and start.target == target.name:
            if checkpoint.begun < 0 and published < start.first_commit:
                return published + 1
            return self._going_on(stage, checkpoint, start.first_commit, published)
        if start is None and checkpoint.in_flight:
            raise PermanentError(
                f"the file that says where stage {stage.name!r} began to write is missing, and without it "
                "nobody knows whether its last micro-batch was published",
                where=str(self._control(stage)),
                hint=f"restore it from a backup; or {ANEW}",
            )
        if start is None and checkpoint.begun < 0 and self._wrote(stage, target, published):
            raise _lost(stage, checkpoint, target, published)
        return published - checkpoint.done

    def last_published(self, stage: Stage) -> int:
        """The last micro-batch that a stage has published, in all its generations; -1 if there is none.

        Its checkpoint may not know of it yet. Lookup tables are not asked: what comes to them twice is as
        good as once.
        """
        target, start = self._target(stage), SinkStart.read(self._control(stage))
        if isinstance(target, TableTarget):
            return self.published(stage, target)
        if not isinstance(target, CategoryTarget) or start is None or start.target != target.name:
            return -1
        return self.published(stage, target) - start.first_commit

    def _going_on(self, stage: Stage, checkpoint: Checkpoint, first: int, published: int) -> int:
        """The first commit, if what was published since is what the checkpoint knows of."""
        target = self._target(stage)
        if published - first > checkpoint.begun:
            raise _lost(stage, checkpoint, target, published)
        if isinstance(target, CategoryTarget) and published - first < checkpoint.done:
            raise PermanentError(
                f"{target.name} ends at commit {published}, and stage {stage.name!r} has written up to "
                f"{first + checkpoint.done}: what it has published is lost",
                where=str(checkpoint.folder),
                hint=f"restore the category from a backup; or {ANEW}",
            )
        return first

    def published(self, stage: Stage, target: Target) -> int:
        """The last commit that a target has of a stage, or at all; -1 if there is none."""
        if isinstance(target, TableTarget):
            return last_commit(target.folder(self.home.home.root), stage.name)
        if isinstance(target, LookupTarget):
            return last_upsert(str(self.home.home.root), target.name, writer_name(self.plan, stage))
        log = self.home.home.log()
        return log.open(target.name).latest() if log.has(target.name) else -1

    def _wrote(self, stage: Stage, target: Target, published: int) -> bool:
        """Whether a target has something of a stage that has no memory of its own."""
        if not isinstance(target, CategoryTarget) or published < 0:
            return published >= 0
        category = self.home.home.log().open(target.name)
        if category.owner is not None and category.owner.application != self.plan.application:
            return False  # another application has written it, and has let go of it
        reader = category.reader()
        for number in range(published, max(category.first, published - _LOOK_BACK) - 1, -1):
            files = reader.commit(number).files
            if files:
                return all(name.startswith(f"{stage.name}-") for name in files)
        return False

    def _target(self, stage: Stage) -> Target:
        return target_of(self.plan.application, stage, self.options)

    def _checkpoint(self, stage: Stage) -> Checkpoint:
        """The checkpoint of a stage, with micro-batches numbered through all of its generations."""
        found, generation = (
            read_checkpoint(self.home.checkpoint(stage.name)),
            self.home.generation(stage.name),
        )
        first = 0 if generation is None else generation.first_batch
        return replace(found, begun=first + found.begun, done=first + found.done)

    def _control(self, stage: Stage) -> Path:
        return self.home.control_file(stage.name, "sink")


def writer_name(plan: Plan, stage: Stage) -> str:
    """The name by which a lookup table knows a stage."""
    return f"{plan.application}.{stage.name}"


def _lost(stage: Stage, checkpoint: Checkpoint, target: Target, published: int) -> RunError:
    """A checkpoint is gone, or is an old one: what the stage would do next, it has already published."""
    have = "is missing" if checkpoint.begun < 0 else f"ends at micro-batch {checkpoint.begun}"
    return PermanentError(
        f"the checkpoint of stage {stage.name!r} {have}, and {target.name} has its commits up to "
        f"{published}: going on, it would publish rows twice",
        where=str(checkpoint.folder),
        hint=f"restore the checkpoint from a backup; or {ANEW}",
    )
