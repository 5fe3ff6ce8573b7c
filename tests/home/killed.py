"""A process that ends before any of its steps on the disk, in the process of the test."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from braid.log import durable
from tests.log.crashing import STEPS


class Killed(BaseException):
    """The process has ended here."""


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise `Killed` before a step, and before all that would follow, such as what clears up."""
    taken = itertools.count()

    def wrapped(real: Callable[..., None]) -> Callable[..., None]:
        def take(*arguments: str | bytes) -> None:
            if next(taken) >= step:
                raise Killed
            real(*arguments)

        return take

    for name in STEPS:
        monkeypatch.setattr(durable, name, wrapped(getattr(durable, name)))


class Mortal:
    """A process that is killed before one of its next steps on the disk: a file written, renamed or removed.

    The steps are those of `durable`, and all others that rename or remove files.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left: int | None = None
        monkeypatch.setattr(os, "fsync", lambda descriptor: None)
        others: list[tuple[object, str]] = [(Path, "replace"), (Path, "unlink"), (shutil, "rmtree")]
        for owner, name in [*((durable, name) for name in STEPS), *others]:
            monkeypatch.setattr(owner, name, self._mortal(getattr(owner, name)))

    def _mortal(self, real: Callable[..., object]) -> Callable[..., object]:
        def step(*arguments: object, **named: object) -> object:
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    raise Killed
            return real(*arguments, **named)

        return step

    @contextmanager
    def within(self, steps: int) -> Iterator[None]:
        """Be killed before that many steps are over, and do nothing more that lasts."""
        self._left = steps
        try:
            yield
        finally:
            self._left = None
