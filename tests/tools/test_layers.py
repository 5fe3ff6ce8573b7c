"""Imports go only downwards through the layers, and the table of docs/architecture.md shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import layers


def test_the_package_keeps_to_its_layers() -> None:
    assert layers.violations(layers.read_imports()) == []


def test_every_folder_is_a_layer() -> None:
    folders = {
        path.name for path in (layers.ROOT / layers.PACKAGE).iterdir() if (path / "__init__.py").exists()
    }
    assert folders <= set(layers.LAYERS)


def test_the_table_in_the_docs_is_up_to_date() -> None:
    text = (layers.ROOT / layers.PAGE).read_text()
    assert layers.filled(text, layers.table(layers.read_imports())) == text, "run tools/layers.py --write"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("log/a.py", "import os\n\nfrom braid.plan.b import c\n", "a.py:3: braid.log.a imports braid.plan.b"),
        ("log/a.py", "def f():\n    import braid.cli\n", "a.py:2: braid.log.a imports braid.cli"),
        ("log/a.py", "from braid import cli\n", "a.py:1: braid.log.a imports braid.cli"),
        ("log/a.py", "from ..plan import b\n", "a.py:1: braid.log.a imports braid.plan.b"),
        ("log/a.py", "from braid.attic import b\n", "'attic' is no layer"),
        ("plan/a.py", "from pyspark.sql import types\n", "only braid/spark may"),
        ("plan/a.py", "import typing\nif typing.TYPE_CHECKING:\n    from braid.cli import b\n", "higher"),
    ],
)
def test_wrong_imports_are_found(tmp_path: Path, path: str, text: str, expected: str) -> None:
    found = _check(tmp_path, {"cli/__init__.py": "", "plan/b.py": "", "log/__init__.py": "", path: text})
    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("plan/a.py", "from braid.log import b\nfrom braid.plan import c\nimport braid\n"),
        ("spark/a.py", "import pyspark\n"),
        ("api/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pyspark\n"),
    ],
)
def test_other_imports_are_allowed(tmp_path: Path, path: str, text: str) -> None:
    assert _check(tmp_path, {path: text}) == []


def test_folders_of_a_layer_do_not_import_each_other(tmp_path: Path) -> None:
    files = {
        "plan/one/a.py": "from braid.plan.two import b\n",
        "plan/two/b.py": "from braid.plan.c import x\n",
        "plan/c.py": "from braid.plan.one.d import x\n",
        "plan/one/d.py": "from braid.plan.one import a\n",
    }
    found = _check(tmp_path, files)
    assert len(found) == 1
    assert "braid.plan.c -> braid.plan.one -> braid.plan.two -> braid.plan.c" in found[0]
    del files["plan/c.py"]
    assert _check(tmp_path / "without", files) == []


def _check(root: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        path = root / layers.PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return layers.violations(layers.read_imports(root))
