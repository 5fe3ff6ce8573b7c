"""All kinds of stages, by name: a file beside this one with a subclass of `Stage` is enough."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules

from braid.plan import kinds
from braid.plan.stages.base import Stage


def _found() -> dict[str, type[Stage]]:
    modules = (import_module(f"{kinds.__name__}.{found.name}") for found in iter_modules(kinds.__path__))
    classes = (one for module in modules for one in vars(module).values())
    stages = (one for one in classes if inspect.isclass(one) and issubclass(one, Stage))
    kinds_found = {one.kind: one for one in stages if not inspect.isabstract(one)}
    return dict(sorted(kinds_found.items()))


KINDS = _found()
