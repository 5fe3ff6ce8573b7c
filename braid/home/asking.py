"""Asking a running application for something: a file with the request, and one with the answer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypeVar

from braid.core.errors import RunError
from braid.home.control import Answer, Request
from braid.home.paths import AppHome

_POLL_SECONDS = 0.1

Answered = TypeVar("Answered", bound=Answer)


def ask(
    home: AppHome, request: Request, asked: Path, answered: Path, kind: type[Answered]
) -> Answered | None:
    """What a running application answers; None if it is not running, or has ended meanwhile.

    Parameters
    ----------
    home
        Of the application.
    request, asked
        What is asked for, and in which file.
    answered, kind
        In which file the answer will be, and what it is; a `RunError` is raised if it could not be done.
    """
    while True:
        there = asked.exists()
        answer = kind.read(answered)
        if answer is not None and answer.id == request.id:
            break
        if not home.is_running():
            asked.unlink(missing_ok=True)
            return None
        if not there:
            # An application that starts removes what was asked of the one before.
            request.write(asked, durable=False)
        time.sleep(_POLL_SECONDS)
    answered.unlink(missing_ok=True)
    if answer.error is not None:
        raise RunError(answer.error)
    return answer
