"""`braid.api` is complete: everything public in its modules is exported, with a docstring."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

from braid import api

MODULES = [importlib.import_module(f"braid.api.{found.name}") for found in pkgutil.iter_modules(api.__path__)]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_everything_public_is_exported(module: object) -> None:
    own = {
        name
        for name, value in inspect.getmembers(module)
        if (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == getattr(module, "__name__", None)
        and not name.startswith("_")
    }
    assert own
    assert own <= set(api.__all__)


@pytest.mark.parametrize("name", api.__all__)
def test_every_export_is_described(name: str) -> None:
    value = getattr(api, name)
    if inspect.isfunction(value) or inspect.isclass(value):
        assert value.__doc__
        # The docstring of the package is its table of contents; records are found from what returns them.
        assert f"`{name}`" in (api.__doc__ or "") or name.startswith("diff_") or inspect.isclass(value)


def test_importing_it_does_not_need_spark() -> None:
    code = "import sys, braid.api, braid.cli.main; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
