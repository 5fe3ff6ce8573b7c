"""A running application: all queries of a plan, watched, drained and stopped together."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from types import TracebackType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from braid.core.config import parse_options
from braid.core.errors import RunError
from braid.core.logging import Log, log_to_file
from braid.core.threads import Threads, spawn, within
from braid.core.times import DAY
from braid.engine.cadence import Cadences
from braid.engine.needs import RunNeeds
from braid.engine.ownership import check_inputs, check_outputs
from braid.engine.run_metrics import Progress, RunStatus, StageMetrics
from braid.engine.run_upkeep import RunUpkeep
from braid.engine.silences import Silences
from braid.home.files import is_full, write_json
from braid.home.metrics import MicroBatch
from braid.home.options import write_options
from braid.home.paths import AppHome, Home
from braid.home.status import RunState, Status, as_of
from braid.plan.dependencies import reads_kept, upstream
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.physical.slicing import may_leave_out
from braid.plan.physical.targets import relay_name
from braid.plan.retention import retention_warnings
from braid.plan.serialise import plan_to_json
from braid.plan.stages.base import Plan, Stage
from braid.plan.update.change import Change
from braid.plan.update.diff import diff
from braid.plan.update.rules import Verdict
from braid.spark.failures import explained
from braid.spark.last_run import ran_plan
from braid.spark.launcher import Launcher
from braid.spark.processes.jvm import Jvm
from braid.spark.processes.session import close_session, open_session
from braid.spark.queries import Report
from braid.spark.resuming import Resuming
from braid.spark.supervised import Supervised

_WATCH_SECONDS = 0.25
_UPKEEP_SECONDS = 1.0
"""How often upkeep looks whether something is due."""
_STOP_SECONDS = 7.0
"""How long queries may take to stop until Java is killed, which is as safe at any time as it is quick."""
_SHARED_STOP_SECONDS = 60.0
"""The same where Java is the caller's, and not to be killed."""

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
    create
        Whether input categories that are not there are made, empty, instead of being refused.
    master, settings
        For a new Spark application.
    on_progress
        Called with the metrics of every micro-batch.
    on_phase
        Called with what a start, which takes seconds, is about to do.
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
        create: bool = False,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
        on_progress: Callable[[MicroBatch], None] | None = None,
        on_phase: Callable[[str], None] | None = None,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self.plan = plan
        self.home: AppHome = home.application(plan.application)
        self._overridden = tuple(options or ())
        self._options = self._as_set = parse_options({**dict(plan.options), **(options or {})})
        self._changed: list[Change] = []
        self._drain = drain
        self._create = create
        if drain:
            # A drain reads all that is in the log, so an input that has no rows right now is not idle.
            self._options = self._options.model_copy(update={"idle_timeout": NEVER})
        self._own = spark is None
        self._spark = spark
        self._start = (master, settings)
        self._on_progress = on_progress
        self._on_phase = on_phase or (lambda phase: None)
        self._show = show or _print
        self._held = ExitStack()
        self._opening = threading.Lock()
        self._over = False
        self._session: SparkSession | None = None
        self._jvm: Jvm | None = None
        self._launcher: Launcher | None = None
        self._queries: dict[str, Supervised] = {}
        self._relays: dict[str, Supervised] = {}
        self._metrics = {
            stage.name: StageMetrics(
                self.home,
                stage.name,
                stage.kind,
                _what(stage),
                stage.stateful,
                stage.categories(),
                isinstance(stage, SlicerStage) and not stage.categories() and may_leave_out(stage),
            )
            for stage in plan.stages
        }
        self._needs = RunNeeds(self.home, plan)
        self._status = RunStatus(self.home)
        self._cadences = self._cadence()
        self._error: BaseException | None = None
        self._threads = Threads(self.home.name, self.fail)
        self._begun = threading.Event()
        self._ended = threading.Event()
        self._upkeep: RunUpkeep | None = None
        self._launched = False
        self._drained = False
        self._full = False
        self._written = 0.0

    _log: Log
    _silences: Silences
    """From the start on."""

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> Application:
        """Start every stage, then watch them; returns when all queries run, or the application was stopped.

        All that talks to Spark runs in threads of the application: Java may be slow to answer, or never do,
        and the caller's thread must stay free for an interrupt.
        """
        self._held.enter_context(self.home.running())
        try:
            verdict = self._check_update()
            check_outputs(self.home, self.plan, self._options)
            Resuming(self.home, self.plan, self._options).check()
            check_inputs(self.home, self.plan, create=self._create)
            self._log = self._held.enter_context(log_to_file(self.home.log_file, self.home.name))
            self._silences = Silences(self._log)
        except BaseException as error:
            # Nothing has run: status and log of the last run must stay as they are.
            self._error = error
            self._held.close()
            self._ended.set()
            raise
        self._launched = True
        self._threads.start("start", partial(self._begin, verdict))
        self._threads.start("guard", self._guard)
        try:
            self._begun.wait()
        except BaseException:
            self.stop()
            raise
        if self._ended.is_set():
            self.wait()
        return self

    def stop(self) -> None:
        """Stop after the micro-batches that are running; the next start goes on from there."""
        if not self._launched:
            return
        if not self._threads.stopping.is_set():
            self._log.info("stopping")
        self._threads.stopping.set()
        self._ended.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the application has ended; raise what it failed with. False after the timeout."""
        if not self._ended.wait(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    def fail(self, error: BaseException) -> None:
        """End the application with an error, such as one that a thread has raised; the first one counts."""
        if not self._threads.stopping.is_set():
            self._error = self._error or self._diagnosed(error)
        self._threads.stopping.set()

    awaitTermination = wait  # noqa: N815
    """Spark's name for `wait`."""

    @property
    def is_active(self) -> bool:
        """Whether the application is running."""
        return self._begun.is_set() and not self._ended.is_set()

    @property
    def exception(self) -> BaseException | None:
        """What the application failed with."""
        return self._error

    @property
    def status(self) -> Status:
        """State, totals and last metrics of every stage, with backlog and lag as of now."""
        return as_of(self.home, self._status.now(self._metrics), time.time())

    @property
    def state(self) -> RunState:
        """Where the application is in its life."""
        return self._status.state

    @property
    def paused(self) -> list[str]:
        """Which stages are held up, and why: inputs of joins that are paused, and what has gone wrong."""
        stages = self._status.now(self._metrics).stages.items()
        return [f"{name}: {why}" for name, stage in stages if (why := stage.held_up)]

    def process_available(self) -> None:
        """Wait until everything that is in the inputs now has gone through all stages that can take it."""
        with nullcontext() if self._cadences is None else self._cadences.hurried():
            self._process_available()

    def _process_available(self) -> None:
        for stage in self.plan.stages:
            try:
                self._queries[stage.name].process_available()
            except (PySparkException, Py4JError, OSError) as error:
                # The application ends with the cause; this is only how it has shown here.
                self.fail(explained(stage.name, error) if isinstance(error, PySparkException) else error)
                self._ended.wait()
                raise self._error or error from None

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
        found = diff(ran_plan(self.home), self.plan.with_options(self._as_set))
        self._changed = [change for change in found.changes if change.subject.startswith("option ")]
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

    def _cadence(self) -> Cadences | None:
        """What lets sources wait, unless they are to read all there is, or Spark waits for them."""
        if self._drain or self._options.trigger:
            return None
        feeds = {stage.name: [one.name for one in upstream(self.plan, stage)] for stage in self.plan.stages}
        return Cadences(self.home.cadence_file, self._options.latency, feeds)

    def _build_queries(self, launcher: Launcher) -> None:
        """Build what reads inputs side by side, then what needs categories and tables of others, in order."""
        alone = [s for s in self.plan.stages if not upstream(self.plan, s) and not s.lookups]
        building = [spawn(f"build {stage.name}", partial(launcher.build, stage)) for stage in alone]
        for future in building:
            future.result()
        for stage in self.plan.stages:
            if stage not in alone:
                launcher.build(stage)

    def _start_queries(self, stages: Sequence[Stage]) -> None:
        """Start queries side by side: most of it is waiting for processes to start."""
        launcher, stopping = self._launcher, self._threads.stopping
        assert launcher is not None

        def start(stage: Stage) -> None:
            bounded = self._drain and not upstream(self.plan, stage)
            log = self._log.bind(stage=stage.name)
            begin = partial(launcher.start, stage, available_now=bounded)
            self._queries[stage.name] = Supervised(begin, log, stopping)
            if launcher.relayed(stage):
                relay = partial(launcher.relay, stage, self._show)
                self._relays[stage.name] = Supervised(relay, log, stopping)
            if stopping.is_set():
                # Whoever stops the others may not have seen it.
                self._stop_queries(time.monotonic() + _STOP_SECONDS)

        for future in [spawn(f"start {stage.name}", partial(start, stage)) for stage in stages]:
            future.result()

    # -- threads ----------------------------------------------------------------------------------

    def _begin(self, verdict: str | None) -> None:
        """Start Spark and all queries, then the threads that watch them."""
        began = time.monotonic()
        stages = [stage.name for stage in self.plan.stages]
        self._log.info("starting", drain=self._drain, master=self._start[0], update=verdict, stages=stages)
        for text in retention_warnings(self.plan, self._options):
            self._log.warning("retention is shorter than a window", detail=text)
        for change in self._changed:
            # Which options are the program's, and which were set at the start, is not seen from the program.
            self._log.warning(
                f"{change.subject} changed",
                values=change.detail,
                verdict=change.verdict.value,
                why=change.rule.reason,
                overridden=self._overridden,
            )
        try:
            for stage in self.plan.stages:
                for what in ("drain", "pacing"):
                    self.home.control_file(stage.name, what).unlink(missing_ok=True)
            self.home.metrics_file("any").parent.mkdir(parents=True, exist_ok=True)
            write_json(self.home.plan_file, plan_to_json(self.plan))
            write_options(self.home, self._as_set, self._overridden)
            self._needs.write()
            for metrics in self._metrics.values():
                metrics.begin()
            self._status.write(self._metrics)
            if self._cadences is not None:
                self._cadences.tell()
        except OSError as error:
            raise _unwritable(error) from error
        self._on_phase("starting Spark" if self._own else "opening the session")
        launcher = self._open_spark()
        self._on_phase(f"preparing {len(stages)} stages")
        launcher.prepare()
        self._build_queries(launcher)
        self._launcher = launcher
        self._on_phase("starting queries")
        self._start_queries([stage for stage in self.plan.stages if not self._waits(stage)])
        if self._threads.stopping.is_set():
            return
        self._log.info("started", seconds=round(time.monotonic() - began, 3))
        self._status.state = RunState.DRAINING if self._drain else RunState.RUNNING
        self._threads.repeat("watch", _WATCH_SECONDS, self._watch)
        stopping = self._threads.stopping
        self._upkeep = RunUpkeep(self.home, self._options, self._needs, self._log, stopping)
        self._threads.repeat("upkeep", _UPKEEP_SECONDS, self._upkeep.turn)
        if self._drain:
            self._threads.start("drain", self._work_off)
        self._begun.set()

    def _open_spark(self) -> Launcher:
        """Start Spark, or open a session of the caller's."""
        master, settings = self._start
        log = self.home.root / "spark.log"
        shared = self.home.home.root
        session = open_session(
            self._spark,
            master=master,
            settings=settings,
            log=log,
            home=shared,
            given_up=self._threads.stopping.is_set,
        )
        with self._opening:
            if not self._over:
                self._session, self._jvm = session, Jvm.of(session)
                cadence = None if self._cadences is None else str(self.home.cadence_file)
                return Launcher(session, self.home, self.plan, self._options, cadence)
        if self._own:
            close_session(session, _STOP_SECONDS)
        raise RunError("the application was stopped while Spark started")

    def _guard(self) -> None:
        """Wait for the end, or for that of Java, and bring it about. It never waits for Spark itself."""
        try:
            while not self._threads.stopping.wait(_WATCH_SECONDS):
                gone = None if self._jvm is None else self._jvm.ended()
                if gone is not None:
                    self.fail(gone)
        finally:
            self._finish()

    def _watch(self) -> None:
        """Collect metrics, and look for failures."""
        try:
            self._collect()
        except OSError as error:
            # On a full disk, metrics and status are not written, which is no reason to end.
            if not is_full(error):
                raise
            if not self._full:
                self._log.warning("status not written: the disk is full", path=self.home.status_file)
            self._full = True
        else:
            self._full = False
        for name, query in [*self._queries.items(), *self._relays.items()]:
            failure = query.failure()
            if failure is not None:
                self._log.error("query failed", stage=name, raised=True)
                self.fail(explained(name, failure))
        for name, query in list(self._queries.items()):
            trouble, relay = query.trouble(), self._relays.get(name)
            self._metrics[name].trouble = trouble or (None if relay is None else relay.trouble())

    def _collect(self) -> None:
        changed = False
        for name, query in list(self._queries.items()):
            reports = query.progress(expected=self._metrics[name].expects())
            reported = (
                Progress(one["batchId"], one["timestamp"], one["numInputRows"], one["durationMs"])
                for one in reports
            )
            done = self._metrics[name].take(reported)
            changed = changed or bool(done)
            if self._cadences is not None:
                for one in done:
                    self._cadences.took(name, one.duration_ms)
            if self._on_progress is not None and self._error is None:
                for one in done:
                    self._on_progress(one)
            by_batch = {one.batch: one for one in done}
            for report in reports:
                self._note_needs(name, report, by_batch.get(report["batchId"]))
        for stage in self.plan.stages:
            for report in (
                self._relays[stage.name].progress(expected=False) if stage.name in self._relays else ()
            ):
                self._note_needs(relay_name(stage), report, None)
        if self._upkeep is not None:
            self._status.troubles = self._upkeep.troubles
        if changed or time.time() - self._written > 1:
            self._written = time.time()
            for metrics in self._metrics.values():
                metrics.save()
            status = self._status.write(self._metrics)
            if self._options.idle == "wait":
                self._silences.tell(status.stages)
            if self._cadences is not None:
                self._cadences.tell()

    def _note_needs(self, query: str, progress: Report, done: MicroBatch | None) -> None:
        """Note what a micro-batch, if it was one, has left for the log to keep."""
        if "addBatch" in progress["durationMs"]:
            start = progress["sources"][0]["startOffset"]
            counts, written = (None, -1) if done is None else (done.counters, done.commit)
            self._needs.take(query, progress["batchId"], start, counts, time.time(), written)

    def _diagnosed(self, error: BaseException) -> BaseException:
        """What is behind an error: of a call that Java did not answer, its end."""
        if self._jvm is not None and isinstance(error, Py4JError | ConnectionError):
            return self._jvm.ended(seconds=2.0) or error
        return error

    def _work_off(self) -> None:
        """Drain: inputs first, then stage by stage in the order of the plan."""
        stopping = self._threads.stopping
        try:
            for stage in self.plan.stages:
                if self._waits(stage):
                    self._start_queries([stage])
                if stopping.is_set():
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
        except PySparkException as error:
            # The watch thread reports a failed query: give it time to. One that did not start is told here.
            stopping.wait(5)
            raise explained(stage.name, error) from error
        self._drained = True
        stopping.set()

    def _finish(self) -> None:
        """Stop what still runs, write the last status, and let go of the application, whatever goes wrong."""
        end = time.monotonic() + (_STOP_SECONDS if self._own else _SHARED_STOP_SECONDS)
        try:
            self._settle(end)
        except BaseException as error:  # noqa: BLE001  nothing may keep the application from ending
            self._error = self._error or self._diagnosed(error)
        try:
            self._say_last()
        except BaseException as error:  # noqa: BLE001  as above
            self._log.error("status not written", path=self.home.status_file, error=type(error).__name__)
            self._error = self._error or (_unwritable(error) if isinstance(error, OSError) else error)
        try:
            with self._opening:
                self._over = True
            self._close_spark(end)
            self._held.close()
        finally:
            self._ended.set()
            self._begun.set()

    def _close_spark(self, end: float) -> None:
        """End Spark if it was started here, by a time at most or a little later."""
        if self._own and self._session is not None and not close_session(self._session, _left(end, 1.0)):
            self._log.warning("Spark's Java process was killed", why="it is gone, or did not answer")

    def _settle(self, end: float) -> None:
        """Stop queries and threads until a time at most, and take the last metrics."""
        answering = self._jvm is not None and self._jvm.ended() is None and self._stop_queries(end)
        # While Spark starts, it cannot be interrupted: it is left to find out, and to end, by itself.
        stuck = self._threads.join(_left(end) if self._jvm is not None else 1.0)
        if stuck:
            self._log.info("threads did not end", threads=stuck)
        # Some queries may have been started while the others were stopped.
        if answering and self._stop_queries(end):
            try:
                within(_left(end, 1.0), "last metrics", self._collect)
            except TimeoutError:
                self._log.warning("the last metrics are missing: Spark does not answer")

    def _stop_queries(self, end: float) -> bool:
        """Stop all queries side by side; False if Spark does not answer, and Java is to be killed."""
        queries = [*self._queries.items(), *self._relays.items()]
        stopping = [(name, spawn(f"stop {name}", query.stop)) for name, query in queries]
        for name, future in stopping:
            try:
                future.result(_left(end))
            except TimeoutError:
                self._log.warning("query did not stop", stage=name)
                if self._own:
                    return False
                raise RunError(
                    f"the query of stage {name!r} did not stop", hint="stop the Spark session that it runs in"
                ) from None
            except (PySparkException, Py4JError, OSError) as error:
                self._error = self._error or self._diagnosed(error)
        return True

    def _say_last(self) -> None:
        """Write the last status and the last line of the log."""
        if self._error is not None:
            self._status.state = RunState.FAILED
            self._status.error = str(self._error) or type(self._error).__name__
        else:
            self._status.state = RunState.DRAINED if self._drain and self._drained else RunState.STOPPED
        failed = None if self._error is None else type(self._error).__name__
        end = self._log.info if failed is None else self._log.error
        end("ended", state=self._status.state, error=failed, status=self.home.status_file, raised=True)
        for metrics in self._metrics.values():
            # Java may be gone: what sinks have published is in files.
            metrics.take((), final=True)
            metrics.save()
        self._status.write(self._metrics)
        self._needs.write()


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _left(end: float, least: float = 0.0) -> float:
    """Seconds until a time."""
    return max(least, end - time.monotonic())


def _what(stage: Stage) -> str:
    text = stage.summary() + ", lookup" * bool(stage.lookups)
    return f"{text} to a lookup table" if stage.sink.kind.connector.keyed else text


def _unwritable(error: OSError) -> RunError:
    """What to say of a file of the application that cannot be written."""
    return RunError(
        f"cannot be written: {error.strerror or error}",
        where=str(error.filename) if error.filename else None,
        hint="make room, or let this user write there, and start again: it goes on from its checkpoints",
    )
