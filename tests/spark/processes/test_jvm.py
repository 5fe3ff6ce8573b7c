"""Java is known to be gone, and killed when it does not answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import pytest

from braid.spark.processes import session as module
from braid.spark.processes.jvm import Jvm
from braid.spark.processes.session import close_session

CHILD = "import subprocess, sys; c = subprocess.Popen(['sleep', '600']); print(c.pid, flush=True); c.wait()"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """What stands for Java: a process that leads a group, with a child."""
    found = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, process_group=0)
    assert found.stdout is not None
    assert int(found.stdout.readline())
    yield found
    with suppress(ProcessLookupError):
        os.killpg(found.pid, signal.SIGKILL)
    try:
        found.communicate(timeout=20)
    finally:
        found.kill()


def test_how_it_ended_is_told(process: subprocess.Popen[bytes]) -> None:
    jvm = Jvm(process)
    assert jvm.ended() is None
    process.send_signal(signal.SIGKILL)
    ended = jvm.ended(seconds=30)
    assert f"Java process {process.pid} was killed by signal 9" in str(ended)
    assert "hint" in str(jvm.ended())
    done = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    assert "ended with code 3" in str(Jvm(done).ended(seconds=30))


def test_of_one_that_others_started_nothing_is_known() -> None:
    jvm = Jvm(None)
    assert jvm.ended() is None
    jvm.kill()


def test_one_that_does_not_answer_is_killed_with_its_children(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[bool] = []
    monkeypatch.setattr(module, "forget", lambda: forgotten.append(True))
    never = threading.Event()
    context = SimpleNamespace(_gateway=SimpleNamespace(proc=process), stop=lambda: never.wait(60))
    session = SimpleNamespace(sparkContext=context)
    process.send_signal(signal.SIGSTOP)
    assert not close_session(session, 0.05)
    assert process.poll() == -signal.SIGKILL
    # The pipe closes when the last of the group is gone.
    assert process.stdout is not None
    assert process.stdout.read() == b""
    assert not close_session(session, 0.05)
    assert forgotten == [True, True]
    never.set()


def test_one_that_answers_is_left_to_end(process: subprocess.Popen[bytes]) -> None:
    context = SimpleNamespace(_gateway=SimpleNamespace(proc=process), stop=lambda: None)
    assert close_session(SimpleNamespace(sparkContext=context), 30)
    assert process.poll() is None
