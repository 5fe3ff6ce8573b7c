"""What must not be left half done is not, unless one insists."""

from __future__ import annotations

import signal

import pytest

from braid.core.interrupts import uninterrupted
from braid.core.threads import within


def interrupted(times: int, done: list[int]) -> None:
    with uninterrupted():
        for number in range(times):
            signal.raise_signal(signal.SIGINT)
            done.append(number)


def test_the_first_interrupt_waits_for_the_end_and_the_second_does_not() -> None:
    before = signal.getsignal(signal.SIGINT)
    for times in (1, 2):
        done: list[int] = []
        with pytest.raises(KeyboardInterrupt):
            interrupted(times, done)
        assert done == [0]
        assert signal.getsignal(signal.SIGINT) is before
    interrupted(0, [])
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_are_never_interrupted() -> None:
    def block() -> str:
        with uninterrupted():
            return "done"

    assert within(30, "other", block) == "done"
