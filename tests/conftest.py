"""Shared set-up of the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from pytest_timeout import Settings

from braid.home.paths import Home

# Explaining a failure costs minutes and rarely says more than the shrunk example. The gate tries the same
# examples every time, so that it judges the change and not the dice; everybody else rolls them.
settings.register_profile(
    "braid",
    deadline=None,
    derandomize="CI" in os.environ,
    phases=[p for p in Phase if p is not Phase.explain],
)
settings.load_profile("braid")

QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
}
"""Queries of a few hundred rows are over before compiled code has paid for its compilation."""
CLEAN_UP = 60.0
"""Seconds that a failed test may take to clean up."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Limit the clean-up of a test that has failed: pytest-timeout has taken its own limit away by then."""
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        return (yield)
    hooks = item.config.pluginmanager.hook
    limit = Settings(CLEAN_UP, "signal", func_only=False, disable_debugger_detection=False)
    hooks.pytest_timeout_set_timer(item=item, settings=limit)
    try:
        return (yield)
    finally:
        hooks.pytest_timeout_cancel_timer(item=item)


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """One Spark session for all tests: starting one takes longer than most tests do."""
    from braid.spark.processes.session import open_session

    session = open_session(master="local[2,4]", settings=QUICK)
    yield session
    session.sparkContext.stop()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.at(tmp_path / "home")


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where syncing costs nothing."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB, to be filled; only root may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False, timeout=30)
    if mounted.returncode:
        pytest.skip(f"mounting a small disk is not permitted: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=30)
