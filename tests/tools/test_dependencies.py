"""What the package asks for is what it imports, and docs/dependencies.md says why."""

from __future__ import annotations

import re
import sys
import tomllib

from tools import layers

PROJECT = tomllib.loads((layers.ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOR_OTHERS = {"protobuf", "matplotlib", "psycopg"}
"""Not imported by the package: PySpark needs the first without asking for it, benchmarks need the second, and
SQLAlchemy imports the third by the name in a URL."""
COMES_WITH = {
    "py4j": "pyspark",
    "starlette": "fastapi",
    "pydantic_settings": "pydantic-settings",
    "urllib3": "kubernetes",
    "yaml": "pyyaml",
}
"""Modules that a dependency brings along, or that have another name than it."""


def names(entries: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", entry)[0] for entry in entries}


ASKED_FOR = names(
    [*PROJECT["dependencies"], *(one for extra in EXTRAS if extra != "dev" for one in EXTRAS[extra])]
)
IMPORTED = {found.target.partition(".")[0] for found in layers.read_imports()}


def test_every_dependency_is_imported() -> None:
    assert "numpy" in ASKED_FOR
    unused = ASKED_FOR - FOR_OTHERS - {COMES_WITH.get(module, module) for module in IMPORTED}
    assert not unused


def test_every_import_is_asked_for() -> None:
    foreign = IMPORTED - sys.stdlib_module_names - {layers.PACKAGE}
    assert {COMES_WITH.get(module, module) for module in foreign} <= ASKED_FOR


def test_every_dependency_has_its_reason() -> None:
    page = (layers.ROOT / "docs" / "dependencies.md").read_text()
    explained = {name for row in re.findall(r"^\| (.*?) \|", page, re.MULTILINE) for name in names_in(row)}
    assert ASKED_FOR | names(EXTRAS["dev"]) <= explained


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([\w-]+)`", cell)
