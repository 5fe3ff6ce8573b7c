"""Generations of a join change while it is killed at any step: nothing is lost, and nothing comes out twice.

The source, the shards, the sink and what changes generations are the real ones; a few lines stand for Spark,
which writes the offset of a micro-batch before it, and that it is done after it.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from braid.core.counters import merge
from braid.core.side import Side
from braid.core.times import SECOND
from braid.engine import dead_letters
from braid.engine.stepper import OperatorConfig, Stepper
from braid.home.control import Generation, Seal
from braid.home.counted import Counted, counted_files
from braid.home.files import write_text
from braid.home.paths import AppHome, Home
from braid.kernels.join.operator import JoinOperator
from braid.log.layout import shard_range
from braid.plan.physical.layout import layout
from braid.spark.checkpoints import begin_batch, end_batch, read_checkpoint, read_offset
from braid.spark.generations import Generations, forget_generations
from braid.spark.sinks.blocks import BlocksConfig, BlockWriter
from braid.spark.sources.steps import StepReader, StepSourceConfig
from braid.spark.sources.waiting import Waiting
from braid.testing.runtime import MemoryCell
from tests.engine.random_joins import INPUTS, START, RandomJoin
from tests.home.killed import Killed, Mortal
from tests.seeds import seeds

STAGE = "j"
OUT = pa.schema([("l", pa.int64()), ("r", pa.int64())])
LAYOUTS = (1, 2, 3, 5)


class Query:
    """A run of the query of a generation."""

    def __init__(self, app: AppHome, join: RandomJoin, clock: Callable[[], int]) -> None:
        generation = app.generation(STAGE)
        assert generation is not None
        self._clock, self._folder = clock, app.checkpoint(STAGE)
        self._shards = generation.shards
        root, savepoint = app.home.log_root, generation.savepoint
        begins = None if savepoint is None else str(app.savepoints / savepoint)
        self._source = StepReader(
            StepSourceConfig(
                root,
                join.admission(),
                tuple(range(generation.shards)),
                drain_file=str(app.control_file(STAGE, "drain")),
                status_file=str(app.control_file(STAGE, "pacing")),
                read_file=str(app.control_file(STAGE, "read")),
                seal_file=str(app.control_file(STAGE, "seal")),
                savepoint=begins,
            ),
            clock,
            Waiting(None),
        )
        ranges = tuple(shard_range(shard, generation.shards) for shard in range(generation.shards))
        operator = JoinOperator(join.spec, join.broadcast)
        run = uuid.uuid4().hex
        self._operator = OperatorConfig(root, INPUTS, operator, ranges, run, savepoint=begins)
        self._sink = BlockWriter(
            BlocksConfig(
                root=root,
                stage=STAGE,
                dead_letter=app.dead_letter,
                first_commit=0,
                first_batch=generation.first_batch,
                savepoints=str(app.savepoints),
                metrics=str(app.counts_folder),
                read_file=str(app.control_file(STAGE, "read")),
                category="out",
                chunk_rows=100,
            )
        )

    def trigger(self) -> bool:
        """One micro-batch; False if there was nothing to do."""
        found = read_checkpoint(self._folder)
        done = found.done
        start: Any = self._source.initialOffset() if done < 0 else self._offset(done)
        if found.in_flight:
            end: Any = self._offset(found.begun)
        else:
            end = self._source.latestOffset(start, None)  # type: ignore[arg-type]
            if end == start:
                return False
            begin_batch(self._folder, done + 1, self._clock() // 1000, json.dumps(end))
        self._run(done + 1, start, end)
        end_batch(self._folder, done + 1)
        return True

    def _offset(self, batch: int) -> Any:
        return json.loads(read_offset(self._folder, batch)[1])

    def _run(self, batch: int, start: Any, end: Any) -> None:
        states = [MemoryCell(value) for value in self._states(batch)]
        batches: list[pa.RecordBatch] = []
        for partition in self._source.partitions(start, end):
            for row in next(self._source.read(partition)).to_pylist():
                batches += Stepper(self._operator, states[row["shard"]]).step(row["shard"], row["step"])
        texts = [None if cell.value is None else cell.value.hex() for cell in states]
        write_text(self._folder / "state" / str(batch + 1), json.dumps(texts))
        self._sink.commit([self._sink.write(iter(batches))], batch)

    def _states(self, batch: int) -> list[bytes | None]:
        if batch == 0:
            return [None] * self._shards
        texts = json.loads((self._folder / "state" / str(batch)).read_text())
        return [None if text is None else bytes.fromhex(text) for text in texts]


class Life:
    """An application of one join: whoever is killed, the next one goes on."""

    def __init__(self, root: Path, seed: int) -> None:
        join = self.join = RandomJoin(seed, modes=RandomJoin.modes)
        join.options = join.options.model_copy(update={"idle_timeout": 10**12})
        home = Home.at(root)
        self.app = home.application("app")
        join.open(home.log_root)
        home.log().create("out", OUT, shards=1)
        dead_letters.create(home.log(), self.app.dead_letter)
        Generation(shards=join.shards, partitions=1).write(self.app.control_file(STAGE, "state"))
        self._ticks = list(join.ticks())
        self._now = 0
        self.query: Query
        self.changes = 0

    def start(self) -> None:
        """Begin, as a process does that knows nothing of the one before."""
        self.app.control_file(STAGE, "seal").unlink(missing_ok=True)
        forget_generations(self.app, STAGE)
        self.query = self._fresh()

    def _fresh(self) -> Query:
        return Query(self.app, self.join, lambda: (START + self._now) * SECOND)

    def publish(self) -> bool:
        """Let rows arrive; False if there are no more. Whoever publishes is another process."""
        if not self._ticks:
            return False
        self._now, arrived = self._ticks.pop(0)
        for side in Side:
            self.join.publish(side, arrived[side], self._now)
        return True

    def rescale(self, shards: int) -> None:
        """Another generation."""
        self.changes += 1
        Generations(self.app, Mock(), self).change(STAGE, self, layout(shards, 1))  # type: ignore[arg-type]

    def wait(self, seconds: float) -> bool:
        """What passes time while a savepoint is waited for: the query goes on."""
        self.query.trigger()
        return False

    def failure(self) -> None:
        """None: whatever happens here is raised."""

    def switch(self, change: Callable[[], None]) -> None:
        """As `Supervised` does."""
        change()
        self.query = self._fresh()

    def finish(self) -> None:
        """Drain."""
        write_text(self.app.control_file(STAGE, "drain"), "{}")
        while self.query.trigger():
            continue
        reader = self.app.home.log().open("out").reader()
        for number in range(reader.latest() + 1):
            for batch in reader.rows(number):
                self.join.emitted += zip(batch["l"].to_pylist(), batch["r"].to_pylist(), strict=True)
        counted = [Counted.read(path) for path in counted_files(self.app.counts_folder, STAGE).values()]
        self.join.counts = merge(one.counts.cumulative() for one in counted if one is not None)


@pytest.mark.parametrize("seed", seeds(25))
def test_generations_change_and_processes_are_killed(
    memory_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mortal, rng = Mortal(monkeypatch), random.Random(seed)
    life = Life(memory_path, seed)
    kills = 0
    life.start()
    while life.publish():
        try:
            with mortal.within(rng.randrange(1, 60)):
                for _ in range(rng.randrange(4)):
                    life.query.trigger()
                if rng.random() < 0.4:
                    life.rescale(rng.choice(LAYOUTS))
        except Killed:
            kills += 1
            life.start()
    life.finish()
    life.join.check_complete()
    life.start()
    assert len(list((life.app.root / "checkpoints").iterdir())) == 1
    assert len(list(life.app.savepoints.glob("j.*"))) <= 1


def test_a_generation_changes_killed_before_any_step(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every single step of a change, one after the other, until one change is over without a kill."""
    mortal = Mortal(monkeypatch)
    life = Life(memory_path, seed=7)
    life.start()
    for steps in range(1000):
        life.publish()
        try:
            with mortal.within(steps):
                life.query.trigger()
                life.rescale(LAYOUTS[steps % len(LAYOUTS)])
        except Killed:
            life.start()
            continue
        break
    assert 10 < steps < 500
    while life.publish():
        life.query.trigger()
    life.finish()
    life.join.check_complete()


def test_a_savepoint_that_nobody_waits_for_holds_up_nobody(memory_path: Path) -> None:
    life = Life(memory_path, seed=3)
    life.start()
    life.publish()
    while life.query.trigger():
        continue
    Seal(id="one").write(life.app.control_file(STAGE, "seal"))
    assert life.query.trigger()
    assert not life.query.trigger()
    assert (life.app.savepoints / "j.one.json").exists()
    life.start()
    while life.publish():
        life.query.trigger()
    life.finish()
    life.join.check_complete()
