"""The lock of an application: one process runs it, and whoever asks about that is in nobody's way."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.synchronize import Event

import pytest

from braid.core.errors import RunError
from braid.home.paths import AppHome, Home

ASKERS = 2


@pytest.fixture
def app(home: Home) -> AppHome:
    app = home.application("demo")
    with app.running():
        pass
    return app


def ask(app: AppHome, asking: Event, enough: Event) -> None:
    while not enough.is_set():
        app.is_running()
        asking.set()


@contextmanager
def asked_all_the_time(app: AppHome) -> Iterator[None]:
    """Have processes ask whether an application is running, each as fast as it can."""
    spawn = multiprocessing.get_context("spawn")
    enough, asking = spawn.Event(), [spawn.Event() for _ in range(ASKERS)]
    askers = [spawn.Process(target=ask, args=(app, one, enough), daemon=True) for one in asking]
    for process in askers:
        process.start()
    try:
        assert all(one.wait(60) for one in asking)
        yield
    finally:
        enough.set()
        for process in askers:
            process.join(60)
    assert [process.exitcode for process in askers] == [0] * ASKERS


def test_who_asks_whether_it_runs_hinders_no_start(app: AppHome) -> None:
    with asked_all_the_time(app):
        for _ in range(2_000):
            with app.running():
                pass


def test_who_asks_takes_nobody_else_who_asks_for_a_run(app: AppHome) -> None:
    with asked_all_the_time(app):
        assert [app.is_running() for _ in range(20_000)].count(True) == 0


def test_a_start_waits_for_a_moment_and_no_longer(app: AppHome) -> None:
    waits: list[float] = []
    with app.running():
        with pytest.raises(RunError, match="is running already"), app.running(waits.append):
            pass
        assert sum(waits) == pytest.approx(1)
    holder = ExitStack()
    holder.enter_context(app.running())
    with app.running(lambda seconds: holder.close()):
        assert app.is_running()
    assert not app.is_running()


def test_what_was_dropped_meanwhile_is_not_run(app: AppHome) -> None:
    """Whoever drops an application holds its lock until the file is gone: to have that one means nothing."""
    dropping = ExitStack()
    dropping.enter_context(app.running())
    dropping.callback(shutil.rmtree, app.root)
    with (
        pytest.raises(RunError, match="was dropped just now"),
        app.running(lambda seconds: dropping.close()),
    ):
        pass
    assert not app.root.exists()
