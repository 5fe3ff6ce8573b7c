"""Imports go only downwards through the layers of docs/architecture.md."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAYERS = (
    {"cli"},
    {"api"},
    {"testing"},
    {"spark"},
    {"stores"},
    {"engine"},
    {"home"},
    {"plan"},
    {"lang"},
    {"kernels"},
    {"eventtime"},
    {"log"},
    {"core"},
)
"""Top-level names of the package, highest first; those of one layer may import each other."""


def imports(path: Path) -> set[str]:
    """Top-level names of the package that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "braid":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {name.name for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("braid.")}
    return found - {"__version__"}


def test_imports_go_downwards() -> None:
    height = {name: -place for place, names in enumerate(LAYERS) for name in names}
    wrong = []
    for path in sorted((ROOT / "braid").rglob("*.py")):
        parts = path.relative_to(ROOT / "braid").with_suffix("").parts
        if parts == ("__init__",):
            continue
        wrong += [
            f"{path.relative_to(ROOT)} imports braid.{name}"
            for name in imports(path)
            if height[name] > height[parts[0]]
        ]
    assert wrong == []
