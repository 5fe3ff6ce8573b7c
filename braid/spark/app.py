"""A running application: all queries of a plan, watched, drained and stopped together."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from types import TracebackType

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from braid.core.config import parse_options
from braid.core.errors import BraidError, RunError
from braid.core.logging import Log, log_to_file
from braid.core.times import DAY
from braid.engine.run_metrics import RunStatus, StageMetrics
from braid.home.files import write_json
from braid.home.metrics import MicroBatch
from braid.home.options import write_options
from braid.home.pacing import Pacing
from braid.home.paths import AppHome, Home
from braid.home.status import RunState, Status
from braid.plan.dependencies import reads_kept, upstream
from braid.plan.serialise import loads, plan_to_json
from braid.plan.stages.base import Plan, Stage
from braid.plan.update.diff import diff
from braid.plan.update.rules import Verdict
from braid.spark.launcher import Launcher
from braid.spark.processes.session import open_session
from braid.spark.supervised import Supervised

_WATCH_SECONDS = 0.25

NEVER = 100 * 365 * DAY
"""Longer than any run, in microseconds."""


class Application:
    """A handle like Spark's `StreamingQuery`, for a whole application.

    Parameters
    ----------
    plan
        What to run.
    home
        Where the log and the application's folder are.
    spark
        An existing session; a new Spark application is started otherwise, and stopped in the end.
    options
        Options that override those of the plan.
    drain
        Whether to work off what is there, close all windows and end.
    master, settings
        For a new Spark application.
    on_progress
        Called with the metrics of every micro-batch.
    show
        Called with every row of a CONSOLE table, as JSON.
    """

    def __init__(
        self,
        plan: Plan,
        home: Home,
        *,
        spark: SparkSession | None = None,
        options: Mapping[str, object] | None = None,
        drain: bool = False,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
        on_progress: Callable[[MicroBatch], None] | None = None,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self.plan = plan
        self.home: AppHome = home.application(plan.application)
        self._options = parse_options({**dict(plan.options), **(options or {})})
        self._drain = drain
        if drain:
            # A drain reads all that is in the log, so an input that has no rows right now is not idle.
            self._options = self._options.model_copy(update={"idle_timeout": NEVER})
        self._own = spark is None
        self._spark = spark
        self._start = (master, settings)
        self._on_progress = on_progress
        self._show = show or _print
        self._held = ExitStack()
        self._launcher: Launcher | None = None
        self._queries: dict[str, Supervised] = {}
        self._relays: dict[str, Supervised] = {}
        self._metrics = {
            stage.name: StageMetrics(self.home, stage.name, stage.kind, _what(stage)) for stage in plan.stages
        }
        self._status = RunStatus(self.home)
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._written = 0.0

    _log: Log
    """From the start on."""

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> Application:
        """Start every stage, then watch them; returns when all queries run."""
        self._held.enter_context(self.home.running())
        try:
            verdict = self._check_update()
        except BraidError as error:
            # Nothing has run: status and log of the last run must stay as they are.
            self._error = error
            self._held.close()
            self._ended.set()
            raise
        began = time.monotonic()
        self._log = self._held.enter_context(log_to_file(self.home.log_file, self.home.name))
        stages = [stage.name for stage in self.plan.stages]
        self._log.info("starting", drain=self._drain, master=self._start[0], update=verdict, stages=stages)
        try:
            for stage in self.plan.stages:
                self.home.control_file(stage.name, "drain").unlink(missing_ok=True)
            self.home.metrics_file("any").parent.mkdir(parents=True, exist_ok=True)
            write_json(self.home.plan_file, plan_to_json(self.plan))
            write_options(self.home, self._options)
            self._status.write(self._metrics)
            master, settings = self._start
            log = self.home.root / "spark.log"
            shared = self.home.home.root
            session = open_session(self._spark, master=master, settings=settings, log=log, home=shared)
            self._spark = session
            launcher = Launcher(session, self.home, self.plan, self._options)
            launcher.prepare()
            self._build_queries(launcher)
            self._launcher = launcher
            self._start_queries([stage for stage in self.plan.stages if not self._waits(stage)])
        except BaseException as error:
            self._error = self._error or error
            self._finish()
            raise
        self._log.info("started", seconds=round(time.monotonic() - began, 3))
        self._status.state = RunState.DRAINING if self._drain else RunState.RUNNING
        self._thread(self._watch)
        if self._drain:
            self._thread(self._work_off)
        return self

    def stop(self) -> None:
        """Stop after the micro-batches that are running; the next start goes on from there."""
        if not self._stopping.is_set():
            self._log.info("stopping")
        self._stopping.set()
        self._ended.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the application has ended; raise what it failed with. False after the timeout."""
        if not self._ended.wait(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    awaitTermination = wait  # noqa: N815
    """Spark's name for `wait`."""

    @property
    def is_active(self) -> bool:
        """Whether the application is running."""
        return bool(self._threads) and not self._ended.is_set()

    @property
    def exception(self) -> BaseException | None:
        """What the application failed with."""
        return self._error

    @property
    def status(self) -> Status:
        """State and last metrics of every stage."""
        return self._status.write(self._metrics)

    @property
    def state(self) -> RunState:
        """Where the application is in its life."""
        return self._status.state

    @property
    def paused(self) -> list[str]:
        """Which inputs of joins are paused, and why."""
        found = []
        for stage in self.plan.stages:
            pacing = Pacing.read(self.home.control_file(stage.name, "pacing"))
            if pacing is not None and pacing.why:
                found.append(f"{stage.name}: {pacing.why}")
        return found

    def process_available(self) -> None:
        """Wait until everything that is in the inputs now has gone through all stages that can take it."""
        for stage in self.plan.stages:
            self._queries[stage.name].process_available()

    def __enter__(self) -> Application:
        return self if self.is_active else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended.is_set():
            self.stop()

    def _check_update(self) -> str | None:
        """Refuse a program that cannot go on from what the last one left, before anything is touched.

        Returns the verdict; None at the first start.
        """
        if not self.home.plan_file.exists():
            return None
        found = diff(loads(self.home.plan_file.read_text()), self.plan)
        if found.verdict is Verdict.KEPT:
            return found.verdict.value
        worst = [change for change in found.changes if change.verdict is found.verdict]
        raise RunError(
            f"the update of application {self.home.name!r} is {found.verdict.value}: "
            + "; ".join(f"{change.subject}, {change.detail}" for change in worst),
            hint="; or ".join(dict.fromkeys(text for change in worst for text in change.rule.alternatives))
            or "run it as an application of another name, or in another home",
        )

    def _waits(self, stage: Stage) -> bool:
        """Whether a stage starts when those before it are done: in a drain, what it looks up comes first."""
        return self._drain and reads_kept(self.plan, stage)

    def _build_queries(self, launcher: Launcher) -> None:
        """Build what reads inputs side by side, then what needs categories and tables of others, in order."""
        alone = [s for s in self.plan.stages if not upstream(self.plan, s) and not s.lookups]
        with ThreadPoolExecutor(len(alone) or 1) as pool:
            list(pool.map(launcher.build, alone))
        for stage in self.plan.stages:
            if stage not in alone:
                launcher.build(stage)

    def _start_queries(self, stages: Sequence[Stage]) -> None:
        """Start queries side by side: most of it is waiting for processes to start."""
        launcher = self._launcher
        assert launcher is not None

        def start(stage: Stage) -> None:
            bounded = self._drain and not upstream(self.plan, stage)
            log = self._log.bind(stage=stage.name)
            self._queries[stage.name] = Supervised(partial(launcher.start, stage, available_now=bounded), log)
            if launcher.relayed(stage):
                self._relays[stage.name] = Supervised(partial(launcher.relay, stage, self._show), log)

        with ThreadPoolExecutor(len(stages)) as pool:
            started = [pool.submit(start, stage) for stage in stages]
        for future in started:
            future.result()

    # -- threads ----------------------------------------------------------------------------------

    def _thread(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=f"{self.home.name} {target.__name__}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _watch(self) -> None:
        """Collect metrics and look for failures until it is time to stop."""
        while not self._stopping.is_set():
            try:
                self._collect()
                self._look_for_failures()
            except Exception as error:  # noqa: BLE001  whatever it is, the application ends with it
                self._fail(error)
            self._stopping.wait(_WATCH_SECONDS)
        self._finish()

    def _collect(self) -> None:
        changed = False
        for name, query in list(self._queries.items()):
            for progress in query.query.recentProgress:
                done = self._metrics[name].take(
                    progress["batchId"],
                    progress["timestamp"],
                    progress["numInputRows"],
                    progress["durationMs"],
                )
                if done is not None:
                    changed = True
                    if self._on_progress is not None:
                        self._on_progress(done)
        if changed or time.time() - self._written > 1:
            self._written = time.time()
            self._status.write(self._metrics)

    def _look_for_failures(self) -> None:
        for name, query in [*self._queries.items(), *self._relays.items()]:
            failure = query.failure()
            if failure is not None:
                self._log.error("query failed", stage=name, raised=True)
                self._fail(_explained(name, failure))

    def _fail(self, error: BaseException) -> None:
        if self._error is None and not self._stopping.is_set():
            self._error = error
        self._stopping.set()

    def _work_off(self) -> None:
        """Drain: inputs first, then stage by stage in the order of the plan."""
        try:
            for stage in self.plan.stages:
                if self._waits(stage):
                    self._start_queries([stage])
                if self._stopping.is_set():
                    # `stop` may have gone through the queries before the last one was started.
                    self._stop_queries()
                    return
                query = self._queries[stage.name]
                if upstream(self.plan, stage):
                    if stage.stateful:
                        write_json(self.home.control_file(stage.name, "drain"), {})
                    query.process_available()
                    query.stop()
                else:
                    query.wait()
                if stage.name in self._relays:
                    self._relays[stage.name].process_available()
                self._log.info("stage drained", stage=stage.name)
        except Exception as error:  # noqa: BLE001  as above
            # The watch thread reports a failed query with its stage; give it time to. A query that did not
            # start is reported here.
            self._stopping.wait(5)
            self._fail(error)
        self._stopping.set()

    def _finish(self) -> None:
        """Stop what still runs, write the last status, and let go of the application."""
        self._stop_queries()
        try:
            if self._queries:
                self._collect()
            if self._error is not None:
                self._status.state, self._status.error = RunState.FAILED, str(self._error)
            else:
                self._status.state = RunState.DRAINED if self._drain else RunState.STOPPED
            self._status.write(self._metrics)
        finally:
            failed = None if self._error is None else type(self._error).__name__
            end = self._log.info if failed is None else self._log.error
            end("ended", state=self._status.state, error=failed, status=self.home.status_file, raised=True)
            if self._own and self._spark is not None:
                self._spark.sparkContext.stop()
            self._held.close()
            self._ended.set()

    def _stop_queries(self) -> None:
        for query in [*self._queries.values(), *self._relays.values()]:
            try:
                query.stop()
            except PySparkException as error:
                self._error = self._error or error


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _what(stage: Stage) -> str:
    text = stage.summary() + ", lookup" * bool(stage.lookups)
    return f"{text} to a lookup table" if stage.sink.kind.connector.keyed else text


def _explained(stage: str, failure: PySparkException) -> RunError:
    """What a user needs of a failed query: the error that Braid raised in a worker, or Spark's."""
    text = str(failure)
    found = re.findall(r"braid\.core\.errors\.(\w+): ((?:.|\n)*?)(?:\n\n|\n\tat |\n SQLSTATE|$)", text)
    what = found[-1][1].strip() if found else re.split(r"\n(?:\tat |=== Streaming Query)", text)[0].strip()
    return RunError(f"stage {stage!r} failed: {what}")
