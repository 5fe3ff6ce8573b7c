"""Makes a stopped application of a savepoint: the one that it was taken of, if that is gone, or a copy.

What is started then is an application like any other, which ran the savepoint's program last. So another
program is an update, by the same rules.

Whatever is killed: `control/restoring.json` is there until the plan is, and as long as it is, the application
starts by no other way than by restoring the same savepoint again.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from braid.core.errors import RunError
from braid.core.owner import NOBODY
from braid.engine.offsets import ReadOffset
from braid.engine.savepoints import Savepoint, savepoint_name
from braid.home.control import Generation, Restoring
from braid.home.files import write_json, write_text
from braid.home.paths import AppHome
from braid.home.saved import Saved, SavedFolder
from braid.home.status import RunState
from braid.log.linking import link
from braid.plan.physical.readers import category_readers
from braid.plan.physical.targets import category_of
from braid.plan.renaming import renamed
from braid.plan.serialise import loads, plan_to_json
from braid.plan.stages.base import Plan, Stage
from braid.spark.checkpoints import begin_checkpoint


def check_restored(home: AppHome) -> None:
    """Raise `RunError` if a savepoint is only half restored."""
    restoring = Restoring.read(home.restoring_file)
    if restoring is not None:
        raise RunError(
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
    """

    folder: SavedFolder
    saved: Saved
    home: AppHome

    def run(self, *, discard: bool = False) -> None:
        """Make the application, stopped; with `discard`, even if inputs have lost rows since."""
        with self.home.running():
            before, plan = self._plans()
            self._check(before, plan)
            gone = self._gone(before)
            if gone and not discard:
                words = ", ".join(f"{count:,} commits of {name}" for name, (count, _) in gone.items())
                raise RunError(
                    f"retention has removed what savepoint {self.saved.name!r} has not read yet: {words}",
                    hint="take a newer savepoint, or agree with --discard to go on behind them",
                )
            Restoring(savepoint=self.saved.name).write(self.home.restoring_file)
            for old, stage in zip(before.stages, plan.stages, strict=True):
                self._restore(old, stage)
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
        """The plan of the savepoint, and the same under the application's name."""
        before = loads(json.dumps(self.saved.plan))
        return before, renamed(before, self.home.name)

    def _check(self, before: Plan, plan: Plan) -> None:
        """Raise `RunError` if the application is there, or what it has stored since."""
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
        log = self.home.home.log()
        for stage in plan.stages:
            category, last = category_of(name, stage), self.saved.queries[stage.name].commit
            if last is None or not log.has(category):
                continue
            there = log.open(category)
            mine = there.owner is not None and there.owner.application in (name, NOBODY.application)
            if not _own(stage) and mine and there.latest() > last:
                raise RunError(
                    f"category {category!r} has commits after savepoint {self.saved.name!r}: "
                    "their rows would come out twice",
                    hint=f"drop it (braid drop category {category}), or store the table under another name",
                )
            if _own(stage) and there.owner is not None and there.owner.application not in (name, ""):
                raise RunError(
                    f"category {category!r} belongs to {there.owner.text}", hint="choose another name"
                )

    def _gone(self, plan: Plan) -> dict[str, tuple[int, int]]:
        """Inputs of which retention has removed what is unread: how many commits, and the first one left."""
        log, found = self.home.home.log(), {}
        own = {category_of(plan.application, stage) for stage in plan.stages if _own(stage)}
        for reader in category_readers(plan):
            for name in set(reader.inputs.values()) - own:
                at = None if reader.stateful else self._read_up_to(reader.query)
                if at is not None and log.has(name) and log.open(name).first > at:
                    first = log.open(name).first
                    found[name] = first - at, first
        return found

    def _read_up_to(self, query: str) -> int | None:
        """The commit that a query of a category reads next."""
        batch = self.saved.queries[query].batch
        if batch < 0:
            return None
        text = (self.folder.checkpoint(query) / "offsets" / str(batch)).read_text()
        return ReadOffset.from_json(json.loads(text.splitlines()[2])).next.commit

    def _restore(self, old: Stage, stage: Stage) -> None:
        """A stage: the category that only the application reads, and its state."""
        log, known = self.home.home.log(), self.saved.queries[old.name]
        category = category_of(self.home.name, stage)
        if _own(stage) and known.commit is not None:
            if log.has(category):
                log.drop(category)
            link(self.folder.log.open(category_of(self.saved.application, old)), log, category, known.commit)
        for path in (self.home.root / "checkpoints").glob(f"{stage.name}@*"):
            shutil.rmtree(path)
        if known.shards is None or known.partitions is None:
            return
        saved = Savepoint.read(self.folder.state(old.name))
        path = self.home.savepoints / savepoint_name(stage.name, str(saved.offset.sealed))
        saved.write(path)
        # A later generation than the first: its checkpoint begins with the savepoint.
        generation = Generation(
            shards=known.shards,
            partitions=known.partitions,
            number=1,
            first_batch=saved.batch + 1,
            savepoint=path.name,
        )
        begin_checkpoint(self.home.checkpoint_of(stage.name, generation.number))
        generation.write(self.home.control_file(stage.name, "state"))

    def _resume(self, query: str, first: int | None) -> None:
        """How far a query without a state has read; if a commit is given, not before that."""
        target = self.home.checkpoint(query)
        shutil.rmtree(target, ignore_errors=True)
        batch = self.saved.queries[query].batch
        if batch < 0:
            return
        source = self.folder.checkpoint(query)
        for path in source.glob("**/*"):
            if path.is_file():
                copy = target / path.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
        if first is not None:
            _go_on_at(target / "offsets" / str(batch), first)
        begin_checkpoint(target)


def _own(stage: Stage) -> bool:
    """Whether only the application reads the category that a stage writes."""
    return stage.sink.internal or stage.sink.kind.connector.relayed


def _go_on_at(path: Path, commit: int) -> None:
    """Have a checkpoint go on with another commit of the category that it reads."""
    version, head, _, *rest = path.read_text().splitlines()
    offset = ReadOffset.from_json({"next": [commit, 0]})
    write_text(path, "\n".join([version, head, json.dumps(offset.to_json()), *rest]))
