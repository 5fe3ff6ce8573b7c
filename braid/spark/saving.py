"""Takes a savepoint of an application, running or stopped.

Stage by stage, those that read before those that write. A stage without a state is saved when its checkpoint
knows of all that it had published by then: so whatever a reader has read by its savepoint, the writer has
written by its own, and will not write again. Only a stage with a state pauses, for one micro-batch that takes
nothing in.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from braid.core.config import AppConfig
from braid.core.errors import BraidError, RunError
from braid.core.logging import Log
from braid.engine.savepoints import Savepoint
from braid.engine.upkeep import alone_at_upkeep
from braid.home.control import Answer, Save, SinkStart
from braid.home.files import read_json
from braid.home.paths import AppHome
from braid.home.saved import Saved, SavedFolder, SavedQuery
from braid.home.status import Status
from braid.log.linking import link
from braid.plan.physical.targets import category_of, relay_name
from braid.plan.stages.base import Plan, Stage
from braid.spark.checkpoints import copy_checkpoint, read_checkpoint
from braid.spark.resuming import Resuming

_PATIENCE = 60.0
"""Seconds that another process may be at the upkeep of the home."""

StateOf = Callable[[Stage], AbstractContextManager[Savepoint | None]]
"""The state of a stage, which takes nothing in until the block ends; None if it has never run."""
Pause = Callable[[Stage], None]
"""Passes a little time while a stage goes on; raises if it does not."""


@dataclass(frozen=True)
class Saving:
    """Takes savepoints.

    Parameters
    ----------
    home, plan, options
        Of the application.
    """

    home: AppHome
    plan: Plan
    options: AppConfig

    def save(self, name: str, state_of: StateOf, pause: Pause) -> Saved:
        """Take a savepoint under a name."""
        home = self.home.home
        # Whoever is at the upkeep may remove or compact what is to be linked.
        with alone_at_upkeep(home, _PATIENCE):
            SavedFolder.check_free(home, name)
            folder = SavedFolder.draft(home, name)
            try:
                saved = self._fill(folder, name, state_of, pause)
                folder.publish(home, name)
            except BaseException:
                # A draft holds files of the log, which may be what fills the disk.
                shutil.rmtree(folder.root, ignore_errors=True)
                raise
        return saved

    def _fill(self, folder: SavedFolder, name: str, state_of: StateOf, pause: Pause) -> Saved:
        queries: dict[str, SavedQuery] = {}
        for stage in reversed(self.plan.stages):
            if stage.sink.kind.connector.relayed:
                relay = relay_name(stage)
                done = copy_checkpoint(self.home.checkpoint(relay), folder.checkpoint(relay))
                queries[relay] = SavedQuery(batch=done)
            if stage.stateful:
                queries[stage.name] = self._stateful(stage, folder, state_of)
            else:
                queries[stage.name] = self._stateless(stage, folder, pause)
        saved = Saved(
            name=name,
            application=self.home.name,
            taken=time.time(),
            plan=json.loads(self.home.plan_file.read_text()),
            options=read_json(self.home.options_file),
            queries=queries,
            status=Status.read(self.home.status_file),
        )
        folder.write(saved)
        return saved

    def _stateless(self, stage: Stage, folder: SavedFolder, pause: Pause) -> SavedQuery:
        resuming = Resuming(self.home, self.plan, self.options)
        published, first = resuming.last_published(stage), self._first_batch(stage)
        while first + read_checkpoint(self.home.checkpoint(stage.name)).done < published:
            pause(stage)
        done = copy_checkpoint(self.home.checkpoint(stage.name), folder.checkpoint(stage.name))
        batch = first + done
        return SavedQuery(batch=batch, first_batch=first, commit=self._link(stage, folder, batch))

    def _stateful(self, stage: Stage, folder: SavedFolder, state_of: StateOf) -> SavedQuery:
        with state_of(stage) as state:
            if state is not None:
                state.write(folder.state(stage.name))
        generation, first = self.home.generation(stage.name), self._first_batch(stage)
        batch = first - 1 if state is None else state.batch
        return SavedQuery(
            batch=batch,
            first_batch=first,
            shards=None if generation is None else generation.shards,
            partitions=None if generation is None else generation.partitions,
            commit=self._link(stage, folder, batch),
        )

    def _first_batch(self, stage: Stage) -> int:
        """The number of the first micro-batch of the stage's generation."""
        generation = self.home.generation(stage.name)
        return 0 if generation is None else generation.first_batch

    def _link(self, stage: Stage, folder: SavedFolder, batch: int) -> int | None:
        """The last commit of the category of a stage, which the savepoint has if only stages read it."""
        connector = stage.sink.kind.connector
        if not (connector.logged or connector.relayed):
            return None
        path = self.home.control_file(stage.name, "sink")
        start = SinkStart.read(path)
        if start is None:
            if batch < 0:
                return None
            raise RunError(
                f"the file that says where stage {stage.name!r} began to write is missing",
                where=str(path),
                hint="start the application once, and it is written again",
            )
        last = start.first_commit + batch
        if stage.private and last >= 0:
            category = category_of(self.home.name, stage)
            link(self.home.home.log().open(category), folder.log, category, last)
        return last


class Saves(Protocol):
    """Takes savepoints of what runs."""

    def save(self, name: str) -> None:
        """Take one under a name."""


def answer_save(home: AppHome, queries: Saves, log: Log) -> None:
    """Take the savepoint that somebody has asked a running application for, if anybody has."""
    asked = Save.read(home.save_file)
    if asked is None:
        return
    began = time.monotonic()
    try:
        queries.save(asked.name)
        done = Answer(id=asked.id)
        log.info("savepoint taken", name=asked.name, seconds=round(time.monotonic() - began, 3))
    except (BraidError, OSError) as error:
        log.warning("no savepoint taken", error=str(error))
        done = Answer(id=asked.id, error=str(error))
    done.write(home.saved_file, durable=False)
    home.save_file.unlink(missing_ok=True)
