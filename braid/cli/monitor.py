"""What `braid run` shows while an application runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from braid.core.side import Side
from braid.core.threads import Threads
from braid.core.times import FAR
from braid.home.metrics import MicroBatch
from braid.home.status import StageStatus

if TYPE_CHECKING:
    from braid.api import Application

_SECONDS = 10.0
"""Span of time over which rates are measured."""
_EVERY = 5.0
"""Seconds between plain lines."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to whoever prints, where the console would end the process."""
        raise BrokenPipeError("nobody reads what is shown")


class Monitor:
    """Turns metrics into lines."""

    def __init__(self, stream: TextIO) -> None:
        self._console = _Console(file=stream)
        self._recent: deque[tuple[float, int, int]] = deque()
        self._join: dict[str, MicroBatch] = {}
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._said = 0.0

    def phase(self, text: str) -> None:
        """Say what a start is doing: it takes seconds before there are any metrics."""
        seconds = time.monotonic() - self._started
        self._console.print(f"[{seconds:4.1f} s] {text}", highlight=False, markup=False)

    def progress(self, batch: MicroBatch) -> None:
        """Take the metrics of a micro-batch."""
        with self._lock:
            if batch.kind == "join":
                self._join[batch.stage] = batch
                counted = batch.counters
                self._recent.append((time.monotonic(), counted.rows_in, counted.rows_out))

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
        """The last words."""
        status = handle.status
        seconds = time.monotonic() - self._started
        lines = [f"{handle.plan.application}: {status.state} after {seconds:.1f} s"]
        lines += [f"  {name}: {_stage_summary(stage)}" for name, stage in status.stages.items()]
        return "\n".join(lines)

    def _show(self, handle: Application, stop: threading.Event) -> None:
        if not self._console.is_terminal:
            while not stop.wait(0.5):
                if time.monotonic() - self._said > _EVERY:
                    self._said = time.monotonic()
                    self._console.print(self._line(handle), highlight=False, soft_wrap=True)
            return
        with Live(Text(""), console=self._console, refresh_per_second=4, transient=True) as live:
            while not stop.wait(0.25):
                live.update(Text(self._line(handle)))

    def _line(self, handle: Application) -> str:
        with self._lock:
            now = time.monotonic()
            while self._recent and self._recent[0][0] < now - _SECONDS:
                self._recent.popleft()
            span = max(1.0, min(_SECONDS, now - self._started))
            rows_in, rows_out = (sum(entry[i] for entry in self._recent) / span for i in (1, 2))
            joins = dict(self._join)
        parts = [
            f"{handle.plan.application} {handle.state}",
            f"in {rows_in:,.0f}/s",
            f"out {rows_out:,.0f}/s",
        ]
        for name, batch in joins.items():
            inputs = batch.counters.inputs
            parts.append(f"{name}: batch {batch.batch}")
            if batch.match_rate is not None:
                parts.append(f"match {batch.match_rate:.1%}")
            parts += [
                f"{side} {_clock(counted.stream_time)} lag {_lag(batch.lag_ms.get(side))}"
                for side, counted in inputs.items()
            ]
            held = (f"{counted.pending:,} {name}" for name, counted in inputs.items())
            parts.append(f"held {', '.join(held)}")
        return " | ".join([*parts, *handle.paused])


def _stage_summary(stage: StageStatus) -> str:
    totals, last = stage.totals, stage.last
    text = f"{totals.rows_in:,} rows in, {totals.rows_out:,} out"
    if stage.kind == "join":
        text += f", {totals.matches:,} matches, {totals.input(Side.LEFT).unmatched:,} left rows"
        text += f" without a match, {totals.rescued:,} matches rescued from the log"
    special = {
        "left rows padded after their wait": totals.input(Side.LEFT).padded_early,
        "right rows padded after their wait": totals.input(Side.RIGHT).padded_early,
        "matches that came after that": totals.matches_after_padding,
        "keys written": totals.keys_written,
        "rows without a key": totals.null_keys,
    }
    text += "".join(f", {count:,} {words}" for words, count in special.items() if count)
    if last is not None and last.counters.dead:
        dead = (f"{reason} {count:,}" for reason, count in last.counters.dead.items())
        text += ", dead letters: " + ", ".join(dead)
    return text


def _clock(micros: int | None) -> str:
    if micros is None or abs(micros) >= FAR:
        return "-"
    return time.strftime("%H:%M:%S", time.gmtime(micros / 1e6))


def _lag(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds / 1000:.1f}s"
