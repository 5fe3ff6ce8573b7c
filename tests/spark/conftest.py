"""One Spark session for all tests: starting one takes longer than most tests do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.home.paths import Home

QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
}
"""Queries of a few hundred rows are over before compiled code has paid for its compilation."""


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    from braid.spark.processes.session import open_session

    session = open_session(master="local[2,4]", settings=QUICK)
    yield session
    session.sparkContext.stop()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.at(tmp_path / "home")
