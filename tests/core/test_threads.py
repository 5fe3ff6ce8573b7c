"""What a thread raises reaches its owner, and no call can hold one up for ever."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from braid.core.threads import Threads, spawn, within

WAIT = 30.0
"""Seconds that nothing here takes, on whatever machine."""


def test_whatever_a_thread_raises_reaches_its_owner() -> None:
    found: list[BaseException] = []
    threads = Threads("owner", found.append)
    wrong = [ValueError("a"), SystemExit(3), KeyboardInterrupt()]

    def fail(error: BaseException) -> None:
        raise error

    for error in wrong:
        threads.start("fail", lambda error=error: fail(error))
        assert threads.join(WAIT) == []
    assert found == wrong


def test_a_loop_ends_when_it_is_time_or_when_it_raises() -> None:
    found: list[BaseException] = []
    threads = Threads("owner", found.append)
    turns = threading.Semaphore(0)
    threads.repeat("turn", 0.001, turns.release)
    for _ in range(3):
        assert turns.acquire(timeout=WAIT)
    threads.stopping.set()
    assert threads.join(WAIT) == []
    assert found == []

    left = iter([1, 2])
    threads = Threads("owner", found.append)
    threads.repeat("fail", 0.001, lambda: next(left))
    assert threads.join(WAIT) == []
    assert [type(error) for error in found] == [StopIteration]


def test_a_thread_that_does_not_end_is_named() -> None:
    never = threading.Event()
    threads = Threads("owner", lambda error: None)
    threads.start("stuck", lambda: never.wait(WAIT))
    threads.start("done", lambda: None)
    assert threads.join(0.05) == ["owner stuck"]
    never.set()
    assert threads.join(WAIT) == []


def test_a_thread_may_wait_for_the_others() -> None:
    left: list[list[str]] = []
    threads = Threads("owner", lambda error: None)
    threads.start("last", lambda: left.append(threads.join(WAIT)))
    assert threads.join(WAIT) == []
    assert left == [[]]


def test_calls_that_may_never_return() -> None:
    assert within(WAIT, "quick", lambda: 7) == 7
    never = threading.Event()
    with pytest.raises(TimeoutError):
        within(0.01, "slow", lambda: never.wait(WAIT))
    never.set()
    with pytest.raises(ZeroDivisionError):
        within(WAIT, "wrong", lambda: 1 / 0)
    assert spawn("later", lambda: "x").result(WAIT) == "x"


def test_a_process_ends_whatever_its_threads_do() -> None:
    text = (
        "import threading; from braid.core.threads import Threads, spawn; "
        "threads = Threads('x', print); "
        "threads.start('stuck', threading.Event().wait); spawn('stuck', threading.Event().wait)"
    )
    subprocess.run([sys.executable, "-c", text], timeout=60, check=True)
