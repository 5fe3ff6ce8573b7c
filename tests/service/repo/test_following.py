"""What a folder in Git says is applied: added, changed, broken, mended, reverted, renamed, force-pushed."""

from __future__ import annotations

from braid.home.files import write_json
from braid.plan.serialise import plan_to_json
from braid.service.landing import plan_of, version_of
from tests.service.repo.conftest import Followed, program

CLICKS = "apps/clicks.sql"
MORE = "l.id AS lid, r.id AS rid"


def ran(followed: Followed, number: int) -> None:
    """Leave behind what a version that has run leaves behind."""
    state = followed.tried.state
    with state.database.transaction() as session:
        plan = plan_of(version_of(session, "clicks", number))
    write_json(state.home.application("clicks").plan_file, plan_to_json(plan))


def test_a_file_that_is_added_runs(followed: Followed) -> None:
    followed.look()
    assert followed.repo()["trouble"].endswith("has no programs in apps")
    commit = followed.push({CLICKS: program(), "apps/README.md": "no program", "other/x.sql": "none"})
    assert followed.files() == {CLICKS: ("clicks", "applied")}
    assert followed.versions() == [(1, "accepted", "git:Ann Example")]
    info = followed.get("/applications/clicks")
    assert (info["state"], info["running_version"]) == ("running", 1)
    (event,) = (one for one in followed.get("/events") if one["kind"] == "version")
    assert (event["data"]["commit"], event["data"]["path"]) == (commit, CLICKS)
    (audit,) = followed.get("/audit")
    assert (audit["who"], audit["source"]) == ("git:Ann Example", f"commit {commit[:12]}")
    assert audit["after"]["commit"] == commit
    found = followed.repo()
    assert (found["commit"], found["branch"], found["trouble"]) == (commit, "main", None)
    # Nothing happens as long as nothing changes.
    before = followed.get("/events")
    followed.look()
    followed.push({"README.md": "something else"})
    assert followed.get("/events") == before
    assert len(followed.tried.drivers.started) == 1


def test_a_file_that_is_changed_is_an_update(followed: Followed) -> None:
    followed.push({CLICKS: program()})
    ran(followed, 1)
    followed.push({CLICKS: program(MORE)}, author="Bob <bob@example.com>")
    assert followed.versions()[1:] == [(2, "accepted", "git:Bob")]
    assert followed.get("/applications/clicks")["running_version"] == 2
    # A comment changes nothing that runs.
    followed.push({CLICKS: "-- a comment\n" + program(MORE)})
    assert len(followed.versions()) == 2
    assert followed.files() == {CLICKS: ("clicks", "applied")}


def test_a_broken_file_holds_nothing_up_until_it_is_mended(followed: Followed) -> None:
    followed.push({CLICKS: program(), "apps/other.sql": program(name="other", out="elsewhere")})
    ran(followed, 1)
    broken = {
        CLICKS: "CREATE APPLICATION clicks; CREATE TABLE",
        "apps/third.sql": program(name="third", out="x"),
    }
    followed.push(broken)
    assert followed.files() == {
        CLICKS: ("clicks", "problem"),
        "apps/other.sql": ("other", "applied"),
        "apps/third.sql": ("third", "applied"),
    }
    assert "apps/clicks.sql:1:" in followed.file(CLICKS)["problem"]
    assert followed.get("/applications/clicks")["running_version"] == 1
    (text,) = (text for text in followed.events() if CLICKS in text)
    assert text.startswith("apps/clicks.sql: apps/clicks.sql:1")
    followed.look()
    assert len([text for text in followed.events() if CLICKS in text]) == 1
    followed.push({CLICKS: program(MORE)})
    assert followed.files()[CLICKS] == ("clicks", "applied")
    assert followed.versions()[-1][0] == 2
    assert followed.events()[-1] == "apps/clicks.sql: nothing is wrong any more"


def test_a_file_that_was_never_in_order_is_told(followed: Followed) -> None:
    followed.push({CLICKS: "CREATE APPLICATION clicks; CREATE TABLE"})
    assert followed.files() == {CLICKS: (None, "problem")}
    followed.push({CLICKS: program()})
    assert followed.files() == {CLICKS: ("clicks", "applied")}


def test_a_revert_is_a_change(followed: Followed) -> None:
    followed.push({CLICKS: program()})
    ran(followed, 1)
    followed.push({CLICKS: program(MORE)})
    ran(followed, 2)
    followed.repository.git("revert", "--no-edit", "HEAD", author="Bob <bob@example.com>")
    followed.look()
    assert followed.versions()[2:] == [(3, "accepted", "git:Bob")]
    assert followed.get("/applications/clicks/versions/3")["program"] == program()


def test_a_renamed_file_is_the_same_application(followed: Followed) -> None:
    followed.push({CLICKS: program()})
    events = followed.get("/events")
    followed.repository.git("mv", CLICKS, "apps/renamed.sql")
    followed.push()
    assert followed.files() == {"apps/renamed.sql": ("clicks", "applied")}
    assert len(followed.versions()) == 1
    assert followed.get("/events") == events
    # Renamed and changed at once, it is an update.
    ran(followed, 1)
    followed.push({"apps/renamed.sql": None, CLICKS: program(MORE)})
    assert followed.files() == {CLICKS: ("clicks", "applied")}
    assert [number for number, _, _ in followed.versions()] == [1, 2]


def test_two_files_of_one_application_are_both_told(followed: Followed) -> None:
    followed.push({CLICKS: program(), "apps/again.sql": program(MORE)})
    assert followed.files() == {"apps/again.sql": ("clicks", "problem"), CLICKS: ("clicks", "problem")}
    assert "are of the same application" in followed.file(CLICKS)["problem"]
    assert followed.get("/applications") == []
    assert "same application" in followed.post("/repo/applications/clicks/sync", 409)["what"]
    followed.push({"apps/again.sql": None})
    assert followed.files() == {CLICKS: ("clicks", "applied")}
    # The second one comes later, and then the first one goes.
    followed.push({"apps/again.sql": program()})
    assert {state for _, state in followed.files().values()} == {"problem"}
    followed.push({CLICKS: None})
    assert followed.files() == {"apps/again.sql": ("clicks", "applied")}
    assert len(followed.versions()) == 1


def test_a_removed_file_leaves_its_application_alone(followed: Followed) -> None:
    followed.push({CLICKS: program(), "apps/other.sql": program(name="other", out="elsewhere")})
    followed.push({CLICKS: None})
    found = followed.file(CLICKS)
    assert (found["application"], found["state"]) == ("clicks", "orphan")
    assert "braid delete clicks" in found["hint"]
    assert followed.get("/applications/clicks")["state"] == "running"
    followed.push({CLICKS: program()})
    assert followed.files()[CLICKS] == ("clicks", "applied")
    assert len(followed.versions()) == 1
    # When somebody deletes it, there is nothing more to tell.
    followed.push({CLICKS: None})
    followed.post("/applications/clicks/stop")
    followed.tried.settle()
    assert followed.tried.http.delete("/api/v1/applications/clicks").status_code == 200
    followed.look()
    assert CLICKS not in followed.files()


def test_a_file_of_another_application_is_a_new_one(followed: Followed) -> None:
    followed.push({CLICKS: program()})
    followed.push({CLICKS: program(name="visits", out="elsewhere")})
    found = {(one["application"], one["state"]) for one in followed.repo()["files"]}
    assert found == {("visits", "applied"), ("clicks", "orphan")}
    assert {one["name"] for one in followed.get("/applications")} == {"clicks", "visits"}
    followed.push({CLICKS: program()})
    found = {(one["application"], one["state"]) for one in followed.repo()["files"]}
    assert found == {("visits", "orphan"), ("clicks", "applied")}
    assert len(followed.versions()) == 1


def test_a_force_push_is_followed(followed: Followed) -> None:
    repository = followed.repository
    first = followed.push({CLICKS: program()})
    ran(followed, 1)
    followed.push({CLICKS: program(MORE), "apps/other.sql": program(name="other", out="elsewhere")})
    ran(followed, 2)
    repository.git("reset", "--quiet", "--hard", first)
    followed.look()
    assert followed.repo()["commit"] == first
    assert followed.files() == {CLICKS: ("clicks", "applied"), "apps/other.sql": ("other", "orphan")}
    assert len(followed.versions()) == 3
    # A history that has nothing to do with the one before.
    ran(followed, 3)
    repository.git("checkout", "--quiet", "--orphan", "fresh")
    repository.commit({CLICKS: program("l.id AS lid, l.k AS k")}, author="Eve <eve@example.com>")
    repository.git("branch", "--quiet", "--force", "main", "fresh")
    repository.git("checkout", "--quiet", "main")
    repository.git("gc", "--quiet", "--prune=now")
    followed.look()
    assert followed.versions()[3:] == [(4, "accepted", "git:Eve")]
    assert followed.files()[CLICKS] == ("clicks", "applied")


def test_commits_between_two_looks_are_not_replayed(followed: Followed) -> None:
    followed.repository.commit({CLICKS: program()})
    followed.repository.commit({CLICKS: "broken"})
    followed.push({CLICKS: program(MORE)})
    assert len(followed.versions()) == 1
