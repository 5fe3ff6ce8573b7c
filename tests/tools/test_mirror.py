"""Tests lie where the code lies that they test."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
OTHERS = {"tools", "examples", "operators"}
"""Folders of tests about what is not in the package, or, as operators are, in several of its layers."""


def test_folders_of_tests_are_folders_of_the_package() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path()}
    wrong = [f for f in folders if f.parts[0] not in OTHERS and not (TESTS.parent / "braid" / f).is_dir()]
    assert wrong == []
