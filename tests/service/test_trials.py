"""Trials over HTTP, each in a process of its own: shown in plans, and with quotas a reason to refuse."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from braid.api.data import publish
from braid.cli.trials import trial_words
from braid.client.models import InputTrial, PlanInfo, QuotaInfo, Role, StageTrial, TrialInfo, TrialState
from braid.core.errors import ConfigError
from braid.service.settings import read_settings
from tests.service.conftest import Tried

API = "/api/v1"
BEGIN = 1_700_000_000
PROGRAM = """
CREATE APPLICATION clicks WITH (shards = 2);
CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
CREATE TABLE out AS SELECT {columns} FROM l LEFT JOIN r ON l.k = r.k
  AND r.t BETWEEN l.t AND l.t + INTERVAL '10 seconds' STORAGE SCRIBE(category = "out");
"""
SIMPLE = PROGRAM.format(columns="l.id AS lid, r.id AS rid")
with_trials = pytest.mark.parametrize("tried", [{"trial_seconds": 25}], indirect=True)


@pytest.fixture(autouse=True)
def inputs(tried: Tried) -> None:
    rows = [{"id": n, "t": BEGIN + n, "k": f"k{n}"} for n in range(600)]
    publish("l", rows, tried.state.home)
    publish("r", [{**row, "t": BEGIN + n + 3} for n, row in enumerate(rows) if n % 4], tried.state.home)


def plan(tried: Tried, text: str = SIMPLE) -> Any:
    answer = tried.http.post(f"{API}/plans", json={"program": text})
    assert answer.status_code == 200, answer.text
    return answer.json()


def deploy(tried: Tried, text: str, status: int, **more: Any) -> Any:
    answer = tried.http.post(f"{API}/deployments", json={"program": text, **more})
    assert answer.status_code == status, answer.text
    return answer.json()


@with_trials
def test_a_plan_says_what_is_expected(tried: Tried) -> None:
    found = plan(tried)
    trial = found["trial"]
    assert trial["state"] == "done", trial
    assert trial["rows_out"] == pytest.approx(1.0, rel=0.05)
    assert trial["stages"]["out"]["match_rate"]["left"] == pytest.approx(0.75, abs=0.01)
    assert trial["inputs"]["l"] == {
        "rows": 600,
        "dead": 0,
        "rate": pytest.approx(1.0, rel=0.05),
        "basis": "event times",
    }
    deploy(tried, SIMPLE, 201, hash=found["hash"])


@with_trials
def test_what_was_shown_is_not_tried_again_at_once(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    first = plan(tried)["trial"]
    monkeypatch.setattr(tried.state.trials, "_run", lambda job: pytest.fail("tried again"))
    assert plan(tried)["trial"] == first
    monkeypatch.setattr(tried.state.trials, "_clock", lambda: time.monotonic() + 1000)
    with pytest.raises(pytest.fail.Exception, match="tried again"):
        plan(tried)


@with_trials
def test_what_could_not_be_tried_is_tried_as_soon_as_there_are_rows(tried: Tried) -> None:
    text = SIMPLE.replace('SCRIBE("l")', 'SCRIBE("later")')
    assert "no rows yet" in plan(tried, text)["trial"]["why"]
    publish("later", [{"id": n, "t": BEGIN + n, "k": f"k{n}"} for n in range(600)], tried.state.home)
    assert plan(tried, text)["trial"]["state"] == "done"


@with_trials
def test_a_program_that_fails_on_rows_does_not_land(tried: Tried) -> None:
    publish("l", [{"id": 0, "t": BEGIN + 600, "k": "(secret"}], tried.state.home)
    text = PROGRAM.format(columns="l.id AS lid, 'x' RLIKE l.k AS y")
    assert plan(tried, text)["trial"]["state"] == "failed"
    refused = deploy(tried, text, 422)
    assert "regular expression" in refused["what"]
    assert "row 0 of commit 1 of category l" in refused["where"]
    assert "secret" not in str(refused)


@pytest.mark.parametrize("tried", [{"trial_seconds": 25, "quota_rows_held": 5}], indirect=True)
def test_what_is_over_a_quota_does_not_land(tried: Tried) -> None:
    (quota,) = plan(tried)["quotas"]
    assert (quota["name"], quota["kept"], quota["limit"]) == ("rows_held", False, 5)
    refused = deploy(tried, SIMPLE, 422)
    assert "over a quota" in refused["what"]
    assert "rows held, and 5 is the most" in refused["what"]
    assert refused["where"] == "quota_rows_held"


@pytest.mark.parametrize("tried", [{"trial_seconds": 25, "quota_rows_held": 10_000}], indirect=True)
def test_what_keeps_its_quotas_lands(tried: Tried) -> None:
    deploy(tried, SIMPLE, 201)


@pytest.mark.parametrize("tried", [{"trial_seconds": 25, "quota_rows_held": 5}], indirect=True)
def test_a_rollback_keeps_quotas_too(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    done = TrialInfo(state=TrialState.DONE, rows_held=1.0)
    with monkeypatch.context() as patched:
        patched.setattr(tried.state.trials, "_run", lambda job: done)
        deploy(tried, SIMPLE, 201)
        deploy(tried, PROGRAM.format(columns="l.id AS lid"), 201, remove=True)
    monkeypatch.setattr(tried.state.trials, "_clock", lambda: time.monotonic() + 1000)
    answer = tried.http.post(f"{API}/applications/clicks/rollback", json={})
    assert answer.status_code == 422, answer.text
    assert "over a quota" in answer.json()["what"]


@pytest.mark.parametrize("tried", [{"quota_cores": 2}], indirect=True)
def test_cores_are_known_without_a_trial(tried: Tried) -> None:
    refused = deploy(tried, SIMPLE, 422, resources={"cores": 3})
    assert "3 cores, and 2 is the most" in refused["what"]
    deploy(tried, SIMPLE, 201, resources={"cores": 2})


@pytest.mark.parametrize("tried", [{"trial_seconds": 0.2, "quota_rows_held": 5}], indirect=True)
def test_a_trial_that_takes_too_long_is_ended_and_evades_no_quota(tried: Tried) -> None:
    trial = plan(tried)["trial"]
    assert (trial["state"], trial["rows_held"]) == ("exceeded", None)
    assert "is not known" in deploy(tried, SIMPLE, 422)["what"]


@pytest.mark.parametrize("tried", [{"trial_seconds": 25, "trial_memory": "300m"}], indirect=True)
def test_a_join_that_explodes_hurts_nobody(tried: Tried) -> None:
    same = [{"id": n, "t": BEGIN + n / 1000, "k": "same"} for n in range(20_000)]
    publish("l", same, tried.state.home)
    publish("r", same, tried.state.home)
    assert plan(tried)["trial"]["state"] == "exceeded"


@with_trials
def test_what_cannot_be_tried_lands_all_the_same(tried: Tried) -> None:
    text = SIMPLE.replace('SCRIBE("r")', 'SCRIBE("empty")')
    assert plan(tried, text)["trial"]["why"] == "there are no rows yet in category 'empty'"
    deploy(tried, text, 201, create=True)


@with_trials
def test_who_may_neither_see_rows_nor_deploy_learns_nothing_of_rows(tried: Tried) -> None:
    for role, rows, told in (
        (Role.VIEWER, False, False),
        (Role.VIEWER, True, True),
        (Role.EDITOR, False, True),
    ):
        headers = tried.token(f"{role}-{rows}", role, rows)
        answer = tried.http.post(f"{API}/plans", json={"program": SIMPLE}, headers=headers)
        assert (answer.json()["trial"] is not None) == told


@pytest.mark.parametrize("tried", [{"trial_seconds": 0.1}], indirect=True)
def test_trials_wait_for_each_other(tried: Tried) -> None:
    while tried.state.trials._free.acquire(blocking=False):
        continue
    assert "ask again" in plan(tried)["trial"]["why"]


def test_a_service_may_make_no_trials(tried: Tried) -> None:
    assert "no trials" in plan(tried)["trial"]["why"]


def test_quotas_need_trials(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_text('quota_memory = "2g"\nquota_log_per_day = "10g"')
    found = read_settings(file)
    assert (found.quota_memory, found.quota_log_per_day) == (2 << 30, 10 << 30)
    with pytest.raises(ConfigError, match="without trials"):
        read_settings(file, trial_seconds=0)
    file.write_text('quota_memory = "much"')
    with pytest.raises(ConfigError, match="'quota_memory'"):
        read_settings(file)


@pytest.fixture
def shown() -> PlanInfo:
    stage = StageTrial(rows_in=5, rows_out=2.5, match_rate={"left": 0.754})
    return PlanInfo(
        application="clicks",
        new=True,
        hash="",
        trial=TrialInfo(
            state=TrialState.DONE,
            rows_in=5,
            rows_out=2.5,
            rows_held=1234,
            memory=3 << 29,
            checkpoint=2 << 20,
            log_per_day=5 << 30,
            inputs={"l": InputTrial(rows=600, dead=2, rate=5, basis="commits")},
            stages={"out": stage},
            notes=["a note"],
        ),
        quotas=[QuotaInfo(name="memory", figure=9, limit=8, text="9, and 8 is the most", kept=False)],
    )


def test_a_plan_in_words(shown: PlanInfo) -> None:
    assert list(trial_words(shown)) == [
        "expected, by a trial on the newest 600 rows:",
        "  l: 5 rows/s, by commits, 2 of 600 dead letters",
        "  5 rows/s in, 2.5 rows/s out, 1,234 rows held",
        "  out: 75.4% of left rows with a match",
        "  1.5 GB of memory, 2.0 MB of checkpoints, 5.0 GB a day in the log",
        "  a note",
        "over quota_memory: 9, and 8 is the most",
    ]
    assert shown.is_refused
    failed = TrialInfo(state=TrialState.FAILED, why="it fails", where="slicer out")
    other = shown.model_copy(update={"trial": failed, "quotas": []})
    assert list(trial_words(other)) == ["the trial has failed: it fails (slicer out)"]
    assert other.is_refused
