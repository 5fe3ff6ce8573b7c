"""Pods of drivers are valid, small in what they may do, and have what was asked for."""

from __future__ import annotations

import re

import kubernetes_validate
import pytest

from braid.home.service import Job, Resources
from braid.service.backends.pods import Manifest, Where, driver_pod, label_of, memory_of, pool_pod
from braid.service.decide.backoff import LIMITS
from tests.service.backends.api_server import NEWEST

WHERE = Where(namespace="apps", image="mirror/braid:1", claim="home", home="/var/lib/braid", account="driver")
LABEL = re.compile("[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def pod(application: str = "clicks", job: str = "0123456789abcdef", **asked: object) -> Manifest:
    resources = Resources.model_validate(asked)
    return driver_pod(application, Job(id=job, version=1, asked=0, resources=resources), WHERE)


@pytest.mark.parametrize("name", ["clicks", "Clicks_2", "_x_", "a.b-c", "x" * 100, "9", "_" * 5])
def test_pods_are_valid_whatever_an_application_is_called(name: str) -> None:
    for manifest in (pod(name), pool_pod(name, Resources(), WHERE)):
        kubernetes_validate.validate(manifest, NEWEST, strict=True)
        metadata = manifest["metadata"]
        assert re.fullmatch("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", metadata["name"])
        assert all(LABEL.fullmatch(value) for value in metadata["labels"].values())
        assert name in manifest["spec"]["containers"][0]["command"]


def test_every_start_has_a_pod_of_its_own_and_every_pool_has_one() -> None:
    names = {pod(job=f"{n}" * 16)["metadata"]["name"] for n in range(3)}
    assert len(names) == 3
    assert pod()["metadata"]["name"] == pod()["metadata"]["name"]
    pools = {pool_pod(name, Resources(), WHERE)["metadata"]["name"] for name in ("a_b", "A_b", "a__b")}
    assert len(pools) == 3
    assert label_of("x" * 70) != label_of("x" * 71)


def test_drivers_may_do_nothing_but_run() -> None:
    spec = pod()["spec"]
    assert spec["restartPolicy"] == "Never"
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "driver"
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["terminationGracePeriodSeconds"] > LIMITS.stop
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    # The service watches drivers itself; a probe would be a second judge, who kills behind its back.
    assert not {"livenessProbe", "readinessProbe", "startupProbe"} & container.keys()
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/var/lib/braid", "/tmp"}
    assert spec["volumes"][0]["persistentVolumeClaim"] == {"claimName": "home"}


def test_resources_are_what_is_asked_for_and_what_python_takes() -> None:
    (container,) = pod(cores=4, memory="3g")["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == "4"
    # Java's heap, a tenth of which but no less than 384 MB it has outside; Python, and more for each core.
    assert memory_of(Resources(cores=4, memory="3g")) == 3072 + 384 + 768 + 4 * 256
    assert memory_of(Resources(cores=4, memory="10g")) == 10240 + 1024 + 768 + 4 * 256
    assert container["resources"]["requests"]["memory"] == f"{3072 + 384 + 768 + 4 * 256}Mi"
    assert container["resources"]["limits"] == {"memory": container["resources"]["requests"]["memory"]}
    (usual,) = pod()["spec"]["containers"]
    assert usual["resources"]["requests"]["cpu"] == "2"
