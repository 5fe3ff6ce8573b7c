"""Stands for Spark: runs micro-batches of a join with the real source, shards, sink and generations."""

from __future__ import annotations

import json
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa

from braid.core.counters import merge
from braid.core.side import Side
from braid.core.times import SECOND
from braid.engine import dead_letters
from braid.engine.stepper import OperatorConfig, Stepper, forget_run
from braid.home.control import Generation
from braid.home.counted import Counted, counted_files
from braid.home.files import write_text
from braid.home.paths import AppHome, Home
from braid.kernels.join.operator import JoinOperator
from braid.kernels.step import Step
from braid.log.layout import shard_range
from braid.plan.physical.layout import layout
from braid.spark.checkpoints import begin_batch, end_batch, read_checkpoint, read_offset
from braid.spark.generations import Generations, forget_generations
from braid.spark.sinks.blocks import BlocksConfig, BlockWriter
from braid.spark.sources.steps import StepReader, StepSourceConfig
from braid.spark.sources.waiting import Waiting
from braid.testing.runtime import MemoryCell
from tests.engine.random_joins import INPUTS, START, RandomJoin

STAGE = "j"
OUT = pa.schema([("l", pa.int64()), ("r", pa.int64())])
LAYOUTS = (1, 2, 3, 5)


class Query:
    """A run of the query of a generation.

    Parameters
    ----------
    app, join, clock
        What runs, and when.
    on_step
        Called with the step of every micro-batch that is stored, and its number.
    """

    isActive = True  # noqa: N815

    def __init__(
        self,
        app: AppHome,
        join: RandomJoin,
        clock: Callable[[], int],
        on_step: Callable[[int, Step], None] = lambda batch, step: None,
    ) -> None:
        self._on_step = on_step
        generation = app.generation(STAGE)
        assert generation is not None
        self._clock, self._folder = clock, app.checkpoint(STAGE)
        self._shards, self._first = generation.shards, generation.first_batch
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
        weakref.finalize(self, forget_run, run)
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
            # Like Spark, which does the first one of a checkpoint in any case.
            if end == start and done >= 0:
                return False
            begin_batch(self._folder, done + 1, self._clock() // 1000, json.dumps(end))
        self._run(done + 1, start, end)
        end_batch(self._folder, done + 1)
        return True

    def processAllAvailable(self) -> None:  # noqa: N802
        """Like Spark's."""
        while self.trigger():
            continue

    def stop(self) -> None:
        """Like Spark's; nothing runs by itself here."""

    def _offset(self, batch: int) -> Any:
        return json.loads(read_offset(self._folder, batch)[1])

    def _run(self, batch: int, start: Any, end: Any) -> None:
        states = [MemoryCell(value) for value in self._states(batch)]
        batches: list[pa.RecordBatch] = []
        step = ""
        for partition in self._source.partitions(start, end):
            for row in next(self._source.read(partition)).to_pylist():
                step = row["step"]
                batches += Stepper(self._operator, states[row["shard"]]).step(row["shard"], step)
        texts = [None if cell.value is None else cell.value.hex() for cell in states]
        write_text(self._folder / "state" / str(batch + 1), json.dumps(texts))
        self._sink.commit([self._sink.write(iter(batches))], batch)
        if step:
            self._on_step(self._first + batch, Step.from_text(step))

    def _states(self, batch: int) -> list[bytes | None]:
        if batch == 0:
            return [None] * self._shards
        texts = json.loads((self._folder / "state" / str(batch)).read_text())
        return [None if text is None else bytes.fromhex(text) for text in texts]


class Life:
    """An application of one join: whoever is killed, the next one goes on."""

    def __init__(self, root: Path, join: RandomJoin) -> None:
        self.join = join
        join.options = join.options.model_copy(update={"idle_timeout": 10**12})
        home = Home.at(root)
        self.app = home.application("app")
        join.open(home.log_root)
        home.log().create("out", OUT, shards=1)
        dead_letters.create(home.log(), self.app.dead_letter)
        Generation(shards=join.shards, partitions=1).write(self.app.control_file(STAGE, "state"))
        self._ticks = list(join.ticks())
        self._now = 0
        self._root = root
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
        """What passes time while a savepoint or a generation is waited for: the query goes on."""
        assert self.query.trigger(), "nothing more comes of the query, so one would wait for ever"
        return False

    def failure(self) -> None:
        """None: whatever happens here is raised."""

    def switch(self, change: Callable[[], None]) -> None:
        """As `Supervised` does."""
        change()
        self.query = self._fresh()

    def drain(self) -> None:
        """Take in what there is, and close all windows."""
        write_text(self.app.control_file(STAGE, "drain"), "{}")
        self.query.processAllAvailable()

    def finish(self) -> None:
        """Drain, and collect what has come out."""
        self.drain()
        reader = self.app.home.log().open("out").reader()
        for number in range(reader.latest() + 1):
            for batch in reader.rows(number):
                self.join.emitted += zip(batch["l"].to_pylist(), batch["r"].to_pylist(), strict=True)
        counted = [Counted.read(path) for path in counted_files(self.app.counts_folder, STAGE).values()]
        self.join.counts = merge(one.counts.cumulative() for one in counted if one is not None)
