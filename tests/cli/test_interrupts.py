"""The first signal asks to end, the second one ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from braid.cli.interrupts import Interrupted, interruptible
from braid.cli.monitor import Monitor
from braid.home.status import RunState, Status

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
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        assert process.stdout.readline() == f"interrupted {128 + number}\n"
        process.send_signal(number)
        assert process.wait(60) == 128 + number


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
