"""All operators by name: a file with a `DECLARATION` beside this one is enough."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from braid.lang import operators
from braid.lang.operators.declaration import Declaration


def _declared() -> dict[str, Declaration]:
    modules = (
        import_module(f"{operators.__name__}.{found.name}") for found in iter_modules(operators.__path__)
    )
    declared = (vars(module).get("DECLARATION") for module in modules)
    return {one.name: one for one in declared if isinstance(one, Declaration)}


OPERATORS = _declared()
