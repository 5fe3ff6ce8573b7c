"""A running application: all queries of a plan, watched, drained and stopped together."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from types import TracebackType

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from braid.core.config import parse_options
from braid.core.errors import RunError
from braid.core.logging import Log, log_to_file
from braid.core.threads import Threads, within
from braid.core.times import DAY
from braid.engine.cadence import Cadences, share_of
from braid.engine.ownership import check_inputs, check_outputs
from braid.engine.run_upkeep import RunUpkeep
from braid.engine.silences import Silences
from braid.home.lease import take_lease
from braid.home.metrics import MicroBatch
from braid.home.paths import AppHome, Home
from braid.home.status import RunState, Status, as_of
from braid.plan.dependencies import upstream
from braid.plan.retention import retention_warnings
from braid.plan.stages.base import Plan
from braid.spark.beginning import Beginning
from braid.spark.failures import explained
from braid.spark.keep_layout import KeepLayout
from braid.spark.launcher import Launcher
from braid.spark.processes.jvm import Jvm
from braid.spark.processes.session import close_session, open_session
from braid.spark.resuming import Resuming
from braid.spark.run_queries import STOP_SECONDS, RunQueries
from braid.spark.run_report import RunReport
from braid.spark.saving import answer_save
from braid.spark.stopping import answer_stop
from braid.spark.updating import NO_CONSENT, Consent, UpdateSteps

_WATCH_SECONDS = 0.25
_UPKEEP_SECONDS = 1.0
"""How often upkeep looks whether something is due."""
_SHARED_STOP_SECONDS = 60.0
"""How long queries may take to stop where Java is the caller's, and not to be killed."""

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
    consent
        What an update of the application may do.
    save
        Take a savepoint under this name, and end, instead of running.
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
        consent: Consent = NO_CONSENT,
        save: str | None = None,
        on_progress: Callable[[MicroBatch], None] | None = None,
        on_phase: Callable[[str], None] | None = None,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self.plan = plan
        self.home: AppHome = home.application(plan.application)
        self._overridden = tuple(options or ())
        self._options = self._as_set = parse_options({**dict(plan.options), **(options or {})})
        self._consent = consent
        self._save = save
        self._drain = drain
        self._create = create
        if drain:
            # A drain reads all that is in the log, so an input that has no rows right now is not idle.
            self._options = self._options.model_copy(update={"idle_timeout": NEVER})
        self._own = spark is None
        self._spark = spark
        self._start = (master, settings)
        self._on_phase = on_phase or (lambda phase: None)
        self._show = show or _print
        self._held = ExitStack()
        self._opening = threading.Lock()
        self._over = False
        self._session: SparkSession | None = None
        self._jvm: Jvm | None = None
        self._queries: RunQueries | None = None
        self._on_progress = on_progress
        self._cadences = self._cadence()
        self._report = RunReport(self.home, plan, self._options, self._cadences, self._progressed)
        self._error: BaseException | None = None
        self._threads = Threads(self.home.name, self.fail)
        self._begun = threading.Event()
        self._ended = threading.Event()
        self._upkeep: RunUpkeep | None = None
        self._launched = False
        self._drained = False

    _beginning: Beginning
    _lease: str
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
            self._beginning = Beginning.of(self.home, self.plan, self._as_set, self._consent)
            self.plan = self._beginning.plan
            check_outputs(self.home, self.plan, self._options)
            if not self.home.updating_file.exists():
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
        self._threads.start("start", self._begin)
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
        return as_of(self.home, self._now(), time.time())

    @property
    def state(self) -> RunState:
        """Where the application is in its life."""
        return self._report.status.state

    @property
    def paused(self) -> list[str]:
        """Which stages are held up, and why: inputs of joins that are paused, and what has gone wrong."""
        stages = self._now().stages.items()
        return [f"{name}: {why}" for name, stage in stages if (why := stage.held_up)]

    def process_available(self) -> None:
        """Wait until everything that is in the inputs now has gone through all stages that can take it."""
        assert self._queries is not None
        with nullcontext() if self._cadences is None else self._cadences.hurried():
            try:
                self._queries.process_available()
            except (RunError, Py4JError, OSError) as error:
                # The application ends with the cause; this is only how it has shown here.
                self.fail(error)
                self._ended.wait()
                raise self._error or error from None

    def rescale(self, *, shards: int | None = None, partitions: int | None = None) -> dict[str, float]:
        """Give joins and other stateful stages other shards and state partitions while they run.

        Returns how many seconds it took until each stage that has changed had done a micro-batch. What is not
        given is what the options and the executors say. The next start goes by these again.
        """
        assert self._queries is not None
        return self._queries.rescale(shards, partitions)

    def _now(self) -> Status:
        return self._report.status.now(self._report.metrics)

    def _progressed(self, batch: MicroBatch) -> None:
        if self._on_progress is not None and self._error is None:
            self._on_progress(batch)

    def __enter__(self) -> Application:
        return self if self.is_active else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended.is_set():
            self.stop()

    def _cadence(self) -> Cadences | None:
        """What lets sources wait, unless they are to read all there is, or Spark waits for them."""
        if self._drain or self._options.trigger:
            return None
        feeds = {stage.name: [one.name for one in upstream(self.plan, stage)] for stage in self.plan.stages}
        return Cadences(self.home.cadence_file, self._options.latency, feeds, share_of(self.home.name))

    # -- threads ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Start Spark and all queries, then the threads that watch them."""
        began = time.monotonic()
        stages = [stage.name for stage in self.plan.stages]
        verdict = self._beginning.verdict
        self._log.info("starting", drain=self._drain, master=self._start[0], update=verdict, stages=stages)
        for text in retention_warnings(self.plan, self._options):
            self._log.warning("retention is shorter than a window", detail=text)
        self._beginning.tell(self._log, self._overridden)
        with _writing():
            self._lease = self._report.holder = take_lease(self.home)
            for stage in self.plan.stages:
                for what in ("drain", "pacing", "seal"):
                    self.home.control_file(stage.name, what).unlink(missing_ok=True)
            self.home.rescale_file.unlink(missing_ok=True)
            self.home.save_file.unlink(missing_ok=True)
            self.home.stop_file.unlink(missing_ok=True)
            self.home.metrics_file("any").parent.mkdir(parents=True, exist_ok=True)
            self._report.begin()
        answer = partial(answer_stop, self.home, self._threads.stopping, self._log)
        self._threads.repeat("requests", _WATCH_SECONDS, partial(self._if_mine, answer))
        self._on_phase("starting Spark" if self._own else "opening the session")
        launcher = self._open_spark()
        stopping = self._threads.stopping
        launcher.prepare()
        steps = UpdateSteps(self.home, self._log, stopping, launcher, self._on_phase)
        if self._save is not None:
            self._beginning.save(self._save, steps)
            stopping.set()
            return
        self._beginning.carry_out(steps)
        with _writing():
            self._beginning.keep(self._as_set, self._overridden)
        self._on_phase(f"preparing {len(stages)} stages")
        self._queries = queries = RunQueries(
            self.home, self.plan, self._log, launcher, stopping, self._drain, self._show, self._own
        )
        queries.build()
        self._on_phase("starting queries")
        queries.start()
        if stopping.is_set():
            return
        self._log.info("started", seconds=round(time.monotonic() - began, 3))
        self._report.status.state = RunState.DRAINING if self._drain else RunState.RUNNING
        self._threads.repeat("watch", _WATCH_SECONDS, partial(self._watch, queries))
        if not self._drain:
            self._threads.start("layout", KeepLayout(self.home, self._log, queries, stopping).run)
            save = partial(answer_save, self.home, queries, self._log)
            self._threads.repeat("savepoints", _WATCH_SECONDS, partial(self._if_mine, save))
        self._upkeep = RunUpkeep(self.home, self._options, self._report.needs, self._log, stopping)
        self._threads.repeat("upkeep", _UPKEEP_SECONDS, partial(self._if_mine, self._upkeep.turn))
        if self._drain:
            self._threads.start("drain", partial(self._work_off, queries))
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
            on_phase=self._on_phase,
        )
        with self._opening:
            if not self._over:
                self._session, self._jvm = session, Jvm.of(session)
                cadence = None if self._cadences is None else str(self.home.cadence_file)
                return Launcher(session, self.home, self.plan, self._options, self._lease, cadence)
        if self._own:
            close_session(session, STOP_SECONDS)
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

    def _if_mine(self, turn: Callable[[], object]) -> None:
        """Do something, unless another run has taken the place of this one."""
        self._report.check()
        turn()

    def _watch(self, queries: RunQueries) -> None:
        """Collect metrics, and look for failures."""
        if self._upkeep is not None:
            self._report.status.troubles = self._upkeep.troubles
        self._report.turn(queries, self._silences, self._log)
        for name, failure in queries.failures():
            self._log.error("query failed", stage=name, raised=True)
            self.fail(explained(name, failure))
        for name in list(queries.stages):
            self._report.metrics[name].trouble = queries.trouble(name)

    def _diagnosed(self, error: BaseException) -> BaseException:
        """What is behind an error: of a call that Java did not answer, its end."""
        if self._jvm is not None and isinstance(error, Py4JError | ConnectionError):
            return self._jvm.ended(seconds=2.0) or error
        return error

    def _work_off(self, queries: RunQueries) -> None:
        """Drain, and end."""
        self._drained = queries.work_off()
        self._threads.stopping.set()

    def _finish(self) -> None:
        """Stop what still runs, write the last status, and let go of the application, whatever goes wrong."""
        end = time.monotonic() + (STOP_SECONDS if self._own else _SHARED_STOP_SECONDS)
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
        answering = self._jvm is not None and self._jvm.ended() is None and self._stop(end)
        # While Spark starts, it cannot be interrupted: it is left to find out, and to end, by itself.
        stuck = self._threads.join(_left(end) if self._jvm is not None else 1.0)
        if stuck:
            self._log.info("threads did not end", threads=stuck)
        # Some queries may have been started while the others were stopped.
        queries = self._queries
        if answering and self._stop(end) and queries is not None:
            try:
                within(
                    _left(end, 1.0), "last metrics", partial(self._report.collect, queries, self._silences)
                )
            except TimeoutError:
                self._log.warning("the last metrics are missing: Spark does not answer")

    def _stop(self, end: float) -> bool:
        """Stop all queries; False if Spark does not answer, and Java is to be killed."""
        if self._queries is None:
            return True
        answered, error = self._queries.stop(end)
        if error is not None:
            self._error = self._error or self._diagnosed(error)
        return answered

    def _say_last(self) -> None:
        """Write the last status and the last line of the log."""
        status = self._report.status
        if self._error is not None:
            status.state = RunState.FAILED
            status.error = str(self._error) or type(self._error).__name__
        else:
            status.state = RunState.DRAINED if self._drain and self._drained else RunState.STOPPED
        failed = None if self._error is None else type(self._error).__name__
        end = self._log.info if failed is None else self._log.error
        end("ended", state=status.state, error=failed, status=self.home.status_file, raised=True)
        self._report.end()


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _left(end: float, least: float = 0.0) -> float:
    """Seconds until a time."""
    return max(least, end - time.monotonic())


@contextmanager
def _writing() -> Iterator[None]:
    """While files of the application are written."""
    try:
        yield
    except OSError as error:
        raise _unwritable(error) from error


def _unwritable(error: OSError) -> RunError:
    """What to say of a file of the application that cannot be written."""
    return RunError(
        f"cannot be written: {error.strerror or error}",
        where=str(error.filename) if error.filename else None,
        hint="make room, or let this user write there, and start again: it goes on from its checkpoints",
    )
