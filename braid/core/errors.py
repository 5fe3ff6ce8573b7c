"""The errors that Braid raises on purpose. Each says what is wrong, where, and what to do about it."""

from __future__ import annotations

from typing import ClassVar


class BraidError(Exception):
    """Base of every error that a user of Braid is expected to see and can act on."""

    lasts: ClassVar[bool] = True
    """Whether whoever tries again gets it again, until somebody has changed something."""

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        text = f"{where}: {what}" if where else what
        super().__init__(f"{text}\n  hint: {hint}" if hint else text)


class LogError(BraidError):
    """A category, commit or block cannot be written or read."""

    lasts = False


class CorruptError(LogError):
    """Stored bytes are not the bytes that were written."""

    lasts = True


class SchemaError(BraidError):
    """Columns or types do not fit what was declared or stored before."""


class ConfigError(BraidError):
    """An option has a name or a value that is not valid."""


class StateError(BraidError):
    """Saved operator state cannot be used by this version or this query."""


class RunError(BraidError):
    """An application cannot be started, or cannot go on."""

    lasts = False


class PermanentError(RunError):
    """An application cannot be started or go on, whoever starts it, until somebody has changed something."""

    lasts = True


class InternalError(RunError):
    """An application has failed by a fault of Braid's own, or of Spark's."""


class StoreError(BraidError):
    """A table of a store does not exist, or cannot be written or read."""

    lasts = False
