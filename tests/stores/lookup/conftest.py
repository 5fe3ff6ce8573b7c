"""Homes in memory, where waiting for the disk costs nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def fresh_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Path]]:
    """A home for each example of a property."""
    shared = Path("/dev/shm")
    parent = shared if os.access(shared, os.W_OK) else tmp_path_factory.mktemp("homes")
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield lambda: Path(tempfile.mkdtemp(dir=folder))
