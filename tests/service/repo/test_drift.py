"""What is done by hand is told, and undone only when somebody says so, or the file changes."""

from __future__ import annotations

import pytest

from braid.client.models import Role
from tests.service.repo.conftest import Followed, program
from tests.service.repo.test_following import CLICKS, MORE, ran

SYNC = "/repo/applications/clicks/sync"


def deploy(followed: Followed, text: str, **more: object) -> None:
    followed.post("/deployments", 201, {"program": text, **more})


def test_a_version_by_hand_is_told_and_kept(followed: Followed) -> None:
    followed.push({CLICKS: program()})
    ran(followed, 1)
    deploy(followed, program(MORE), options={"shards": "3"}, resources={"memory": "1g"})
    ran(followed, 2)
    followed.look()
    found = followed.file(CLICKS)
    assert found["state"] == "drift"
    assert found["problem"] == (
        "by hand, version 2 by owner has taken its place: the program; option shards is 3, not as usual; "
        "memory is 1g, not as usual"
    )
    assert followed.events() == [f"{CLICKS}: {found['problem']}"]
    followed.push({"README.md": "something else"})
    assert (len(followed.versions()), len(followed.events())) == (2, 1)
    # Somebody wants what the folder says.
    synced = followed.post(SYNC)
    assert (synced["state"], synced["version"]) == ("applied", 3)
    assert followed.versions()[2:] == [(3, "accepted", "git:Ann Example")]
    assert ("owner", "sync") in [(one["who"], one["action"]) for one in followed.get("/audit")]
    followed.look()
    assert followed.files() == {CLICKS: ("clicks", "applied")}


def test_the_next_change_of_the_file_undoes_what_was_done_by_hand(followed: Followed) -> None:
    followed.push({CLICKS: program()})
    ran(followed, 1)
    deploy(followed, program(MORE))
    ran(followed, 2)
    followed.push({CLICKS: program("l.id AS lid, l.k AS k")})
    assert followed.files() == {CLICKS: ("clicks", "applied")}
    assert len(followed.versions()) == 3


def test_what_is_deployed_by_hand_as_the_file_says_is_no_drift(followed: Followed) -> None:
    followed.push({CLICKS: program()})
    ran(followed, 1)
    deploy(followed, program(MORE))
    ran(followed, 2)
    followed.push({CLICKS: program(MORE)})
    assert followed.files() == {CLICKS: ("clicks", "applied")}
    assert len(followed.versions()) == 2


def test_a_stop_by_hand_is_told(followed: Followed) -> None:
    followed.push({CLICKS: program()})
    followed.post("/applications/clicks/stop")
    followed.look()
    found = followed.file(CLICKS)
    assert (found["state"], found["problem"]) == ("drift", "by hand it was stopped; the folder says running")
    assert followed.get("/applications/clicks")["state"] == "stopped"
    assert followed.post(SYNC)["state"] == "applied"
    followed.tried.settle()
    assert followed.get("/applications/clicks")["state"] == "running"
    assert len(followed.versions()) == 1


def test_an_application_can_be_stopped_by_the_folder(followed: Followed) -> None:
    followed.push({CLICKS: program(), "apps/clicks.yaml": "desired: stopped"})
    assert followed.get("/applications/clicks")["state"] == "stopped"
    assert not followed.tried.drivers.started
    followed.post("/applications/clicks/start")
    followed.look()
    assert followed.file(CLICKS)["problem"] == "by hand it was started; the folder says stopped"
    followed.push({"apps/clicks.yaml": "# it goes on\ndesired: running"})
    assert followed.files() == {CLICKS: ("clicks", "applied")}
    followed.push({"apps/clicks.yaml": "desired: stopped"})
    assert followed.get("/applications/clicks")["state"] == "stopped"
    assert len(followed.versions()) == 1


def test_a_deletion_by_hand_is_told(followed: Followed) -> None:
    followed.push({CLICKS: program()})
    followed.post("/applications/clicks/stop")
    followed.tried.settle()
    assert followed.tried.http.delete("/api/v1/applications/clicks").status_code == 200
    followed.look()
    assert followed.file(CLICKS)["problem"] == "application 'clicks' was deleted by hand"
    followed.push({"README.md": "something else"})
    assert followed.get("/applications") == []
    followed.post(SYNC)
    assert followed.versions() == [(1, "accepted", "git:Ann Example")]


def test_what_was_deployed_before_the_folder_had_it_is_taken_over_if_it_is_the_same(
    followed: Followed,
) -> None:
    deploy(followed, program(), options={"shards": "2"})
    followed.push({CLICKS: "-- mine\n" + program(), "apps/clicks.yaml": "options: {shards: 2}"})
    assert followed.files() == {CLICKS: ("clicks", "applied")}
    assert followed.versions() == [(1, "accepted", "owner")]
    ran(followed, 1)
    followed.push({CLICKS: program(MORE)})
    assert len(followed.versions()) == 2


def test_what_was_deployed_before_the_folder_had_it_as_something_else_is_a_conflict(
    followed: Followed,
) -> None:
    deploy(followed, program(MORE))
    ran(followed, 1)
    followed.push({CLICKS: program()})
    found = followed.file(CLICKS)
    assert found["state"] == "conflict"
    assert found["problem"].endswith("is not what the folder says: the program")
    followed.push({CLICKS: program("l.id AS lid, l.k AS k")})
    assert (followed.file(CLICKS)["state"], len(followed.versions())) == ("conflict", 1)
    # Its file may go again, and there is nothing to tell.
    followed.push({CLICKS: None})
    assert followed.files() == {}
    followed.push({CLICKS: program()})
    assert followed.post(SYNC)["version"] == 2
    assert followed.files() == {CLICKS: ("clicks", "applied")}


def test_who_may_not_change_an_application_may_not_sync_it(followed: Followed) -> None:
    followed.push({CLICKS: program()})
    viewer, other = followed.tried.token("vic", Role.VIEWER), followed.tried.token("eve", only=["other_*"])
    for path, headers in ((SYNC, viewer), ("/repo/look", viewer), (SYNC, other)):
        followed.post(path, 403, headers=headers)
    assert followed.tried.http.get("/api/v1/repo", headers=viewer).status_code == 200
    assert "applications of the folder: clicks" in followed.post("/repo/applications/x/sync", 404)["hint"]


@pytest.mark.parametrize("followed", [{"review": "required"}], indirect=True)
def test_nobody_approves_what_they_have_committed(followed: Followed) -> None:
    people = {name: followed.tried.token(name, Role.APPROVER) for name in ("ann", "Ann Example", "bob", "cy")}
    followed.push({CLICKS: program()})
    followed.push({CLICKS: program(MORE)}, author="Bob <bob@example.com>")
    found = followed.file(CLICKS)
    assert (found["state"], found["version"]) == ("waiting", 2)
    assert found["problem"] == "version 2 waits for approval"
    assert followed.versions() == [(1, "void", "git:Ann Example"), (2, "waiting", "git:Bob")]
    url = "/applications/clicks/versions/2/approve"
    right = {"hash": followed.get("/applications/clicks/versions/2")["hash"]}
    # Ann has written the file, too, and nothing of it has run since then.
    for name in ("ann", "Ann Example", "bob"):
        assert "nobody approves their own" in followed.post(url, 403, right, people[name])["what"]
    assert followed.post(url, 200, right, people["cy"])["approved_by"] == "cy"
    followed.look()
    assert followed.files() == {CLICKS: ("clicks", "applied")}
    assert followed.get("/applications/clicks")["running_version"] == 2


@pytest.mark.parametrize("followed", [{"review": "required"}], indirect=True)
def test_a_version_that_waits_is_void_when_the_file_moves_on(followed: Followed) -> None:
    cy = followed.tried.token("cy", Role.APPROVER)

    def approve(number: int) -> str:
        right = {"hash": followed.get(f"/applications/clicks/versions/{number}")["hash"]}
        url = f"/applications/clicks/versions/{number}/approve"
        return str(followed.post(url, 200, right, cy)["state"])

    followed.push({CLICKS: program(), "apps/clicks.yaml": "desired: stopped"})
    assert approve(1) == "accepted"
    followed.look()
    assert followed.get("/applications/clicks")["state"] == "stopped"
    assert not followed.tried.drivers.started
    followed.push({CLICKS: program(MORE)})
    followed.repository.git("revert", "--no-edit", "HEAD")
    followed.look()
    assert followed.files() == {CLICKS: ("clicks", "applied")}
    assert [state for _, state, _ in followed.versions()] == ["accepted", "void"]
    # What runs changes, so that an approval would be for something else: it is planned again.
    followed.push({CLICKS: program(MORE)})
    ran(followed, 1)
    assert approve(3) == "void"
    followed.look()
    assert [state for _, state, _ in followed.versions()][2:] == ["void", "waiting"]
    assert approve(4) == "accepted"
