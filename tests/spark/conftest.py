"""One Spark session for all tests: starting one takes longer than most tests do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.home import Home


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    from braid.spark.session import open_session

    session = open_session(master="local[2,4]")
    yield session
    session.sparkContext.stop()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.at(tmp_path / "home")
