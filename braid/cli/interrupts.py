"""Signals that ask a command to end: the first one in good order, the second one at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 128 + signal.SIGINT
"""Exit code of a command that Ctrl-C ended, as shells have it."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal that asks to end, raised where the main thread is."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number
        """The exit code by which shells know it."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `Interrupted` at the first signal; end the process at the second, whatever it is doing."""
    asked = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            # Java and the nursery end with their standard input, which this closes.
            os._exit(128 + number)
        asked = True
        raise Interrupted(number)

    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
