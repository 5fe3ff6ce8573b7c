"""The queries of a run: built and started side by side, worked off in a drain, and stopped together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from braid.core.errors import RunError
from braid.core.logging import Log
from braid.core.threads import spawn
from braid.engine.savepoints import Savepoint
from braid.home.files import write_json
from braid.home.paths import AppHome
from braid.plan.dependencies import reads_kept, upstream
from braid.plan.stages.base import Plan, Stage
from braid.spark.failures import explained
from braid.spark.generations import Generations, forget_generations
from braid.spark.keep_spread import KeepSpread
from braid.spark.launcher import Launcher
from braid.spark.placement import UnknownRegisterError
from braid.spark.queries import Query
from braid.spark.saving import Saving
from braid.spark.supervised import Supervised

STOP_SECONDS = 7.0
"""How long queries may take to stop until Java is killed, which is as safe at any time as it is quick."""
_REPORT_SECONDS = 5.0
"""How long whoever watches the queries may take to tell of one that has failed."""


@dataclass
class RunQueries:
    """One query per stage of a plan, and one more for every stage whose rows are relayed.

    Parameters
    ----------
    home, plan, log
        Of the application.
    launcher
        Starts them.
    stopping
        Set when nothing is to be started any more.
    drain
        Whether they are to end when they have read what is there.
    show
        Called with every row of a CONSOLE table, as JSON.
    own
        Whether Java may be killed if it does not answer.
    """

    home: AppHome
    plan: Plan
    log: Log
    launcher: Launcher
    stopping: threading.Event
    drain: bool
    show: Callable[[str], None]
    own: bool
    stages: dict[str, Supervised] = field(default_factory=dict)
    relays: dict[str, Supervised] = field(default_factory=dict)
    _changing: threading.Lock = field(default_factory=threading.Lock)
    _changes: int = 0
    _spread: frozenset[str] = frozenset()
    """Executors that there were when stateful stages were last spread over them."""
    _places: dict[str, KeepSpread] = field(default_factory=dict)
    _unknown: bool = False
    """Whether it has been said that places are left to Spark."""

    def build(self) -> None:
        """Build what reads inputs side by side, then what needs categories and tables of others, in order."""
        alone = [s for s in self.plan.stages if not upstream(self.plan, s) and not s.lookups]
        building = [spawn(f"build {stage.name}", partial(self.launcher.build, stage)) for stage in alone]
        for future in building:
            future.result()
        for stage in self.plan.stages:
            if stage not in alone:
                self.launcher.build(stage)

    def start(self) -> None:
        """Start all queries but those that wait for others."""
        for stage in self.plan.stages:
            forget_generations(self.home, stage.name)
        self._spread = frozenset(self.launcher.executors())
        self._start([stage for stage in self.plan.stages if not self._waits(stage)])

    def rescale(self, shards: int | None = None, partitions: int | None = None) -> dict[str, float]:
        """Give stateful stages the layout that they would have if they began now, or the one asked for.

        Returns after how many seconds each had done a micro-batch; nothing of those that have it already.
        """
        generations, found = Generations(self.home, self.log, self.stopping), {}
        with self._changing:
            self._changes += 1
            executors = self.launcher.executors()
            for stage in self.plan.stages:
                present = self.home.generation(stage.name) if stage.stateful else None
                if present is None:
                    continue
                wanted = self.launcher.wanted(stage, shards, partitions)
                if (wanted.shards, wanted.partitions) != (present.shards, present.partitions):
                    change = partial(generations.change, stage.name, self.stages[stage.name], wanted)
                    found[stage.name] = spawn(f"rescale {stage.name}", change)
            seconds = {name: future.result() for name, future in found.items()}
            self._spread = frozenset(executors)
            self.keep_spread()
            return seconds

    def save(self, name: str) -> None:
        """Take a savepoint of all stages; those that have a state pause for a micro-batch, one by one."""
        generations = Generations(self.home, self.log, self.stopping)

        @contextmanager
        def state_of(stage: Stage) -> Iterator[Savepoint]:
            with generations.sealed(stage.name, self.stages[stage.name], hurried=True) as saved:
                try:
                    yield saved
                finally:
                    (self.home.savepoints / saved.name).unlink(missing_ok=True)

        def pause(stage: Stage) -> None:
            generations.pause(stage.name, self.stages[stage.name], hurried=True)

        with self._changing:
            self._changes += 1
            Saving(self.home, self.plan, self.launcher.options).save(name, state_of, pause)

    def keep_spread(self) -> None:
        """Move state partitions that are not where they are to be; executors that have come get none yet."""
        alive = self.launcher.executors()
        for name in list(self._places):
            self._keep_spread(name, alive, self._spread)

    def new_executors(self) -> frozenset[str]:
        """Executors that have come since shards were spread: there are none on them."""
        return frozenset(self.launcher.executors()) - self._spread

    def process_available(self) -> None:
        """Wait until what is there has gone through all stages; raise what a query has failed with."""
        for stage in self.plan.stages:
            try:
                # Between its savepoint and its next generation a stage takes nothing in, and is done at once
                # whatever there is. So it is asked again if there has been a change meanwhile.
                before, now = -1, self._changed()
                while now != before:
                    self.stages[stage.name].process_available()
                    before, now = now, self._changed()
            except PySparkException as error:
                raise explained(stage.name, error) from error

    def _changed(self) -> int:
        """How many changes of generations and savepoints there were; waits for the end of one."""
        with self._changing:
            return self._changes

    def work_off(self) -> bool:
        """Drain: inputs first, then stage by stage in the order of the plan. False if that was stopped."""
        try:
            for stage in self.plan.stages:
                if self._waits(stage):
                    self._start([stage])
                if self.stopping.is_set():
                    return False
                self._work_off(stage)
                if self.stopping.is_set():
                    return False  # the query may have ended for that
                self.log.info("stage drained", stage=stage.name)
        except PySparkException as error:
            # The watch thread reports a failed query: give it time to. One that did not start is told here.
            self.stopping.wait(_REPORT_SECONDS)
            raise explained(stage.name, error) from error
        return True

    def failures(self) -> Iterator[tuple[str, PySparkException]]:
        """What queries have failed with for good, by stage."""
        for name, query in [*self.stages.items(), *self.relays.items()]:
            failure = query.failure()
            if failure is not None:
                yield name, failure

    def trouble(self, stage: str) -> str | None:
        """What keeps a stage from getting ahead."""
        relay = self.relays.get(stage)
        return self.stages[stage].trouble() or (None if relay is None else relay.trouble())

    def stop(self, end: float) -> tuple[bool, Exception | None]:
        """Stop all queries side by side, until a time at most.

        Returns whether Spark has answered, or else Java is to be killed; and what it has answered, if not
        that all is well.
        """
        queries = [*self.stages.items(), *self.relays.items()]
        stopping = [(name, spawn(f"stop {name}", query.stop)) for name, query in queries]
        found: Exception | None = None
        for name, future in stopping:
            try:
                future.result(max(0.0, end - time.monotonic()))
            except TimeoutError:
                self.log.warning("query did not stop", stage=name)
                if self.own:
                    return False, found
                raise RunError(
                    f"the query of stage {name!r} did not stop", hint="stop the Spark session that it runs in"
                ) from None
            except (PySparkException, Py4JError, OSError) as error:
                found = found or error
        return True, found

    def _start(self, stages: Sequence[Stage]) -> None:
        """Start queries side by side: most of it is waiting for processes to start."""
        for future in [spawn(f"start {stage.name}", partial(self._start_one, stage)) for stage in stages]:
            future.result()

    def _start_one(self, stage: Stage) -> None:
        bounded = self.drain and not upstream(self.plan, stage)
        log = self.log.bind(stage=stage.name)
        begin = partial(self._begin, stage, bounded=bounded)
        first = partial(self.launcher.first_batch, stage.name)
        self.stages[stage.name] = Supervised(begin, log, self.stopping, bounded=bounded, first_batch=first)
        if self.launcher.relayed(stage):
            relay = partial(self.launcher.relay, stage, self.show)
            self.relays[stage.name] = Supervised(relay, log, self.stopping)
        if self.stopping.is_set():
            # Whoever stops the others may not have seen it.
            self.stop(time.monotonic() + STOP_SECONDS)

    def _begin(self, stage: Stage, *, bounded: bool) -> Query:
        """Start a query, and say where its state partitions are to be before its first task asks for that.

        Else chance decides: while other queries keep an executor busy, several of them begin on another one.
        """
        query = self.launcher.start(stage, available_now=bounded)
        if stage.stateful:
            self._places.pop(stage.name, None)
            alive = self.launcher.executors()
            with self._told():
                register = self.launcher.register(stage.name, query)
                if register is not None:
                    self._places[stage.name] = KeepSpread(register, self.log.bind(stage=stage.name))
            self._keep_spread(stage.name, alive, alive)
        return query

    def _keep_spread(self, stage: str, alive: Sequence[str], chosen: Collection[str]) -> None:
        with self._told():
            if (places := self._places.get(stage)) is not None:
                places.keep(alive, chosen)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Where Spark cannot be told where state partitions are to be, say so once: that is left to it."""
        try:
            yield
        except UnknownRegisterError as error:
            if not self._unknown and not self.stopping.is_set():
                self.log.warning("shards are where Spark puts them", error=str(error))
                self._unknown = True

    def _waits(self, stage: Stage) -> bool:
        """Whether a stage starts when those before it are done: in a drain, what it looks up comes first."""
        return self.drain and reads_kept(self.plan, stage)

    def _work_off(self, stage: Stage) -> None:
        query = self.stages[stage.name]
        if upstream(self.plan, stage):
            if stage.stateful:
                write_json(self.home.control_file(stage.name, "drain"), {})
            query.process_available()
            query.stop()
        else:
            query.wait()
        if stage.name in self.relays:
            self.relays[stage.name].process_available()
