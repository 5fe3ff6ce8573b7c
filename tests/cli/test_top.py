"""`braid top`: a table of figures, of a service or of a home."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from braid.cli.main import app
from braid.cli.top import Column, ordered, table
from braid.home.paths import Home
from braid.home.status import RunState, Status
from braid.home.top import Figures, ProcessFigures, Top

FOUND = Top(
    at=0.0,
    applications=[
        Figures(
            application="clicks",
            state="running",
            version=3,
            rows_in=12_345.6,
            rows_out=3.21,
            backlog=1_000,
            more_behind=True,
            delay=90.5,
            match_rate=0.987,
            restarts=2,
            pid=1,
        ),
        Figures(application="one", state="running", version=1, rows_in=50.0, pool="small", pid=2),
        Figures(application="two", state="starting", version=1, pool="small", pid=2),
        Figures(application="z" * 100, state="stopped"),
    ],
    processes=[
        ProcessFigures(pid=1, applications=["clicks"], cpu=1.25, memory=1_500_000_000),
        ProcessFigures(pid=2, applications=["one", "two"], pool="small", cpu=0.5, memory=2_000_000_000),
    ],
)


def shown(sort: Column = Column.APPLICATION, width: int = 200) -> list[list[str]]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table(FOUND, sort))
    lines = capture.get().splitlines()
    assert all(len(line) <= width for line in lines)
    return [line.replace("┃", "│").strip("│").split("│") for line in lines if line[0] in "│┃"]


def test_what_is_shown() -> None:
    head, clicks, one, two, stopped, pool = ([cell.strip() for cell in line] for line in shown())
    assert head[:2] == ["application", "state"]
    assert clicks[3:11] == ["12,346", "3.2", ">1,000", "90.5 s", "98.7%", "125", "1.5 GB", "2"]
    assert one[8:] == ["shared", "shared", "", "small"]
    assert two[3:] == ["", "", "", "", "", "shared", "shared", "", "small"]
    assert stopped[0].endswith("…")
    assert set(stopped[2:]) == {""}
    assert pool == ["pool small", "2 applications", *[""] * 6, "50", "2.0 GB", "", "small"]


def test_it_is_no_wider_than_the_terminal() -> None:
    assert shown(width=80)


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        (Column.APPLICATION, "clicks"),
        (Column.STATE, "clicks"),
        (Column.CPU, "clicks"),
        (Column.ROWS_IN, "clicks"),
    ],
)
def test_lines_are_sorted(sort: Column, first: str) -> None:
    alone = {"clicks": FOUND.processes[0]}
    mixed = [FOUND.applications[number] for number in (2, 3, 0, 1)]
    assert ordered(mixed, alone, sort)[0].application == first
    names = [one.application for one in ordered(mixed, alone, Column.ROWS_IN)]
    assert names[:2] == ["clicks", "one"]


def test_a_home_without_a_service_is_shown_once_where_there_is_no_terminal(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    runs = home.application("runs")
    with runs.running():
        Status(application="runs", state=RunState.RUNNING, pid=os.getpid()).write(runs.status_file)
        stopped = home.application("stopped")
        Status(application="stopped", state=RunState.STOPPED, pid=1).write(stopped.status_file)
        found = CliRunner().invoke(app, ["top", "--home", str(home.root), "--sort", "cpu"])
        assert found.exit_code == 0, found.output
        assert [line for line in found.stdout.splitlines() if "runs" in line and "running" in line]
        assert "stopped" in found.stdout
        told = CliRunner().invoke(app, ["top", "--home", str(home.root), "--json"])
    value = json.loads(told.stdout)
    assert [one["application"] for one in value["applications"]] == ["runs", "stopped"]
    assert [one["pid"] for one in value["processes"]] == [os.getpid()]
    assert value["processes"][0]["cpu"] is not None
    missing = CliRunner().invoke(app, ["top", "--home", str(tmp_path / "none")])
    assert missing.exit_code == 1
    assert "there is no home" in missing.stderr
