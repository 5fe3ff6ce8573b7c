"""Ctrl-C, held back while something must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Handle a SIGINT that comes within the block when the block ends.

    A second one is not held back, since the block may hang. Python handles signals in the main thread alone,
    so in any other thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = False

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)
