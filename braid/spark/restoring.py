"""Makes a stopped application of a savepoint: the one that it was taken of, if that is gone, or a copy.

What is started then is an application like any other, which ran the savepoint's program last, but stores its
tables where its own program says. So another program is an update, by the same rules.

Whatever is killed: `control/restoring.json` is there until the plan is, and as long as it is, the application
starts by no other way than by restoring the same savepoint again.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace

from braid.core.config import parse_options
from braid.core.errors import PermanentError, RunError
from braid.core.owner import Owner
from braid.core.positions import Position
from braid.engine.offsets import ReadOffset
from braid.engine.ownership import check_outputs, place_of
from braid.engine.savepoints import Savepoint, savepoint_name
from braid.engine.upkeep import alone_at_upkeep
from braid.home.control import Generation, Restoring
from braid.home.files import write_json, write_text
from braid.home.paths import AppHome
from braid.home.saved import Saved, SavedFolder
from braid.home.status import RunState
from braid.log.linking import link
from braid.plan.physical.readers import category_readers
from braid.plan.physical.targets import CategoryTarget, category_of, target_of
from braid.plan.renaming import renamed
from braid.plan.serialise import loads, plan_to_json
from braid.plan.stages.base import Plan, Stage
from braid.plan.update.diff import diff
from braid.spark.checkpoints import begin_checkpoint, read_offset, write_offset
from braid.spark.resuming import Resuming
from braid.spark.updating import Update

_PATIENCE = 60.0
"""Seconds that another process may be at the upkeep of the home."""


def check_restored(home: AppHome) -> None:
    """Raise `RunError` if a savepoint is only half restored."""
    restoring = Restoring.read(home.restoring_file)
    if restoring is not None:
        raise PermanentError(
            f"application {home.name!r} is half restored from savepoint {restoring.savepoint!r}",
            where=str(home.restoring_file),
            hint=f"start it with --from {restoring.savepoint}, or drop it: braid drop app {home.name}",
        )


@dataclass(frozen=True)
class Restore:
    """Restores a savepoint.

    Parameters
    ----------
    folder, saved
        The savepoint.
    home
        Of the application that is to begin from it.
    program
        What that will run.
    """

    folder: SavedFolder
    saved: Saved
    home: AppHome
    program: Plan

    def run(self, *, discard: bool = False) -> None:
        """Make the application, stopped; with `discard`, even if inputs have lost rows since."""
        # Until the plan is there, upkeep does not know who reads what.
        with alone_at_upkeep(self.home.home, _PATIENCE), self.home.running():
            before, plan = self._plans()
            self._check(before, plan)
            gone = self._gone(plan)
            if gone and not discard:
                words = ", ".join(f"{count:,} commits of {name}" for name, (count, _) in gone.items())
                raise RunError(
                    f"retention has removed what savepoint {self.saved.name!r} has not read yet: {words}",
                    hint="take a newer savepoint, or agree with --discard to go on behind them",
                )
            Restoring(savepoint=self.saved.name).write(self.home.restoring_file)
            self._clear()
            for stage in plan.stages:
                self._restore(before.stage(stage.name), stage)
            for reader in category_readers(plan):
                if not reader.stateful:
                    first = {name: at for name, (_, at) in gone.items() if name in reader.inputs.values()}
                    self._resume(reader.query, max(first.values(), default=None))
            if self.saved.options is not None:
                write_json(self.home.options_file, self.saved.options)
            if self.saved.status is not None:
                known = {"application": self.home.name, "state": RunState.STOPPED, "pid": None}
                self.saved.status.model_copy(update=known).write(self.home.status_file)
            write_json(self.home.plan_file, plan_to_json(plan))
            self.home.restoring_file.unlink()

    def _plans(self) -> tuple[Plan, Plan]:
        """The plan of the savepoint; and the same as this application's, with tables where its program says.

        A copy that has no such table never had it.
        """
        before = loads(json.dumps(self.saved.plan))
        plan, wanted = renamed(before, self.home.name), {stage.name: stage for stage in self.program.stages}
        stages = []
        for stage in plan.stages:
            other = wanted.get(stage.name)
            if other is None and not stage.sink.internal and self.home.name != self.saved.application:
                continue
            if other is None or stage.sink.internal or other.sink.internal:
                stages.append(stage)
                continue
            if stage.sink.kind.connector.relayed is not other.sink.kind.connector.relayed:
                raise RunError(
                    f"table {stage.name!r} was stored in {stage.sink.place}, so it cannot begin from "
                    f"savepoint {self.saved.name!r} in {other.sink.place}",
                    hint="begin with the same kind of storage, and change it by an update",
                )
            stages.append(replace(stage, sink=other.sink))
        return before, replace(plan, stages=tuple(stages))

    def _check(self, before: Plan, plan: Plan) -> None:
        """Raise `RunError` if the application is there, or what it has stored since, or what cannot go on."""
        name, restoring = self.home.name, Restoring.read(self.home.restoring_file)
        if self.home.plan_file.exists() and restoring is None:
            raise RunError(
                f"application {name!r} exists, so it cannot begin from savepoint {self.saved.name!r}",
                where=str(self.home.root),
                hint="go on with it without --from; or make a copy, by a program with another name and other "
                f"outputs; or drop it first: braid drop app {name}",
            )
        if restoring is not None and restoring.savepoint != self.saved.name:
            check_restored(self.home)
        options = parse_options(dict(plan.options))
        check_outputs(self.home, plan, options)
        Update(self.home, plan, diff(plan, self.program)).check_possible()
        resuming = Resuming(self.home, plan, options)
        for stage in plan.stages:
            known, target = self.saved.queries[stage.name], target_of(name, stage, options)
            last = known.batch
            if isinstance(target, CategoryTarget):
                if stage.private or target.name != category_of(before.application, before.stage(stage.name)):
                    continue
                last = -1 if known.commit is None else known.commit
            if resuming.published(stage, target) > last:
                place = place_of(self.home.home, target)
                raise RunError(
                    f"{place.what} {place.name!r} has commits after savepoint {self.saved.name!r}: "
                    "their rows would come out twice",
                    where=None if place.folder is None else str(place.folder),
                    hint=f"drop it{f' (braid drop category {place.name})' if place.folder is None else ''}, "
                    "or store the table under another name",
                )

    def _gone(self, plan: Plan) -> dict[str, tuple[int, int]]:
        """Inputs of which retention has removed what is unread: how many commits, and the first one left."""
        log, found = self.home.home.log(), {}
        own = {category_of(plan.application, stage) for stage in plan.stages}
        for reader in category_readers(plan):
            for name in set(reader.inputs.values()) - own:
                at = None if reader.stateful else self._read_up_to(reader.query)
                if at is None:
                    continue
                category = log.open(name) if log.has(name) else None
                if category is None or category.latest() + 1 < at:
                    there = "is gone" if category is None else f"ends at commit {category.latest()}"
                    raise RunError(
                        f"category {name!r} {there}, and savepoint {self.saved.name!r} has read it up to "
                        f"commit {at - 1}: it is another one than it was",
                        hint="restore it from a backup, or let the program begin without a savepoint",
                    )
                if category.first > at:
                    found[name] = category.first - at, category.first
        return found

    def _read_up_to(self, query: str) -> int | None:
        """The commit that a query of a category reads next."""
        batch = self.saved.queries[query].numbered
        if batch < 0:
            return None
        _, offset = read_offset(self.folder.checkpoint(query), batch)
        return ReadOffset.from_json(json.loads(offset)).next.commit

    def _clear(self) -> None:
        """Remove what an application of this name has left that had lost its plan, or was half restored."""
        for path in (self.home.root / "checkpoints", self.home.savepoints):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.home.restoring_file.parent.glob("*.json"):
            if path != self.home.restoring_file:
                path.unlink()

    def _restore(self, old: Stage, stage: Stage) -> None:
        """A stage: the category that only the application reads, and its state."""
        log, known = self.home.home.log(), self.saved.queries[old.name]
        category = category_of(self.home.name, stage)
        if stage.private:
            if log.has(category):
                log.drop(category)
            before = category_of(self.saved.application, old)
            if self.folder.log.has(before) and known.commit is not None:
                owner = Owner(self.home.name, stage.name)
                link(self.folder.log.open(before), log, category, known.commit, owner)
        if not stage.stateful:
            if known.first_batch:
                self._begin(
                    stage, Generation(shards=1, partitions=1, number=1, first_batch=known.first_batch)
                )
            return
        if known.shards is None or known.partitions is None:
            return
        # A later generation than the first: its checkpoint begins with the savepoint.
        generation = Generation(
            shards=known.shards, partitions=known.partitions, number=1, first_batch=known.batch + 1
        )
        if self.folder.state(old.name).exists():
            saved = Savepoint.read(self.folder.state(old.name))
            path = self.home.savepoints / savepoint_name(stage.name, str(saved.offset.sealed))
            saved.write(path)
            generation = generation.model_copy(update={"savepoint": path.name})
        self._begin(stage, generation)

    def _begin(self, stage: Stage, generation: Generation) -> None:
        begin_checkpoint(self.home.checkpoint_of(stage.name, generation.number))
        generation.write(self.home.control_file(stage.name, "state"))

    def _resume(self, query: str, first: int | None) -> None:
        """How far a query without a state has read; if a commit is given, not before that."""
        batch = self.saved.queries[query].numbered
        if batch < 0:
            return
        source, target = self.folder.checkpoint(query), self.home.checkpoint(query)
        for path in source.glob("**/*"):
            if path.is_file():
                write_text(target / path.relative_to(source), path.read_text())
        if first is not None:
            write_offset(target, batch, json.dumps(ReadOffset(Position(first, 0)).to_json()))
        begin_checkpoint(target)
