"""Takes a savepoint of an application, running or stopped.

Stage by stage, those that read before those that write: so whatever a reader has read by its savepoint, the
writer has written by its own. Only a stage with a state pauses, for one micro-batch that takes nothing in.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

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
from braid.spark.checkpoints import copy_checkpoint

_PATIENCE = 60.0
"""Seconds that another process may be at the upkeep of the home."""

StateOf = Callable[[Stage], AbstractContextManager[Savepoint | None]]
"""The state of a stage, which takes nothing in until the block ends; None if it has never run."""


@dataclass(frozen=True)
class Saving:
    """Takes savepoints.

    Parameters
    ----------
    home, plan
        Of the application.
    """

    home: AppHome
    plan: Plan

    def save(self, name: str, state_of: StateOf) -> Saved:
        """Take a savepoint under a name."""
        home = self.home.home
        if SavedFolder.of(home, name).root.exists():
            raise RunError(f"savepoint {name!r} exists", hint="choose another name, or drop it first")
        # Whoever is at the upkeep may remove or compact what is to be linked.
        with alone_at_upkeep(home, _PATIENCE):
            folder = SavedFolder.draft(home, name)
            queries: dict[str, SavedQuery] = {}
            for stage in reversed(self.plan.stages):
                if stage.sink.kind.connector.relayed:
                    relay = relay_name(stage)
                    done = copy_checkpoint(self.home.checkpoint(relay), folder.checkpoint(relay))
                    queries[relay] = SavedQuery(batch=done)
                queries[stage.name] = self._save(stage, folder, state_of)
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
            folder.publish(home, name)
        return saved

    def _save(self, stage: Stage, folder: SavedFolder, state_of: StateOf) -> SavedQuery:
        if not stage.stateful:
            done = copy_checkpoint(self.home.checkpoint(stage.name), folder.checkpoint(stage.name))
            return SavedQuery(batch=done, commit=self._link(stage, folder, self._first_batch(stage) + done))
        with state_of(stage) as state:
            if state is None:
                return SavedQuery(batch=-1, commit=self._link(stage, folder, self._first_batch(stage) - 1))
            state.write(folder.state(stage.name))
            generation = self.home.generation(stage.name)
            assert generation is not None
            return SavedQuery(
                batch=state.batch,
                shards=generation.shards,
                partitions=generation.partitions,
                commit=self._link(stage, folder, state.batch),
            )

    def _first_batch(self, stage: Stage) -> int:
        """The number of the first micro-batch of the stage's generation."""
        generation = self.home.generation(stage.name)
        return 0 if generation is None else generation.first_batch

    def _link(self, stage: Stage, folder: SavedFolder, done: int) -> int | None:
        """The last commit of the category of a stage, which the savepoint has if only stages read it."""
        connector = stage.sink.kind.connector
        start = SinkStart.read(self.home.control_file(stage.name, "sink"))
        if done < 0 or start is None or not (connector.logged or connector.relayed):
            return None
        last = start.first_commit + done
        if stage.sink.internal or connector.relayed:
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
