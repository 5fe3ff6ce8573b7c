"""A process that ends before any of its steps on the disk, in the process of the test."""

from __future__ import annotations

import itertools
from collections.abc import Callable

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
