"""From one generation of a stage to the next: with other shards and state partitions, or as another program.

The order of things is what makes it safe to be killed at any moment. The savepoint is written before its
micro-batch is done, and the record of the new generation, which is one file, after that. Until then the
stage goes on as it was, and what the attempt has left is removed; from then on it begins from the savepoint.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from braid.core.errors import RunError
from braid.core.logging import Log
from braid.engine.savepoints import Savepoint, is_savepoint_of, savepoint_name
from braid.home.control import Generation, Seal
from braid.home.files import write_text
from braid.home.paths import AppHome
from braid.plan.physical.layout import Layout
from braid.spark.checkpoints import read_checkpoint
from braid.spark.failures import explained
from braid.spark.supervised import Supervised

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Generations:
    """Changes the generations of a running application's stages.

    Parameters
    ----------
    home, log
        Of the application.
    stopping
        Set when nothing is to be started any more.
    """

    home: AppHome
    log: Log
    stopping: threading.Event

    def change(self, stage: str, query: Supervised, wanted: Layout) -> float:
        """Let a stage go on with another layout.

        Returns the seconds from the request until the first micro-batch of the new generation is done.
        """
        began = time.monotonic()
        with self.sealed(stage, query) as saved:
            saving = time.monotonic() - began
            query.switch(partial(self.begin, saved, wanted))
        switched = time.monotonic() - began
        self._begun(stage, query)
        forget_generations(self.home, stage)
        seconds = time.monotonic() - began
        self.log.info(
            "rescaled",
            stage=stage,
            shards=wanted.shards,
            partitions=wanted.partitions,
            seconds=round(seconds, 3),
            saving=round(saving, 3),
            switching=round(switched - saving, 3),
            opening=round(seconds - switched, 3),
        )
        return seconds

    @contextmanager
    def sealed(
        self, stage: str, query: Supervised, *, settles: bool = False, hurried: bool = False
    ) -> Iterator[Savepoint]:
        """Wait for a savepoint, after which the stage takes nothing in: see `Seal`, and `pause`."""
        seal = Seal(id=uuid.uuid4().hex[:12], settles=settles)
        asked = self.home.control_file(stage, "seal")
        seal.write(asked, durable=False)
        try:
            yield self._savepoint(stage, query, seal, hurried)
        finally:
            asked.unlink(missing_ok=True)

    def _savepoint(self, stage: str, query: Supervised, seal: Seal, hurried: bool) -> Savepoint:
        """Wait until the savepoint is there, and its micro-batch done."""
        path = self.home.savepoints / savepoint_name(stage, seal.id)
        generation = self._generation(stage)
        while not path.exists():
            self.pause(stage, query, hurried=hurried)
        saved = Savepoint.read(path)
        commits = self.home.checkpoint(stage) / "commits"
        while not (commits / str(saved.batch - generation.first_batch)).exists():
            self.pause(stage, query, hurried=hurried)
        return saved

    def _begun(self, stage: str, query: Supervised) -> None:
        """Wait until a micro-batch is done: in the first one, shards are built from savepoint and log."""
        commits = self.home.checkpoint(stage) / "commits"
        while not any(commits.glob("[0-9]*")):
            self.pause(stage, query)

    def pause(self, stage: str, query: Supervised, *, hurried: bool = False) -> None:
        """Pass a little time while a stage goes on.

        Raises if it cannot, or the application is stopped; with `hurried`, also if it is held up for a while,
        such as by a full disk.
        """
        if self.stopping.wait(_POLL_SECONDS):
            raise RunError(
                f"the application was stopped before stage {stage!r} had got that far",
                hint="it goes on where it is when it is started again",
            )
        failure = query.failure()
        if failure is not None:
            raise explained(stage, failure)
        trouble = query.trouble() if hurried else None
        if trouble is not None:
            raise RunError(f"stage {stage!r} is held up: {trouble}", hint="try again when it gets ahead")

    def begin(self, saved: Savepoint, wanted: Layout) -> None:
        """Write down the next generation. Nothing of the stage runs."""
        stage = saved.stage
        before = self._generation(stage)
        old, new = self.home.checkpoint(stage), self.home.checkpoint_of(stage, before.number + 1)
        checkpoint = read_checkpoint(old)
        if checkpoint.in_flight or before.first_batch + checkpoint.done != saved.batch:
            raise RunError(
                f"stage {stage!r} went on after its savepoint",
                hint="this is an error in Braid; start it again",
            )
        shutil.rmtree(new, ignore_errors=True)
        # The same query to Spark, and to whoever adds up what its micro-batches have counted.
        write_text(new / "metadata", (old / "metadata").read_text())
        Generation(
            shards=wanted.shards,
            partitions=wanted.partitions,
            number=before.number + 1,
            first_batch=saved.batch + 1,
            savepoint=saved.name,
        ).write(self.home.control_file(stage, "state"))

    def _generation(self, stage: str) -> Generation:
        found = self.home.generation(stage)
        assert found is not None
        return found


def forget_generations(home: AppHome, stage: str) -> None:
    """Remove the checkpoints and savepoints of a stage that are not of its present generation."""
    present = home.generation(stage)
    if present is None:
        return
    stay = {home.checkpoint(stage), home.savepoints / (present.savepoint or "")}
    found = [path for path in _entries(home.root / "checkpoints") if path.name.partition("@")[0] == stage]
    found += [path for path in _entries(home.savepoints) if is_savepoint_of(stage, path.name)]
    for path in found:
        if path in stay:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
