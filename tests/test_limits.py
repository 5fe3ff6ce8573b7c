"""No test hangs, however it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
STUCK = """
import threading

import pytest

import tests.conftest

tests.conftest.CLEAN_UP = 0.2


@pytest.fixture
def stuck():
    yield
    threading.Event().wait()


def test_that_fails(stuck):
    raise AssertionError
"""


def test_a_failed_test_cleans_up_within_a_limit(tmp_path: Path) -> None:
    program = tmp_path / "test_stuck.py"
    program.write_text(STUCK)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "pyproject.toml", "-p", "tests.conftest", str(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert "1 error" in done.stdout
    assert "Timeout (>0.2s)" in done.stdout
