"""Figures in words: nothing that was lost is left out, and nothing is said that means nothing."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from types import SimpleNamespace

from typer.testing import CliRunner

from braid.cli.figures import behind_words, count_words, dead_words, lag_words, rate_words
from braid.cli.main import app
from braid.cli.monitor import Monitor
from braid.core.counters import Counters, InputCounters
from braid.home.paths import Home
from braid.home.status import InputStatus, Period, RunState, StageStatus, Status

COUNTED = Counters(
    rows_in=1000,
    rows_out=900,
    matches=700,
    rescued=3,
    lost_matches=4,
    dead={"late_left": 4, "invalid_time": 0},
    inputs={
        "left": InputCounters(
            rows=600, decided=500, matched=450, unmatched=50, lost={"late": 4, "capped": 0}
        ),
        "right": InputCounters(rows=400, decided=300),
    },
)


def test_all_that_was_counted_is_said() -> None:
    assert list(count_words(COUNTED)) == [
        "1,000 rows in, 900 out",
        "700 matches",
        "3 of them rescued from the log",
        "4 matches lost, since one of their rows was late",
        "90.00% of 500 left rows with a match",
        "4 left rows lost: late",
    ]
    assert dead_words(COUNTED) == "late_left 4"
    assert list(count_words(Counters())) == ["0 rows in, 0 out"]


def test_match_rates_say_of_which_time_they_are() -> None:
    late = Counters(inputs={"left": InputCounters(matched=1, unmatched=1)})
    recent = (Period(minutes=1, seconds=62.0, counters=late), Period(minutes=5, seconds=70, counters=COUNTED))
    stage = StageStatus(kind="join", totals=COUNTED, recent=recent)
    assert rate_words(stage) == "left 90.0%, 50.0% in 1 min, 90.0% in 70 s"


def test_what_is_not_known_is_not_said() -> None:
    assert (behind_words(InputStatus()), lag_words(InputStatus())) == ("", "")
    assert behind_words(InputStatus(rows_behind=1200, behind_ms=90_500)) == "1,200 rows, 90.5 s"
    assert behind_words(InputStatus(rows_behind=9, more_behind=True)) == "more than 9 rows"
    assert lag_words(InputStatus(lag_ms=3_600_000, doing="idle")) == "60.0 min (idle)"
    assert lag_words(InputStatus(doing="ended")) == "ended"


def test_status_shows_totals_rates_lag_and_dead_letters(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    inputs = {"left": InputStatus(doing="ended"), "right": InputStatus(doing="reading")}
    stages = {"j": StageStatus(kind="join", what="left join", totals=COUNTED, inputs=inputs)}
    status = Status(application="demo", state=RunState.DRAINED, stages=stages)
    status.write(home.application("demo").status_file)
    shown = " ".join(CliRunner().invoke(app, ["status", "--home", str(home.root)]).stdout.split())
    for text in ("1,000", "900", "left 90.0%", "left ended", "late_left 4"):
        assert text in shown


def test_status_shows_an_error_as_it_is(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    status = Status(application="demo", state=RunState.FAILED, error="x[/y] [true,false]")
    status.write(home.application("demo").status_file)
    found = CliRunner().invoke(app, ["status", "--home", str(home.root)])
    assert found.exit_code == 0
    for text in ("x[/y]", "[true,false]"):
        assert text in found.stdout


def summary(home: Home, stage: StageStatus) -> list[str]:
    status = Status(application="demo", state=RunState.DRAINED, stages={"j": stage})
    plan = SimpleNamespace(application="demo")
    handle = SimpleNamespace(status=status, plan=plan, home=home.application("demo"))
    first, *lines = Monitor(StringIO()).summary(handle).splitlines()
    assert first.startswith("demo: drained after ")
    return lines


def test_the_last_words_name_what_was_lost_and_where_it_is(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    all_counted = ", ".join([*count_words(COUNTED), "dead letters: late_left 4"])
    assert "4 matches lost" in all_counted
    hint = "  see `braid cat demo.dead_letter` for dead letters"
    stage = StageStatus(kind="join", run=COUNTED, totals=COUNTED)
    assert summary(home, stage) == [f"  j: {all_counted}", hint]
    later = StageStatus(kind="join", run=Counters(rows_in=7), totals=COUNTED)
    assert summary(home, later) == [
        "  j: 7 rows in, 0 out",
        f"    since 1970-01-01 00:00:00Z: {all_counted}",
        hint,
    ]
    assert summary(home, StageStatus(kind="join")) == ["  j: 0 rows in, 0 out"]
