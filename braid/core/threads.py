"""Threads whose errors are never lost, and that never keep a process from ending."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """The background threads of one owner, which hears of whatever one of them raises.

    Parameters
    ----------
    owner
        Name of the owner; threads are named after it.
    failed
        Called, in the thread, with what it has raised.
    """

    def __init__(self, owner: str, failed: Callable[[BaseException], None]) -> None:
        self._owner = owner
        self._failed = failed
        self._started: list[threading.Thread] = []
        self.stopping = threading.Event()
        """Set when all threads are to end; each has to look at it, or to wait on it."""

    def start(self, name: str, target: Callable[[], object]) -> None:
        """Run a call in a thread of its own."""

        def run() -> None:
            try:
                target()
            except BaseException as error:  # noqa: BLE001  this is where all errors of threads end
                self._failed(error)

        thread = threading.Thread(target=run, name=f"{self._owner} {name}", daemon=True)
        self._started.append(thread)
        thread.start()

    def repeat(self, name: str, seconds: float, target: Callable[[], object]) -> None:
        """Call something every so many seconds, first at once, until it is time to stop, or it raises."""

        def turns() -> None:
            while not self.stopping.is_set():
                target()
                self.stopping.wait(seconds)

        self.start(name, turns)

    def join(self, seconds: float) -> list[str]:
        """Wait for all threads but the calling one; returns the names of those that did not end in time."""
        end = time.monotonic() + seconds
        others = [thread for thread in self._started if thread is not threading.current_thread()]
        for thread in others:
            thread.join(max(0.0, end - time.monotonic()))
        return [thread.name for thread in others if thread.is_alive()]


def spawn(name: str, call: Callable[[], T]) -> Future[T]:
    """Run a call in a thread of its own, and give what it returns or raises as a future.

    Unlike those of an executor, the thread does not keep the process from ending, however long it takes.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  whoever waits for the future gets it
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def within(seconds: float, name: str, call: Callable[[], T]) -> T:
    """The result of a call that may never return; TimeoutError if it has not returned in time."""
    return spawn(name, call).result(seconds)
