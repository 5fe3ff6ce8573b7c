"""Figures of all applications over HTTP."""

from __future__ import annotations

import os

from braid.api.data import publish
from braid.home.figures import HomeFigures
from braid.home.paths import Home
from braid.home.service import Driver, Resources
from braid.home.status import RunState, Status
from braid.home.top import Figures
from braid.service.figures import ServiceFigures
from tests.service.conftest import Tried
from tests.service.test_deploying import API, deploy, program


def test_figures_of_what_is_deployed(tried: Tried) -> None:
    for name in "lr":
        publish(name, [{"id": 1, "t": 1_700_000_000, "k": "a"}], tried.state.home)
    now = 0.0
    tried.state.figures = ServiceFigures(tried.state.home, lambda: now, lambda seconds: None)
    assert tried.http.get(f"{API}/top").json()["applications"] == []
    deploy(tried, program())
    for name in ("one", "two"):
        small = Resources(pool="small").asked
        deploy(tried, program(name=name, out=name), resources=small)
    tried.settle()
    for name in ("clicks", "one", "two"):
        # This process plays all drivers.
        path = tried.state.folder.driver(name).driver_file
        driver = Driver.read(path)
        assert driver is not None
        tried.drivers.alive[os.getpid()] = name
        driver.model_copy(update={"pid": os.getpid()}).write(path)
    assert tried.http.get(f"{API}/top").json()["applications"] == []  # it has just been looked at
    now = 3.0
    found = tried.http.get(f"{API}/top").json()
    listed = [
        (one["application"], one["state"], one["version"], one["pool"]) for one in found["applications"]
    ]
    assert listed == [
        ("clicks", "running", 1, None),
        ("one", "running", 1, "small"),
        ("two", "running", 1, "small"),
    ]
    [process] = found["processes"]
    assert (process["pid"], process["applications"]) == (os.getpid(), ["clicks", "one", "two"])
    assert process["memory"] > 1_000_000
    assert process["cpu"] is not None
    tried.http.post(f"{API}/applications/one/stop")
    now = 6.0
    states = {one["application"]: one["pid"] for one in tried.http.get(f"{API}/top").json()["applications"]}
    assert states["clicks"] == os.getpid()


def test_a_first_look_waits_for_a_moment_and_later_ones_do_not(home: Home) -> None:
    slept: list[float] = []
    now = 100.0
    figures = HomeFigures(home, lambda: now, slept.append)
    known = [Figures(application="app", state="running", pid=os.getpid())]
    Status(application="app", state=RunState.RUNNING).write(home.application("app").status_file)
    figures.top(known)
    now = 102.0
    figures.top(known)
    assert len(slept) == 1
    now = 200.0
    figures.top(known)
    assert len(slept) == 2
