"""Whatever dies, or is damaged, an application ends with an error or goes on; it never hangs."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from braid import api
from braid.api.data import publish, read
from braid.core.errors import RunError
from braid.home.metrics import MicroBatch
from braid.home.paths import Home
from braid.home.status import read_status
from braid.plan.stages.base import Plan
from tests.spark import families

pytestmark = pytest.mark.spark

WAIT = 120.0
"""Seconds that nothing here takes, even on a busy machine."""
LAST_WORDS = 20.0
"""Seconds until all that a process that has ended has said is read."""
PROGRAM = """
  CREATE APPLICATION app WITH (shards = 2, chunk_rows = 100, batch_rows = 1000, idle_timeout = '1 hour');
  CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
  CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
  CREATE TABLE out AS SELECT l.id AS lid, r.id AS rid FROM l LEFT JOIN r ON l.k = r.k
    AND r.t BETWEEN l.t - INTERVAL '10 seconds' AND l.t + INTERVAL '10 seconds'
    STORAGE SCRIBE(category = "out");
"""
COPY = """
  CREATE APPLICATION app;
  CREATE INPUT TABLE l (id bigint, k string) FROM SCRIBE("l");
  CREATE TABLE out AS SELECT id, k FROM l STORAGE SCRIBE(category = "out");
"""


def compiled(text: str) -> Plan:
    return api.compile_text(text).plan


def rows(start: int, stop: int) -> list[dict[str, object]]:
    return [{"id": n, "t": 1_700_000_000 + n, "k": f"k{n}"} for n in range(start, stop)]


def feed(home: Home, start: int, stop: int) -> None:
    for name in ("l", "r"):
        publish(name, rows(start, stop), home)


def ids(home: Home, column: str = "id") -> list[int]:
    return sorted(row[column] for row in read("out", home).to_pylist())


def until(met: Callable[[], object], alive: Callable[[], bool] = lambda: True) -> None:
    """Wait for something."""
    end = time.monotonic() + WAIT
    while not met():
        assert alive()
        assert time.monotonic() < end
        time.sleep(0.05)


# -- in this process, with a session that others use, too -----------------------------------------


def test_an_error_in_on_progress_ends_the_application(spark: object, home: Home) -> None:
    publish("l", rows(0, 10), home)

    def wrong(batch: MicroBatch) -> None:
        raise ZeroDivisionError(f"in {batch.stage}")

    handle = api.run(compiled(COPY), home.root, spark=spark, on_progress=wrong)
    with pytest.raises(ZeroDivisionError, match="in out"):
        handle.wait(WAIT)
    assert isinstance(handle.exception, ZeroDivisionError)
    handle.stop()
    status = read_status(home.application("app"))
    assert status is not None
    assert (status.state, status.error) == ("failed", "in out")
    assert not home.application("app").is_running()
    api.run(compiled(COPY), home.root, spark=spark, drain=True).wait(WAIT)
    assert ids(home) == list(range(10))


def test_a_console_that_is_gone_ends_the_application(spark: object, home: Home) -> None:
    from braid.spark.app import Application

    publish("l", rows(0, 3), home)

    def gone(line: str) -> None:
        raise BrokenPipeError("nobody reads")

    plan = compiled(COPY.replace('SCRIBE(category = "out")', "CONSOLE"))
    handle = Application(plan, home, spark=spark, show=gone).start()
    with pytest.raises(RunError, match=r"stage 'out' failed: (.|\n)*BrokenPipeError: nobody reads"):
        handle.wait(WAIT)


def test_a_handle_that_never_ran_does_not_hang(home: Home) -> None:
    from braid.spark.app import Application

    Application(compiled(COPY), home).stop()


def test_a_lost_checkpoint_is_refused_before_anything_is_touched(spark: object, home: Home) -> None:
    publish("l", rows(0, 10), home)
    plan, app = compiled(COPY), home.application("app")
    api.run(plan, home.root, spark=spark, drain=True).wait(WAIT)
    kept = home.root / "kept"
    shutil.copytree(app.checkpoint("out"), kept)
    shutil.rmtree(app.checkpoint("out"))
    publish("l", rows(10, 20), home)
    before = app.status_file.read_text()
    with pytest.raises(RunError, match="is missing, and out has its commits up to 0"):
        api.run(plan, home.root, spark=spark, drain=True)
    assert app.status_file.read_text() == before
    shutil.copytree(kept, app.checkpoint("out"))
    (app.checkpoint("out") / "offsets" / "0").write_text("")
    with pytest.raises(RunError, match=r"offsets/0: .* damaged or cut off"):
        api.run(plan, home.root, spark=spark, drain=True)
    shutil.rmtree(app.checkpoint("out"))
    shutil.copytree(kept, app.checkpoint("out"))
    api.run(plan, home.root, spark=spark, drain=True).wait(WAIT)
    assert ids(home) == list(range(20))


def test_damaged_control_files_are_named_or_mended(spark: object, home: Home) -> None:
    feed(home, 0, 50)
    plan, app = compiled(PROGRAM), home.application("app")
    with api.run(plan, home.root, spark=spark) as running:
        running.process_available()
        stage = next(stage.name for stage in plan.stages if stage.stateful)
        # It is for the user to read only, and written again when something changes.
        app.control_file(stage, "pacing").write_text('{"inp')
        until(lambda: any("damaged" in why for why in running.paused))
        feed(home, 50, 100)
        running.process_available()
    for what, words in (("sink", "not JSON"), ("state", "is damaged")):
        path = app.control_file(stage, what)
        good = path.read_text()
        path.write_text("{")
        with pytest.raises(RunError, match=rf"{stage}.{what}.json: .*{words}(.|\n)*hint"):
            api.run(plan, home.root, spark=spark)
        path.write_text(good)
    # What a stage tells while it runs is written anew by every start.
    for what in ("pacing", "read", "buffered"):
        app.control_file(stage, what).write_text("{")
    api.run(plan, home.root, spark=spark, drain=True).wait(WAIT)
    assert ids(home, "lid") == list(range(100))
    assert all(row["lid"] == row["rid"] for row in read("out", home).to_pylist())


def test_a_full_disk_is_waited_for(spark: object, small_disk: Path) -> None:
    home = Home.at(small_disk / "home")
    feed(home, 0, 100)
    with api.run(compiled(PROGRAM), home.root, spark=spark) as running:
        running.process_available()
        feed(home, 100, 200)
        filler = small_disk / "filler"
        with suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(4096))
        until(lambda: any("the disk is full: waiting" in why for why in running.paused))
        assert running.is_active
        filler.unlink()
        running.process_available()
        assert running.paused == []
    api.run(compiled(PROGRAM), home.root, spark=spark, drain=True).wait(WAIT)
    assert ids(home, "lid") == list(range(200))
    assert all(row["lid"] == row["rid"] for row in read("out", home).to_pylist())


# -- in processes of their own ---------------------------------------------------------------------


class Run:
    """`braid run` in a process of its own."""

    def __init__(self, home: Home, text: str, *more: str) -> None:
        self.app = home.application("app")
        program = home.root.parent / "app.sql"
        program.write_text(text)
        command = [sys.executable, "-m", "braid.cli", "run", str(program), "--home", str(home.root)]
        self.process = subprocess.Popen(
            [*command, "--master", "local[2]", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def done(self, stage: str = "out") -> int:
        """The last micro-batch of a stage; -1 before the first one."""
        assert self.process.poll() is None, self.process.communicate(timeout=LAST_WORDS)
        with suppress(RunError):
            status = read_status(self.app)
            if status is not None and status.state == "running":
                last = status.stages[stage].last
                return -1 if last is None else last.batch
        return -1

    def family(self) -> list[psutil.Process]:
        """All that it has started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def driver(self) -> psutil.Process:
        return psutil.Process(self.process.pid)

    def java(self) -> psutil.Process:
        found = families.java(self.driver())
        assert found is not None
        return found

    def end(self) -> tuple[int, str]:
        """Its exit code and what it said; everything that it has started must be gone, too."""
        output = self.process.communicate(timeout=WAIT)
        return self.process.returncode, "".join(output)

    def kill(self) -> None:
        """End what is left of it."""
        if self.process.poll() is None:
            family = self.family()
            self.process.kill()
            families.kill(family)
        # What has lost its parent before may still have the pipes.
        with suppress(subprocess.TimeoutExpired):
            self.process.communicate(timeout=LAST_WORDS)


@pytest.fixture
def run(home: Home) -> Iterator[Callable[..., Run]]:
    """Start `braid run`; what is left of it is killed after the test."""
    started: list[Run] = []

    def start(text: str, *more: str) -> Run:
        started.append(Run(home, text, *more))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def all_gone(family: list[psutil.Process]) -> bool:
    """Whether processes have ended, as they do by themselves when their parents have."""
    return psutil.wait_procs(family, timeout=WAIT)[1] == []


def test_a_killed_jvm_ends_the_run_and_the_next_one_goes_on(
    spark: object, home: Home, run: Callable[..., Run]
) -> None:
    publish("l", rows(0, 50), home)
    running = run(COPY)
    until(lambda: running.done() >= 0)
    family = running.family()
    running.java().kill()
    killed = time.monotonic()
    code, said = running.end()
    # Ten seconds are promised; machines that run tests are loaded.
    assert time.monotonic() - killed < 30
    assert code == 1
    assert "Java process" in said
    assert "killed by signal 9" in said
    assert "Traceback" not in said
    status = read_status(running.app)
    assert status is not None
    assert status.state == "failed"
    assert "killed by signal 9" in str(status.error)
    assert all_gone(family)
    publish("l", rows(50, 80), home)
    api.run(compiled(COPY), home.root, spark=spark, drain=True).wait(WAIT)
    assert ids(home) == list(range(80))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_work_while_an_application_starts(
    home: Home, run: Callable[..., Run], number: signal.Signals
) -> None:
    publish("l", rows(0, 5), home)
    starting = run(COPY)
    until(lambda: starting.app.status_file.exists(), lambda: starting.process.poll() is None)
    family = starting.family()
    starting.process.send_signal(number)
    code, said = starting.end()
    assert (code, said.splitlines()[-1]) == (128 + number, "stopped while starting")
    assert "Traceback" not in said
    assert json.loads(starting.app.status_file.read_text())["state"] == "stopped"
    assert all_gone(family)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_a_running_application_in_good_order(
    home: Home, run: Callable[..., Run], number: signal.Signals
) -> None:
    publish("l", rows(0, 5), home)
    running = run(COPY)
    until(lambda: running.done() >= 0)
    # The first one may be done before the main thread is: a signal would still meet the start.
    publish("l", rows(5, 10), home)
    until(lambda: running.done() >= 1)
    family = running.family()
    assert family
    running.process.send_signal(number)
    code, said = running.end()
    assert code == 0, said
    assert "app: stopped after" in said
    assert "Traceback" not in said
    status = read_status(running.app)
    assert status is not None
    assert status.state == "stopped"
    assert not running.app.is_running()
    assert all_gone(family)
    assert ids(home) == list(range(10))


def test_an_interrupted_thread_is_not_needed_to_end(home: Home) -> None:
    """`start` gives up, and cleans up, when the caller is interrupted while Spark starts."""
    from braid.spark import app as module

    opened = threading.Event()

    def never(*_: object, **__: object) -> None:
        opened.set()
        threading.Event().wait(WAIT)
        raise TimeoutError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "open_session", never)
        handle = module.Application(compiled(COPY), home, create=True)
        threading.Thread(target=lambda: (opened.wait(WAIT), handle.stop()), daemon=True).start()
        assert handle.start() is handle
    assert handle.wait(WAIT)
    assert handle.status.state == "stopped"
    assert not handle.home.is_running()
