from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from braid.core.usage import MEMORY_SECONDS, Usages

WORK = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=False)
print(child.pid, flush=True)
input()
held = bytearray(b"x" * 50_000_000)
while time.process_time() < 0.5:
    pass
print("done", flush=True)
input()
child.stdin.close()
child.wait()
"""


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[str]]:
    """A process with a child, which works when it is told to."""
    with subprocess.Popen(
        [sys.executable, "-c", WORK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as found:
        yield found
        found.kill()


def test_cpu_is_that_since_the_last_look_and_memory_is_asked_for_seldom(
    worker: subprocess.Popen[str],
) -> None:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdout.readline()
    now = 0.0
    usages = Usages(lambda: now)
    first = usages.look({worker.pid, os.getpid()})
    assert set(first) == {worker.pid, os.getpid()}
    assert first[worker.pid].cpu is None
    assert first[worker.pid].memory > 1_000_000
    worker.stdin.write("go\n")
    worker.stdin.flush()
    assert worker.stdout.readline() == "done\n"
    now = 10.0
    second = usages.look([worker.pid])
    cpu = second[worker.pid].cpu
    assert cpu is not None
    assert 0.02 < cpu < 0.2
    assert second[worker.pid].memory == first[worker.pid].memory
    now = 11.0 + MEMORY_SECONDS
    third = usages.look([worker.pid])
    assert third[worker.pid].memory > first[worker.pid].memory + 40_000_000
    assert usages.look([]) == {}
    assert usages.look([worker.pid])[worker.pid].cpu is None  # it was forgotten


def test_what_is_gone_is_left_out() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert Usages().look([gone.pid]) == {}
