"""What `braid run` shows while an application runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.live import Live
from rich.text import Text

from braid.cli.consoles import PlainConsole
from braid.cli.figures import behind_words, count_words, dead_words, lag_words, rate_words
from braid.core.counters import Counters
from braid.core.threads import Threads
from braid.core.times import FAR

if TYPE_CHECKING:
    from braid.api import Application

_EVERY = 5.0
"""Seconds between plain lines."""


class _Console(PlainConsole):
    def on_broken_pipe(self) -> None:
        """Leave it to whoever prints, where the console would end the process."""
        raise BrokenPipeError("nobody reads what is shown")


class Monitor:
    """Turns the status of an application into lines."""

    def __init__(self, stream: TextIO) -> None:
        self._console = _Console(stream)
        self._started = time.monotonic()
        self._said = 0.0

    def phase(self, text: str) -> None:
        """Say what a start is doing: it takes seconds before there are any metrics."""
        seconds = time.monotonic() - self._started
        self._console.print(f"[{seconds:4.1f} s] {text}")

    @contextmanager
    def showing(self, handle: Application) -> Iterator[None]:
        """Show the state of an application until the block ends; it fails if that cannot be shown."""
        threads = Threads("monitor", handle.fail)
        threads.start("show", lambda: self._show(handle, threads.stopping))
        try:
            yield
        finally:
            threads.stopping.set()
            threads.join(_EVERY)

    def summary(self, handle: Application) -> str:
        """The last words: what this run has counted, and all runs together."""
        status = handle.status
        seconds = time.monotonic() - self._started
        lines = [f"{handle.plan.application}: {status.state} after {seconds:.1f} s"]
        for name, stage in status.stages.items():
            lines.append(f"  {name}: {_all_words(stage.run)}")
            if stage.run != stage.totals:
                since = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(stage.since))
                lines.append(f"    since {since}: {_all_words(stage.totals)}")
        if any(dead_words(stage.totals) for stage in status.stages.values()):
            lines.append(f"  see `braid cat {handle.home.dead_letter}` for dead letters")
        return "\n".join(lines)

    def _show(self, handle: Application, stop: threading.Event) -> None:
        if not self._console.is_terminal:
            while not stop.wait(0.5):
                if time.monotonic() - self._said > _EVERY:
                    self._said = time.monotonic()
                    self._console.print(self._line(handle), soft_wrap=True)
            return
        with Live(Text(""), console=self._console, refresh_per_second=4, transient=True) as live:
            while not stop.wait(0.5):
                live.update(Text(self._line(handle)))

    def _line(self, handle: Application) -> str:
        status = handle.status
        parts = [f"{status.application} {status.state}"]
        for name, stage in status.stages.items():
            if not stage.recent:
                continue
            minute = stage.recent[0]
            if stage.pacing is None:
                parts.append(f"{name} {minute.rows_in_per_second:,.0f}/s")
                continue
            parts.append(
                f"{name} {minute.rows_in_per_second:,.0f}/s in, {minute.rows_out_per_second:,.0f}/s out "
                f"in the last {minute.seconds:.0f} s"
            )
            rates = rate_words(stage)
            parts += [f"match {rates}"] if rates else []
            parts += [
                f"{side} {_clock(one.stream_time)} lag {lag_words(one) or '-'}"
                f" behind {behind_words(one) or '-'}"
                for side, one in stage.inputs.items()
            ]
            held = {} if stage.last is None else stage.last.counters.inputs
            parts.append(f"held {', '.join(f'{one.pending:,} {side}' for side, one in held.items())}")
        parts += [f"{name}: {why}" for name, stage in status.stages.items() if (why := stage.held_up)]
        return " | ".join(parts)


def _all_words(counters: Counters) -> str:
    dead = dead_words(counters)
    return ", ".join([*count_words(counters), *([f"dead letters: {dead}"] if dead else [])])


def _clock(micros: int | None) -> str:
    if micros is None or abs(micros) >= FAR:
        return "-"
    return time.strftime("%H:%M:%S", time.gmtime(micros / 1e6))
