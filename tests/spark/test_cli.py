"""The command line end to end: Figure 3 of the paper as it is printed, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from braid import api
from braid.home.paths import Home

pytestmark = pytest.mark.spark

FIGURE_3 = Path(__file__).parents[2] / "examples" / "first" / "app.sql"


def braid(*arguments: str, text: str | None = None) -> str:
    return said(*arguments, text=text)[0]


def said(*arguments: str, text: str | None = None) -> tuple[str, str]:
    """What a command says to its standard output, and to the terminal beside it."""
    done = subprocess.run(
        [sys.executable, "-m", "braid.cli", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, "COLUMNS": "200"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_figure_3_from_publishing_to_printing(home: Home) -> None:
    where = ("--home", str(home.root))
    left = [{"eventtime": 1_700_000_000 + n, "key": f"k{n}", "dim_one": "a", "metric": -n} for n in range(4)]
    right = [{"eventtime": "2023-11-14T22:13:21Z", "key": "k1", "dim_two": "b", "dim_three": None}]
    braid("publish", "left", "-", *where, text="\n".join(map(json.dumps, left)) + "\n")
    braid("publish", "right", "-", *where, text="\n".join(map(json.dumps, right)) + "\n")
    run = ("run", str(FIGURE_3), "--drain", "--master", "local[2]", "--set", "shards=2")
    summary, progress = said(*run, *where)
    phases = [line.partition("] ")[2] for line in progress.splitlines() if line.startswith("[")]
    assert phases == ["starting Spark", "preparing 3 stages", "starting queries"]
    assert "sample_app: drained" in summary
    events = [json.loads(line) for line in home.application("sample_app").log_file.read_text().splitlines()]
    drained = len(events[0]["stages"]) * ["stage drained"]
    assert [event["event"] for event in events] == ["starting", "started", *drained, "ended"]
    assert events[-1]["state"] == "drained"
    assert "4 rows in, 4 out" in summary
    rows = [json.loads(line) for line in braid("cat", "result", *where).splitlines()]
    assert sorted(rows, key=lambda row: row["key"])[:2] == [
        {
            "eventtime": "2023-11-14T22:13:20.000000Z",
            "key": "k0",
            "dim_one": "a",
            "dim_two": None,
            "dim_three": "example",
            "metric": 0,
        },
        {
            "eventtime": "2023-11-14T22:13:21.000000Z",
            "key": "k1",
            "dim_one": "a",
            "dim_two": "b",
            "dim_three": "example",
            "metric": 1,
        },
    ]
    assert len(rows) == 4
    assert (
        braid("cat", "result", "--format", "csv", "--limit", "1", *where)
        .splitlines()[0]
        .startswith("eventtime,key")
    )
    assert "dim_three" in braid("cat", "result", "--format", "table", *where)
    assert "result" in braid("categories", *where)
    assert "drained" in braid("status", *where)
    assert api.status(home.root)[0].state == "drained"
