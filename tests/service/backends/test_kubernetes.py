"""The service with drivers in pods: an API server that fails in every way starts no driver twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from kubernetes import client

from braid.api.data import publish
from braid.core.errors import RunError
from braid.core.logging import log_to_file
from braid.home.service import Domain, Driver, DriverState, Job, PoolProcess
from braid.service.backends.kubernetes import Pods
from braid.service.backends.pod_api import PodApi
from braid.service.backends.pods import HOME, Where
from braid.service.loops.supervise import Supervise
from tests.service.backends.api_server import PODS, ApiServer, refused
from tests.service.conftest import Tried
from tests.service.test_deploying import deploy, program


@dataclass
class Cluster:
    """A service whose drivers are in pods, and the clock that it goes by."""

    tried: Tried
    server: ApiServer
    api: PodApi
    now: float

    def turn(self, seconds: float = 3.0) -> None:
        """Some time passes, and the loop takes a turn; drivers that run say so."""
        self.now += seconds
        folder = self.tried.state.folder
        for name in folder.drivers():
            driver = Driver.read(folder.driver(name).driver_file)
            if driver is not None and driver.state.active and driver.place in self.places():
                driver.model_copy(update={"beat": self.now}).write(folder.driver(name).driver_file)
        self.tried.state.supervise.turn()

    def fails(self, what: str) -> None:
        """A turn fails, and does nothing else."""
        with pytest.raises(RunError, match=what):
            self.turn()

    def places(self) -> set[str]:
        """Pods that run."""
        return {p["metadata"]["uid"] for p in self.server.pods.values() if p["status"]["phase"] == "Running"}

    def run(self, name: str = "clicks") -> str:
        """Let the pod of an application's job run, and its driver say so; the name of the pod."""
        folder = self.tried.state.folder.driver(name)
        job = Job.read(folder.job_file)
        assert job is not None
        label = ("braid/job", job.id) if job.resources.pool is None else ("braid/pool", job.resources.pool)
        (pod,) = [p for p in self.server.pods.values() if p["metadata"]["labels"].get(label[0]) == label[1]]
        pod["status"] = {"phase": "Running"}
        Driver(
            job=job.id,
            version=job.version,
            pid=7,
            began="another machine's",
            beat=self.now,
            started=self.now,
            state=DriverState.RUNNING,
            place=pod["metadata"]["uid"],
        ).write(folder.driver_file)
        return str(pod["metadata"]["name"])

    def say(self, name: str = "clicks", **changes: object) -> None:
        """Let a driver say something."""
        folder = self.tried.state.folder.driver(name)
        driver = Driver.read(folder.driver_file)
        assert driver is not None
        driver.model_copy(update=changes).write(folder.driver_file)

    def info(self, name: str = "clicks") -> Any:
        return self.tried.http.get(f"/api/v1/applications/{name}").json()

    def want(self, action: str) -> None:
        answer = self.tried.http.post(f"/api/v1/applications/clicks/{action}")
        assert answer.status_code == 200, answer.text


@pytest.fixture
def cluster(tried: Tried) -> Iterator[Cluster]:
    folder, server = tried.state.folder, ApiServer()
    for name in "lr":
        publish(name, [{"id": 1, "t": 1_700_000_000, "k": "a"}], tried.state.home)
    where = Where(namespace="apps", image="braid:1", claim="home", home=str(folder.home.root))
    with server.running(), log_to_file(folder.root / "pods.log", "service") as log:
        settings = client.Configuration(host=server.url)
        settings.retries = False
        api = PodApi(
            client.CoreV1Api(client.ApiClient(settings)), "apps", f"{HOME}={where.label}", timeouts=(30, 30)
        )
        found = Cluster(tried, server, api, time.time())
        pods = Pods(folder, api, where, lambda: found.now)
        tried.state.supervise = Supervise(tried.state.database, folder, pods, log, clock=lambda: found.now)
        yield found


def start(cluster: Cluster) -> str:
    """Deploy an application, and let it run; the name of its pod."""
    deploy(cluster.tried, program())
    cluster.turn()
    return cluster.run()


def test_a_driver_has_a_pod_that_is_deleted_to_stop_it(cluster: Cluster) -> None:
    name = start(cluster)
    cluster.turn()
    assert (cluster.info()["state"], cluster.server.made) == ("running", [name])
    cluster.want("stop")
    cluster.turn()
    assert cluster.server.deleted == [(name, 90)]
    cluster.turn()
    assert cluster.info()["state"] == "stopping"
    cluster.say(state=DriverState.ENDED, told=True)
    cluster.server.finish(name)
    cluster.turn()
    assert cluster.info()["state"] == "stopped"
    cluster.want("start")
    cluster.turn()
    assert len(cluster.server.made) == 2
    assert cluster.run() != name


def test_what_a_pod_waits_for_is_told_and_waited_for(cluster: Cluster) -> None:
    deploy(cluster.tried, program())
    cluster.turn()
    (pod,) = cluster.server.pods.values()
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    container = {"name": "driver", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    pod["status"] = {
        "phase": "Pending",
        "containerStatuses": [{**container, "state": {"waiting": waiting}}],
    }
    for _ in range(20):  # a minute, in which a process would have failed
        cluster.turn()
    found = cluster.info()
    assert found["state"] == "starting"
    assert found["phase"].endswith("ImagePullBackOff: no such image")
    pod["status"] = {
        "phase": "Pending",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
        ],
    }
    cluster.turn()
    assert "Unschedulable: no room" in cluster.info()["phase"]
    cluster.run()
    cluster.turn()
    assert (cluster.info()["state"], cluster.info()["phase"]) == ("running", None)
    assert len(cluster.server.made) == 1


def test_a_pod_that_fails_is_replaced_by_one_for_another_start(cluster: Cluster) -> None:
    name = start(cluster)
    cluster.server.finish(name, "Failed")
    cluster.turn()
    assert cluster.info()["restarts"] == 1
    cluster.turn()
    assert name not in cluster.server.pods
    assert len(cluster.server.made) == 2
    cluster.run()
    cluster.turn()
    assert cluster.info()["state"] == "running"


def test_while_the_api_server_is_away_nothing_changes(cluster: Cluster) -> None:
    name = start(cluster)
    cluster.turn()
    cluster.server.end()
    for _ in range(5):
        cluster.fails("does not answer")
    # Not even if the driver has said nothing for long: it may be cut off from the home only.
    cluster.say(beat=cluster.now - 1000)
    cluster.now += 3
    cluster.server.hanging.clear()
    cluster.server.begin()
    cluster.turn()
    assert (cluster.info()["state"], cluster.server.made) == ("running", [name])


@pytest.mark.parametrize("fault", ["hang", "lose the answer"])
def test_a_pod_of_which_nobody_knows_whether_it_was_made_is_made_once(cluster: Cluster, fault: str) -> None:
    deploy(cluster.tried, program())
    cluster.server.fail("POST", fault)
    if fault == "hang":
        cluster.api.timeouts = (30.0, 0.2)
    while f"POST {PODS}" not in cluster.server.requests:
        cluster.fails("does not answer")
    cluster.api.timeouts = (30.0, 30.0)
    assert len(cluster.server.made) == (fault != "hang")
    cluster.turn()
    cluster.turn()
    assert len(cluster.server.made) == 1
    cluster.run()
    cluster.turn()
    assert cluster.info()["state"] == "running"


def test_what_the_api_server_refuses_is_told_and_tried_again(cluster: Cluster) -> None:
    deploy(cluster.tried, program())
    cluster.server.fail("POST", refused(403, "Forbidden", "exceeded quota"), times=2)
    cluster.fails("refuses to make a pod .403.: exceeded quota")
    cluster.fails("exceeded quota")
    cluster.turn()
    assert len(cluster.server.made) == 1
    # A conflict that is not about a name is no reason to believe that there is a pod.
    cluster.server.fail("GET", (500, {}))
    cluster.fails("refuses to list pods .500.")


def test_a_pod_that_is_gone_is_no_error(cluster: Cluster) -> None:
    name = start(cluster)
    cluster.turn()
    cluster.want("stop")
    cluster.server.fail("DELETE", refused(404, "NotFound"))
    cluster.turn()
    del cluster.server.pods[name]
    cluster.turn()
    assert cluster.info()["state"] == "stopped"


def test_a_long_list_has_pages_and_is_read_again_when_it_is_outdated(cluster: Cluster) -> None:
    cluster.server.page = 1
    for name in ("clicks", "orders", "visits"):
        deploy(cluster.tried, program(name=name, out=name))
    cluster.turn()
    for name in ("clicks", "orders", "visits"):
        cluster.run(name)
    cluster.server.fail("GET", refused(410, "Expired"))
    cluster.turn()
    assert [cluster.info(name)["state"] for name in ("clicks", "orders", "visits")] == ["running"] * 3
    cluster.server.fail("GET", refused(410, "Expired"), times=3)
    cluster.fails("outdated before it is read")
    assert len(cluster.server.made) == 3


def test_a_driver_of_a_node_that_is_lost_is_not_replaced_until_its_pod_is_gone(cluster: Cluster) -> None:
    name = start(cluster)
    cluster.turn()
    # The node says nothing more: the pod is to be deleted, and stays.
    cluster.say(place="uid-1", beat=cluster.now - 60)
    cluster.server.pods[name]["status"] = {"phase": "Unknown"}
    for _ in range(20):
        cluster.turn()
    assert cluster.server.made == [name]
    assert set(cluster.server.deleted) == {(name, 1)}
    assert len(cluster.server.deleted) < 10
    del cluster.server.pods[name]
    cluster.turn()
    cluster.turn()
    assert len(cluster.server.made) == 2


def test_another_start_waits_for_the_end_of_the_pod_before(cluster: Cluster) -> None:
    name = start(cluster)
    cluster.turn()
    # The driver has said how it ended, and its pod takes time.
    cluster.say(state=DriverState.FAILED, error="a disk is full", domain=Domain.OUTSIDE)
    cluster.turn()
    cluster.turn(10)
    cluster.turn()
    assert cluster.server.made == [name]
    assert f"waiting for the end of {name}" in cluster.info()["phase"]
    cluster.server.finish(name)
    cluster.turn()
    assert len(cluster.server.made) == 2


def test_a_service_that_begins_finds_its_pods(cluster: Cluster) -> None:
    name = start(cluster)
    supervise = cluster.tried.state.supervise
    with log_to_file(cluster.tried.state.folder.root / "next.log", "service") as log:
        old = supervise._backend
        assert isinstance(old, Pods)
        pods = Pods(cluster.tried.state.folder, old._api, old._where, lambda: cluster.now)
        cluster.tried.state.supervise = Supervise(
            cluster.tried.state.database, cluster.tried.state.folder, pods, log, clock=lambda: cluster.now
        )
        cluster.turn()
        cluster.turn()
    assert (cluster.info()["state"], cluster.server.made) == ("running", [name])
    # One of before there were pods is believed as long as it says that it is alive.
    cluster.say(place=None, beat=cluster.now)
    cluster.turn()
    assert cluster.info()["state"] == "running"


def test_a_pool_has_one_pod(cluster: Cluster) -> None:
    for name in ("clicks", "orders"):
        resources = {"pool": "small", "memory": "1g" if name == "clicks" else "512m"}
        deploy(cluster.tried, program(name=name, out=name), resources=resources)
    cluster.turn()
    cluster.turn()
    assert "pod braid-pool-small-" in cluster.info()["phase"]
    (pod,) = cluster.server.pods.values()
    assert pod["spec"]["containers"][0]["command"][-1] == "small"
    assert pod["spec"]["containers"][0]["resources"]["limits"]["memory"] == f"{1024 + 384 + 768 + 512}Mi"
    name = cluster.run("clicks")
    assert cluster.run("orders") == name
    cluster.turn()
    assert [cluster.info(one)["state"] for one in ("clicks", "orders")] == ["running", "running"]
    # It has said nothing for long: it is killed, and made again when it is gone.
    folder = cluster.tried.state.folder.pool("small")
    process = PoolProcess(pid=7, began="x", beat=cluster.now - 60, place=pod["metadata"]["uid"])
    process.write(folder.process_file)
    cluster.turn()
    assert cluster.server.deleted == [(name, 1)]
    cluster.turn()
    assert cluster.server.made == [name]
    cluster.server.finish(name)
    cluster.turn(20)
    cluster.turn()
    assert cluster.server.made == [name, name]


def test_a_pool_that_nobody_needs_is_deleted(cluster: Cluster) -> None:
    deploy(cluster.tried, program(), resources={"pool": "small"})
    cluster.turn()
    name = cluster.run()
    cluster.turn()
    cluster.want("stop")
    cluster.turn()
    job = Job.read(cluster.tried.state.folder.driver("clicks").job_file)
    assert job is not None
    assert cluster.tried.state.folder.driver("clicks").stop_file.read_text() == job.id
    cluster.say(state=DriverState.ENDED, told=True)
    folder = cluster.tried.state.folder.pool("small")
    pod = cluster.server.pods[name]
    PoolProcess(pid=7, began="x", beat=cluster.now + 1000, place=pod["metadata"]["uid"]).write(
        folder.process_file
    )
    cluster.turn()
    cluster.turn()
    assert cluster.server.deleted == []
    cluster.turn(61)
    assert cluster.server.deleted == [(name, 90)]


def test_only_pods_of_this_home_are_asked_for(cluster: Cluster) -> None:
    start(cluster)
    cluster.turn()
    assert {one for one in cluster.server.requests if one.startswith("GET")} == {f"GET {PODS}"}
