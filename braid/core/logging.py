"""Log lines of a driver: JSON in the application's folder, and what needs attention on the terminal.

Events are short fixed texts with values beside them. They never hold rows, settings that may be secret, or
texts of errors, which may quote either; those are in the status of the run.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from braid.core.errors import ConfigError

if TYPE_CHECKING:
    from structlog.typing import WrappedLogger

FULL, GENERATIONS = 16 * 2**20, 3
"""Bytes at which a file that grows by lines is renamed to `<name>.1`, and how many such files are kept."""
VARIABLE = "BRAID_LOG"
"""Environment variable with the least level to show; WARNING by default. Files have INFO at least."""
_ROOT = "braid"
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_RAISED = "raised"
"""Mark of events that the caller gets as an exception, too: the terminal would show them twice."""


class Log(Protocol):
    """What callers need of a logger: an event's text, and values by name."""

    def debug(self, event: str, **values: object) -> object:
        """Log what only matters in the search for a fault."""

    def info(self, event: str, **values: object) -> object:
        """Log a step in the life of an application."""

    def warning(self, event: str, **values: object) -> object:
        """Log what was wrong, and is mended or will be."""

    def error(self, event: str, **values: object) -> object:
        """Log what ends an application."""

    def bind(self, **values: object) -> Log:
        """A logger that adds values to every event."""


def level() -> int:
    """The least level to show, by `$BRAID_LOG`."""
    name = os.environ.get(VARIABLE, "warning").lower()
    if name not in _LEVELS:
        raise ConfigError(
            f"unknown level {name!r}", where=f"${VARIABLE}", hint=f"one of {', '.join(_LEVELS)}"
        )
    return _LEVELS[name]


def log_to_terminal() -> None:
    """Show events on the standard error, one line each."""
    handler = logging.StreamHandler()
    handler.setLevel(level())
    handler.setFormatter(_Lines())
    handler.addFilter(lambda record: not _values(record).get(_RAISED))
    logger = logging.getLogger(_ROOT)
    logger.handlers = [handler]
    logger.propagate = False
    # What libraries log of broken connections, with tracebacks, comes as an exception, too.
    logging.getLogger().addHandler(logging.NullHandler())


@contextmanager
def log_to_file(path: Path, application: str) -> Iterator[Log]:
    """A logger of one run, whose events are appended to a file as JSON lines."""
    import structlog  # not by every command: it takes a tenth of a second

    logger = logging.getLogger(f"{_ROOT}.run.{application}")
    logger.setLevel(min(level(), logging.INFO))
    handler = _File(path, maxBytes=FULL, backupCount=GENERATIONS)
    handler.setFormatter(_JsonLines())
    logger.addHandler(handler)
    try:
        yield structlog.wrap_logger(
            logger,
            processors=[
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.stdlib.add_log_level,
                _as_message,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            application=application,
        )
    finally:
        logger.removeHandler(handler)
        handler.close()


def _as_message(
    logger: WrappedLogger, method: str, event: MutableMapping[str, object]
) -> tuple[tuple[object], dict[str, object]]:
    return (dict(event),), {}


def _values(record: logging.LogRecord) -> dict[str, object]:
    return record.msg if isinstance(record.msg, dict) else {"event": record.getMessage()}


class _File(logging.handlers.RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  its name in the library
        """Do without a line that cannot be written, as on a full disk."""


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One JSON object."""
        values = {name: value for name, value in _values(record).items() if name != _RAISED}
        return json.dumps(values, default=str)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """`braid warning: event (name=value, ...)`."""
        hidden = ("event", "level", "timestamp", _RAISED)
        values = _values(record)
        rest = ", ".join(f"{name}={value}" for name, value in values.items() if name not in hidden)
        return f"braid {record.levelname.lower()}: {values['event']}" + (f" ({rest})" if rest else "")
