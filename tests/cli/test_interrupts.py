"""The first signal asks to end, the second one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from braid.cli.interrupts import INTERRUPTED, Interrupted, interruptible
from braid.cli.monitor import Monitor
from braid.home.status import RunState, StageStatus, Status

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
MODULE, _, FUNCTION = PROJECT["scripts"]["braid"].partition(":")

PROGRAM = """
import threading
from braid.cli.interrupts import Interrupted, interruptible

with interruptible():
    try:
        print("waiting", flush=True)
        threading.Event().wait()
    except Interrupted as interrupt:
        print("interrupted", interrupt.code, flush=True)
    threading.Event().wait()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_second_signal_ends_the_process_whatever_it_does(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waiting\n"
            process.send_signal(number)
            assert process.stdout.readline() == f"interrupted {128 + number}\n"
            process.send_signal(number)
            assert process.wait(60) == 128 + number
        finally:
            process.kill()


def test_handlers_are_given_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match="SIGINT"), interruptible():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_application_ends_when_nobody_can_see_it() -> None:
    class Gone:
        def write(self, text: str) -> int:
            raise BrokenPipeError("nobody reads")

        def flush(self) -> None:
            pass

        def isatty(self) -> bool:
            return False

    found: list[BaseException] = []
    status = Status(application="app", state=RunState.RUNNING)
    handle = SimpleNamespace(status=status, fail=found.append)
    monitor = Monitor(Gone())
    with monitor.showing(handle):
        while not found:
            pass
    assert [type(error) for error in found] == [BrokenPipeError]


def test_what_is_shown_is_not_taken_for_markup() -> None:
    trouble = "x[/y] [true,false] :warning:"
    stages = {"j": StageStatus(kind="join", trouble=trouble)}
    status = Status(application="app", state=RunState.RUNNING, stages=stages)
    found: list[BaseException] = []
    handle = SimpleNamespace(status=status, fail=found.append)
    shown = StringIO()
    with Monitor(shown).showing(handle):
        while not found and "\n" not in shown.getvalue():
            pass
    assert (found, shown.getvalue()) == ([], f"app running | j: {trouble}\n")


@pytest.mark.parametrize(
    "command",
    [["-m", "braid.cli"], ["-c", f"from {MODULE} import {FUNCTION}; {FUNCTION}()"]],
    ids=["module", "script"],
)
def test_ctrl_c_while_modules_are_imported(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "rich.py").write_text("raise KeyboardInterrupt\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *command, "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert (done.returncode, done.stdout) == (INTERRUPTED, "")
    assert "Traceback" not in done.stderr
