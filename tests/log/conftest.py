from __future__ import annotations

import pytest

from braid.log import Log
from braid.log.category import Category
from tests.log.samples import typed


@pytest.fixture
def log(tmp_path) -> Log:
    return Log(tmp_path / "log")


@pytest.fixture
def category(log: Log) -> Category:
    return typed(log)
