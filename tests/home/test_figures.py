"""Figures of applications, from what their status and their plan say."""

from __future__ import annotations

from pathlib import Path

from braid import api
from braid.core.counters import Counters, InputCounters
from braid.core.times import MAX_TIME
from braid.core.usage import Usage
from braid.home.figures import Ends, HomeFigures, run_figures, top
from braid.home.paths import Home
from braid.home.status import InputStatus, Period, RunState, StageStatus, Status
from braid.home.top import Figures, RunFigures

FIGURE_3 = Path(__file__).parent.parent / "plan" / "figure3.sql"
ENDS = Ends(first=frozenset({"l", "r"}), last=frozenset({"j"}))


def period(minutes: int = 1, **counts: object) -> Period:
    return Period(minutes=minutes, seconds=60.0 * minutes, counters=Counters(**counts))  # type: ignore[arg-type]


def decided(matched: int, unmatched: int) -> dict[str, InputCounters]:
    return {"left": InputCounters(matched=matched, unmatched=unmatched)}


def status(state: RunState = RunState.RUNNING, **joined: object) -> Status:
    return Status(
        application="app",
        state=state,
        stages={
            "l": StageStatus(
                kind="slicer",
                recent=(period(rows_in=600, rows_out=540),),
                inputs={"source": InputStatus(category="a", rows_behind=7)},
            ),
            "r": StageStatus(
                kind="slicer",
                recent=(period(rows_in=60, rows_out=60),),
                inputs={"source": InputStatus(category="b", rows_behind=1000, more_behind=True)},
            ),
            "j": StageStatus(**{"kind": "join", **joined}),  # type: ignore[arg-type]
        },
    )


def test_rates_are_those_of_where_rows_come_in_and_go_out() -> None:
    inputs = {
        "left": InputStatus(lag_ms=5_000, stream_time=1, rows_behind=2),
        "right": InputStatus(lag_ms=65_000, stream_time=1),
        "idle": InputStatus(lag_ms=999_000, stream_time=1, doing="idle"),
        "ended": InputStatus(lag_ms=999_000, stream_time=MAX_TIME),
    }
    recent = (period(rows_in=600, rows_out=300, inputs=decided(90, 10)), period(5, inputs=decided(1, 99)))
    assert run_figures(status(inputs=inputs, recent=recent), ENDS) == RunFigures(
        rows_in=11.0,
        rows_out=5.0,
        seconds=60.0,
        backlog=1009,
        more_behind=True,
        delay=65.0,
        match_rate=0.9,
        held_up=None,
    )


def test_what_is_not_known_is_none() -> None:
    assert run_figures(status(RunState.STOPPED), ENDS) == RunFigures()
    found = run_figures(status(recent=(period(), period(5, inputs=decided(1, 3))), trouble="disk"), ENDS)
    assert (found.match_rate, found.delay, found.held_up) == (0.25, None, "j: disk")
    bare = Status(application="app", state=RunState.STARTING, stages={"j": StageStatus(kind="join")})
    assert run_figures(bare, ENDS) == RunFigures()


def test_the_ends_of_a_plan() -> None:
    plan = api.compile_file(FIGURE_3).plan
    ends = Ends.of(plan)
    joins = {stage.name for stage in plan.stages if stage.stateful}
    assert ends.first == {stage.name for stage in plan.stages} - joins
    assert ends.last <= joins


def test_what_several_share_is_told_once() -> None:
    alone = Figures(application="alone", state="running", pid=1)
    pooled = [Figures(application=name, state="running", pid=2, pool="small") for name in "ab"]
    stopped = Figures(application="stopped", state="stopped")
    found = top(1.0, [*pooled, alone, stopped], {1: Usage(0.5, 10), 2: Usage(None, 20)})
    assert found.applications == [*pooled, alone, stopped]
    told = [(one.applications, one.pool, one.cpu, one.memory) for one in found.processes]
    assert told == [(["a", "b"], "small", None, 20), (["alone"], None, 0.5, 10)]


def test_damaged_files_of_one_application_hide_no_other(home: Home) -> None:
    for name in ("bad", "good"):
        status().write(home.application(name).status_file)
    home.application("bad").status_file.write_text("{")
    figures = HomeFigures(home, sleep=lambda seconds: None)
    known = [Figures(application=name, state="running", pid=2**30) for name in ("bad", "good")]
    bad, good = figures.top(known).applications
    assert "not JSON" in (bad.held_up or "")
    assert good.held_up is None
