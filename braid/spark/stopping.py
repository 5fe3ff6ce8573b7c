"""Ends a running application when another process asks for that."""

from __future__ import annotations

import threading

from braid.core.logging import Log
from braid.home.control import Answer, Request
from braid.home.paths import AppHome


def answer_stop(home: AppHome, stopping: threading.Event, log: Log) -> None:
    """Begin to end, if anybody has asked for it; who has waits for the application's lock."""
    asked = Request.read(home.stop_file)
    if asked is None:
        return
    Answer(id=asked.id).write(home.stopping_file, durable=False)
    home.stop_file.unlink(missing_ok=True)
    if not stopping.is_set():
        log.info("stopping", asked=True)
    stopping.set()
