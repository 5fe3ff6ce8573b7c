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

if TYPE_CHECKING:
    from braid.api import Application

_SECONDS = 10.0
"""Span of time over which rates are measured."""
_SPECIAL = {
    "padded_early_left": "left rows padded after their wait",
    "padded_early_right": "right rows padded after their wait",
    "matches_after_padding": "matches that came after that",
    "keys_written": "keys written",
    "null_keys": "rows without a key",
}
"""Totals that only some kinds of stages have, and what to call them."""
_EVERY = 5.0
"""Seconds between plain lines."""


class Monitor:
    """Turns metrics into lines."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream)
        self._recent: deque[tuple[float, int, int]] = deque()
        self._join: dict[str, dict[str, object]] = {}
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._said = 0.0

    def progress(self, line: dict[str, object]) -> None:
        """Take the metrics of a micro-batch."""
        with self._lock:
            if line["kind"] == "join":
                self._join[str(line["stage"])] = line
                self._recent.append((time.monotonic(), _integer(line, "rows_in"), _integer(line, "rows_out")))

    @contextmanager
    def showing(self, handle: Application) -> Iterator[None]:
        """Show the state of an application until the block ends."""
        stop = threading.Event()
        thread = threading.Thread(target=self._show, args=(handle, stop), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def summary(self, handle: Application) -> str:
        """The last words."""
        value = handle.status
        stages = value["stages"]
        assert isinstance(stages, dict)
        seconds = time.monotonic() - self._started
        lines = [f"{handle.plan.application}: {value['state']} after {seconds:.1f} s"]
        for name, stage in stages.items():
            totals, last = stage["totals"], stage["last"]
            text = f"  {name}: {totals.get('rows_in', 0):,} rows in, {totals.get('rows_out', 0):,} out"
            if stage["kind"] == "join":
                text += (
                    f", {totals.get('matches', 0):,} matches, {totals.get('unmatched_left', 0):,} left rows"
                )
                text += f" without a match, {totals.get('rescued', 0):,} matches rescued from the log"
            text += "".join(
                f", {totals[name]:,} {words}" for name, words in _SPECIAL.items() if totals.get(name)
            )
            dead = last.get("dead") or {}
            if dead:
                text += ", dead letters: " + ", ".join(
                    f"{reason} {count:,}" for reason, count in dead.items()
                )
            lines.append(text)
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
        state = str(handle.state)
        parts = [f"{handle.plan.application} {state}", f"in {rows_in:,.0f}/s", f"out {rows_out:,.0f}/s"]
        for name, line in joins.items():
            rate = line.get("match_rate")
            parts.append(f"{name}: batch {line['batch']}")
            if isinstance(rate, float):
                parts.append(f"match {rate:.1%}")
            lags = line["lag_ms"]
            assert isinstance(lags, dict)
            shown = [f"{side} {_clock(line.get(f'{side}_time'))} lag {_lag(lags[side])}" for side in lags]
            parts += shown
            parts.append(
                f"pending {_integer(line, 'pending_left'):,} window {_integer(line, 'pending_right'):,}"
            )
        paused = handle.paused
        return " | ".join([*parts, *paused])


def _clock(micros: object) -> str:
    if not isinstance(micros, int) or abs(micros) >= 2**61:
        return "-"
    return time.strftime("%H:%M:%S", time.gmtime(micros / 1e6))


def _lag(milliseconds: object) -> str:
    return f"{milliseconds / 1000:.1f}s" if isinstance(milliseconds, int | float) else "-"


def _integer(line: dict[str, object], name: str) -> int:
    value = line.get(name, 0)
    return int(value) if isinstance(value, int | float) else 0
