from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from braid.core.errors import RunError
from braid.core.logging import log_to_file
from braid.service.loops.base import Loop


class Failing(Loop):
    """A loop that fails as it is told, turn by turn."""

    name = "failing"
    errors: list[Exception]
    turns = 0

    def turn(self) -> None:
        self.turns += 1
        if self.errors:
            raise self.errors.pop(0)
        self.stop_waiting()

    stop_waiting: Callable[[], None]


@pytest.fixture
def done() -> threading.Event:
    return threading.Event()


def test_a_loop_goes_on_after_an_error(tmp_path: Path, done: threading.Event) -> None:
    with log_to_file(tmp_path / "log", "service") as log:
        loop = Failing(log, 0.01)
        loop.errors, loop.stop_waiting = [RunError("a"), OSError("b")], done.set
        loop.start()
        assert done.wait(20)
        loop.stop()
    assert (loop.trouble, loop.died, loop.is_alive) == (None, None, False)
    assert "a turn has failed" in (tmp_path / "log").read_text()


def test_a_bug_ends_the_service(tmp_path: Path, done: threading.Event) -> None:
    before = signal.signal(signal.SIGTERM, lambda number, frame: done.set())
    try:
        with log_to_file(tmp_path / "log", "service") as log:
            loop = Failing(log, 0.01)
            loop.errors = [ZeroDivisionError("a bug")]
            loop.start()
            assert done.wait(20)
            loop.stop()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert isinstance(loop.died, ZeroDivisionError)
