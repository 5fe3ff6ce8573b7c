"""Whose fault an error is."""

from __future__ import annotations

import pytest

from braid import api
from braid.core.errors import (
    BraidError,
    ConfigError,
    CorruptError,
    InternalError,
    LogError,
    PermanentError,
    RunError,
    SchemaError,
    StateError,
    StoreError,
)
from braid.home.service import Domain
from braid.lang.errors import PqlError
from braid.service.decide.failures import domain_of


@pytest.mark.parametrize(
    ("error", "domain"),
    [
        (ConfigError("unknown option"), Domain.USER),
        (SchemaError("no such column"), Domain.USER),
        (StateError("of another version"), Domain.USER),
        (CorruptError("not what was written"), Domain.USER),
        (PermanentError("division by zero"), Domain.USER),
        (RunError("Java has ended"), Domain.OUTSIDE),
        (LogError("cannot be read"), Domain.OUTSIDE),
        (StoreError("cannot be read"), Domain.OUTSIDE),
        (PermissionError(13, "denied"), Domain.OUTSIDE),
        (OSError(28, "no space"), Domain.OUTSIDE),
        (ConnectionResetError(), Domain.OUTSIDE),
        (InternalError("KeyError"), Domain.OURS),
        (KeyError("x"), Domain.OURS),
    ],
)
def test_domains(error: BaseException, domain: Domain) -> None:
    assert domain_of(error) is domain


def test_every_error_says_whether_it_lasts() -> None:
    with pytest.raises(PqlError) as raised:
        api.compile_text("CREATE nonsense")
    assert domain_of(raised.value) is Domain.USER
    assert {kind.lasts for kind in BraidError.__subclasses__()} == {True, False}
