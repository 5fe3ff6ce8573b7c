"""Programs are deployed, stopped, rolled back, approved and deleted, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from braid.api.data import publish
from braid.client.models import Role
from braid.core.errors import RunError
from braid.core.owner import Owner
from braid.home.files import write_json
from braid.home.service import Domain, DriverState, Job, Resources
from braid.plan.serialise import plan_to_json
from braid.service.driver import spark_for
from braid.service.landing import plan_of, version_of
from tests.service.conftest import Tried

API = "/api/v1"
INPUTS = """
CREATE APPLICATION {name};
CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
"""


def program(
    columns: str = "l.id AS lid", keys: str = "l.k = r.k", name: str = "clicks", out: str = "out"
) -> str:
    near = "r.t BETWEEN l.t AND l.t + INTERVAL '1 minute'"
    table = f"CREATE TABLE out AS SELECT {columns} FROM l LEFT JOIN r ON {keys} AND {near}"
    return INPUTS.format(name=name) + f'{table} STORAGE SCRIBE(category = "{out}");'


@pytest.fixture(autouse=True)
def inputs(tried: Tried) -> None:
    for name in "lr":
        publish(name, [{"id": 1, "t": 1_700_000_000, "k": "a"}], tried.state.home)


def deploy(tried: Tried, text: str, status: int = 201, headers: Any = None, **more: Any) -> Any:
    answer = tried.http.post(f"{API}/deployments", json={"program": text, **more}, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


def ran(tried: Tried, number: int) -> None:
    """Leave behind what a version that has run leaves behind."""
    with tried.state.database.transaction() as session:
        plan = plan_of(version_of(session, "clicks", number))
    write_json(tried.state.home.application("clicks").plan_file, plan_to_json(plan))


def info(tried: Tried, name: str = "clicks") -> Any:
    tried.settle()
    return tried.http.get(f"{API}/applications/{name}").json()


def test_a_program_lands_and_runs(tried: Tried) -> None:
    plan = tried.http.post(f"{API}/plans", json={"program": program()}).json()
    assert (plan["application"], plan["new"], plan["verdict"]) == ("clicks", True, None)
    version = deploy(tried, program(), hash=plan["hash"])
    assert (version["number"], version["state"], version["author"]) == (1, "accepted", "owner")
    found = info(tried)
    assert (found["state"], found["running_version"], found["restarts"]) == ("running", 1, 0)
    assert [job.version for job in tried.drivers.started] == [1]
    listed = tried.http.get(f"{API}/applications").json()
    assert [one["name"] for one in listed] == ["clicks"]
    kinds = [one["kind"] for one in tried.http.get(f"{API}/events").json()]
    assert kinds == ["version"]
    whole = tried.http.get(f"{API}/applications/clicks/versions/1").json()
    assert whole["program"] == program()


def test_an_update_takes_the_place_of_what_runs(tried: Tried) -> None:
    deploy(tried, program())
    tried.settle()
    ran(tried, 1)
    changed = program("l.id AS lid, r.id AS rid")
    same = tried.http.post(f"{API}/plans", json={"program": program()}).json()
    assert (same["new"], same["verdict"], same["changes"]) == (False, "kept", [])
    plan = tried.http.post(f"{API}/plans", json={"program": changed}).json()
    assert (plan["verdict"], plan["changes"][0]["kind"]) == ("kept", "column.added")
    assert deploy(tried, changed)["verdict"] == "kept"
    assert info(tried)["running_version"] == 2
    assert len(tried.drivers.alive) == 1
    back = tried.http.post(f"{API}/applications/clicks/rollback", json={})
    assert back.status_code == 201, back.text
    ran(tried, 2)
    assert info(tried)["running_version"] == 3
    versions = tried.http.get(f"{API}/applications/clicks/versions").json()
    assert [one["number"] for one in versions] == [1, 2, 3]


def test_what_nobody_has_agreed_to_is_not_done(tried: Tried) -> None:
    deploy(tried, program())
    ran(tried, 1)
    keys = program(keys="upper(l.k) = upper(r.k)")
    assert "replays inputs" in deploy(tried, keys, 409)["what"]
    assert deploy(tried, keys, replay=True)["verdict"] == "replayed"
    ran(tried, 2)
    more = 'CREATE TABLE more AS SELECT id FROM l STORAGE SCRIBE(category = "more");'
    deploy(tried, keys + more)
    ran(tried, 3)
    found = deploy(tried, keys, 409)
    assert "leaves out" in found["what"]
    assert "--remove" in found["hint"]
    deploy(tried, keys, remove=True)
    ran(tried, 4)
    other = keys.replace('FROM SCRIBE("r")', 'FROM SCRIBE("l")')
    assert "refused" in deploy(tried, other, 422)["what"]


def test_a_plan_that_was_made_for_something_else_does_not_land(tried: Tried) -> None:
    plan = tried.http.post(f"{API}/plans", json={"program": program()}).json()
    assert "has changed" in deploy(tried, program("l.id AS x"), 409, hash=plan["hash"])["what"]
    deploy(tried, program())
    ran(tried, 1)
    assert "has changed" in deploy(tried, program(), 409, hash=plan["hash"])["what"]


def test_programs_that_are_wrong_or_write_what_another_owns_are_refused(tried: Tried) -> None:
    found = deploy(tried, "CREATE APPLICATION clicks; SELECT nonsense", 422)
    assert found["what"]
    assert "'nowhere'" in deploy(tried, program().replace('"l"', '"nowhere"'), 422)["what"]
    assert "unknown option" in deploy(tried, program(), 422, options={"shard": "3"})["what"]
    deploy(tried, program())
    # It has not run yet, and what it is to write is taken all the same.
    assert "written by application 'clicks'" in deploy(tried, program(name="other"), 409)["what"]
    deploy(tried, program(name="other", out="elsewhere"))
    tried.state.home.log().create("owned", raw=True, owner=Owner("somebody", "stage"))
    assert "is written by application 'somebody'" in deploy(tried, program(out="owned"), 422)["what"]


def test_stop_start_and_restart(tried: Tried) -> None:
    deploy(tried, program())
    info(tried)
    tried.http.post(f"{API}/applications/clicks/stop")
    assert info(tried)["state"] == "stopped"
    assert not tried.drivers.alive
    tried.http.post(f"{API}/applications/clicks/start")
    assert info(tried)["state"] == "running"
    before = info(tried)["pid"]
    asked = tried.http.post(f"{API}/applications/clicks/restart").json()
    assert asked["state"] == "stopping"  # what runs is the start of before
    after = info(tried)
    assert after["state"] == "running"
    assert after["pid"] != before
    assert tried.http.post(f"{API}/applications/none/stop").status_code == 404


def test_what_dies_is_started_again_but_not_what_is_wrong(tried: Tried) -> None:
    deploy(tried, program())
    first = info(tried)["pid"]
    del tried.drivers.alive[first]  # as SIGKILL does
    found = info(tried)
    assert (found["state"], found["restarts"]) == ("running", 1)
    tried.drivers.end(found["pid"], state=DriverState.FAILED, error="no such function", domain=Domain.USER)
    found = info(tried)
    assert (found["state"], found["error"]) == ("failed", "no such function")
    assert len(tried.drivers.started) == 2
    tried.http.post(f"{API}/applications/clicks/start")
    tried.http.post(f"{API}/applications/clicks/restart")
    assert info(tried)["state"] == "running"


def test_a_service_that_begins_finds_what_runs(tried: Tried) -> None:
    deploy(tried, program())
    before = info(tried)
    supervise = type(tried.state.supervise)(
        tried.state.database, tried.state.folder, tried.drivers, tried.state.supervise._log
    )
    tried.state.supervise = supervise
    assert info(tried)["pid"] == before["pid"]
    assert len(tried.drivers.started) == 1


def test_a_damaged_file_of_one_application_holds_up_no_other(tried: Tried) -> None:
    deploy(tried, program())
    deploy(tried, program(name="another", out="elsewhere"))
    tried.settle()
    path = tried.state.folder.driver("another").driver_file
    path.write_text("{")
    tried.http.post(f"{API}/applications/clicks/stop")
    for _ in range(4):
        with pytest.raises(RunError, match="not JSON"):
            tried.state.supervise.turn()
    assert list(tried.drivers.alive.values()) == ["another"]


def test_an_application_is_deleted_when_it_is_stopped(tried: Tried) -> None:
    deploy(tried, program())
    info(tried)
    assert tried.http.delete(f"{API}/applications/clicks").status_code == 409
    tried.http.post(f"{API}/applications/clicks/stop")
    info(tried)
    ran(tried, 1)
    dry = tried.http.delete(f"{API}/applications/clicks", params={"dry_run": True}).json()
    assert dry["removed"] == ["application clicks"]
    assert tried.http.delete(f"{API}/applications/clicks").json() == dry
    assert tried.http.get(f"{API}/applications/clicks").status_code == 404
    assert not tried.state.home.application("clicks").root.exists()
    deploy(tried, program())
    assert info(tried)["version"] == 1


@pytest.mark.parametrize("tried", [{"review": "required"}], indirect=True)
def test_somebody_else_approves(tried: Tried) -> None:
    ann, bob = tried.token("ann", Role.APPROVER), tried.token("bob", Role.APPROVER)
    version = deploy(tried, program(), headers=ann)
    assert version["state"] == "waiting"
    assert info(tried)["state"] == "waiting"
    assert not tried.drivers.started
    url, right = f"{API}/applications/clicks/versions/1/approve", {"hash": version["hash"]}
    assert tried.http.post(url, json=right, headers=tried.token("eve")).status_code == 403
    assert tried.http.post(url, json=right, headers=ann).status_code == 403
    assert tried.http.post(url, json={"hash": "0" * 64}, headers=bob).status_code == 409
    assert tried.http.post(url, json=right, headers=bob).json()["approved_by"] == "bob"
    assert info(tried)["running_version"] == 1
    assert tried.http.post(url, json=right, headers=bob).status_code == 409


@pytest.mark.parametrize("tried", [{"review": "required"}], indirect=True)
def test_an_approval_is_void_when_something_has_changed(tried: Tried) -> None:
    ann, bob = tried.token("ann"), tried.token("bob", Role.APPROVER)
    first = deploy(tried, program(), headers=ann)
    # A newer program takes its place.
    second = deploy(tried, program("l.id AS x"), headers=ann)
    url = f"{API}/applications/clicks/versions"
    assert tried.http.post(f"{url}/1/approve", json={"hash": first["hash"]}, headers=bob).status_code == 409
    # What runs is another thing by now.
    ran(tried, 1)
    answer = tried.http.post(f"{url}/2/approve", json={"hash": second["hash"]}, headers=bob).json()
    assert answer["state"] == "void"
    assert info(tried)["state"] == "waiting"
    assert not tried.drivers.started


def test_what_an_application_asks_for_is_part_of_its_versions(tried: Tried) -> None:
    deploy(tried, program(), resources={"memory": "1g"})
    tried.settle()
    ran(tried, 1)
    asked = {"program": program(), "resources": {"memory": "2g", "cores": 2}}
    plan = tried.http.post(f"{API}/plans", json=asked).json()
    changed = [(one["subject"], one["detail"], one["verdict"]) for one in plan["changes"]]
    assert changed == [("cores", "as usual -> 2", "kept"), ("memory", "1g -> 2g", "kept")]
    same = tried.http.post(f"{API}/plans", json={"program": program(), "resources": {"memory": "1g"}}).json()
    assert same["changes"] == []
    assert same["hash"] != plan["hash"]
    deploy(tried, hash=plan["hash"], text=asked["program"], resources=asked["resources"])
    tried.settle()
    assert [job.resources.asked for job in tried.drivers.started] == [
        {"memory": "1g"},
        {"memory": "2g", "cores": 2},
    ]
    ran(tried, 2)
    tried.http.post(f"{API}/applications/clicks/rollback", json={})
    tried.settle()
    assert tried.drivers.started[-1].resources.asked == {"memory": "1g"}
    for wrong in ({"memory": "lots"}, {"cores": 0}, {"pool": "../x"}, {"gpus": 1}):
        deploy(tried, program(), 422, resources=wrong)


def test_spark_gets_what_is_asked_for() -> None:
    def asked(master: str | None, **resources: Any) -> tuple[str | None, dict[str, str]]:
        given = Resources.model_validate(resources)
        return spark_for(Job(id="a", version=1, master=master, resources=given, asked=0))

    assert asked(None) == (None, {})
    assert asked(None, cores=1, memory="512m") == ("local[1,4]", {"spark.driver.memory": "512m"})
    assert asked("spark://a:7077", cores=2, executors=3, memory="1g") == (
        "spark://a:7077",
        {
            "spark.driver.memory": "1g",
            "spark.executor.memory": "1g",
            "spark.executor.cores": "2",
            "spark.cores.max": "6",
        },
    )
    # One that asks for nothing must not take all cores of a cluster; one executor is as many as it takes.
    assert asked("spark://a:7077") == ("spark://a:7077", {"spark.cores.max": "2"})
    one = {"spark.executor.cores": "4", "spark.cores.max": "4"}
    assert asked("spark://a:7077", cores=4) == ("spark://a:7077", one)
    assert asked("spark://a:7077", executors=3)[1]["spark.cores.max"] == "3"
