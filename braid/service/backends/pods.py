"""Pods of drivers and of pools, as manifests: pure functions of what is to run, and where.

A driver is a bare pod, one for each start, which nobody but the service makes or replaces.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from braid.home.service import Job, Resources
from braid.service.decide.backoff import LIMITS
from braid.service.resources import megabytes
from braid.service.telling import PLACE

Manifest = dict[str, Any]

UID = 10001
"""The user of containers, whom the image has, too."""
GRACE_SECONDS = int(LIMITS.stop) + 30
"""How long a pod may take to end: its driver ends, or is killed, before."""
CORES = 2
"""Cores of a driver that asks for none: a node's own number would be no measure."""
HOME, APPLICATION, JOB, POOL = "braid/home", "braid/application", "braid/job", "braid/pool"
"""Labels by which pods are found again."""
_JAVA = "2g"
_MEMORY = {"heap share": 0.1, "least outside": 384, "Python": 768, "Python per core": 256}
"""What a driver needs besides Java's heap, in MB: Java outside of that, and the processes of Python."""


@dataclass(frozen=True)
class Where:
    """Where pods run.

    Parameters
    ----------
    namespace, image, account
        Their namespace, image and service account: that of the namespace if it is None.
    claim, home
        The volume claim that has the home, and its path, which is the same as for the service.
    """

    namespace: str
    image: str
    claim: str
    home: str
    account: str | None = None

    @property
    def label(self) -> str:
        """By which its pods are told from those of another home."""
        return _digest(f"{self.claim} {self.home}")


def driver_pod(application: str, job: Job, where: Where) -> Manifest:
    """The pod of a driver, whose name says for which start it is: there is never a second one for that."""
    name = f"braid-{_slug(application)}-{job.id[:12]}"
    labels = {APPLICATION: label_of(application), JOB: job.id}
    command = ["python", "-m", "braid.service.driver", where.home, application]
    return _pod(name, labels, {"braid/application": application}, command, job.resources, where)


def pool_pod(pool: str, resources: Resources, where: Where) -> Manifest:
    """The pod of a pool; there is one of its name at a time."""
    name = f"braid-pool-{_slug(pool)}-{_digest(f'{where.label} {pool}')[:8]}"
    command = ["python", "-m", "braid.service.pool", where.home, pool]
    return _pod(name, {POOL: label_of(pool)}, {"braid/pool": pool}, command, resources, where)


def label_of(name: str) -> str:
    """The value of a label for a name, which may be too long, or end with a sign that none may end with."""
    if len(name) <= 63 and name[-1].isalnum() and name[0].isalnum():
        return name
    return f"{name.strip('_.-')[:50].rstrip('_.-') or 'x'}-{_digest(name)}"


def memory_of(resources: Resources) -> int:
    """What a driver takes in all, in MB."""
    heap, cores = megabytes(resources.memory or _JAVA), resources.cores or CORES
    outside = max(int(heap * _MEMORY["heap share"]), _MEMORY["least outside"])
    return int(heap + outside + _MEMORY["Python"] + cores * _MEMORY["Python per core"])


def _pod(
    name: str,
    labels: dict[str, str],
    annotations: dict[str, str],
    command: list[str],
    resources: Resources,
    where: Where,
) -> Manifest:
    memory = f"{memory_of(resources)}Mi"
    spec: Manifest = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # Process 1 is Kubernetes' own then, and waits for processes that others have left behind.
        "shareProcessNamespace": True,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": UID,
            "runAsGroup": UID,
            "fsGroup": UID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "driver",
                "image": where.image,
                "command": command,
                "workingDir": where.home,
                "env": [
                    {"name": PLACE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                    {"name": "HOME", "value": "/tmp"},
                    {"name": "XDG_CACHE_HOME", "value": "/tmp/cache"},
                ],
                "resources": {
                    "requests": {"cpu": str(resources.cores or CORES), "memory": memory},
                    "limits": {"memory": memory},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [
                    {"name": "home", "mountPath": where.home},
                    {"name": "tmp", "mountPath": "/tmp"},
                ],
            }
        ],
        "volumes": [
            {"name": "home", "persistentVolumeClaim": {"claimName": where.claim}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    if where.account is not None:
        spec["serviceAccountName"] = where.account
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": where.namespace,
            "labels": {
                "app.kubernetes.io/name": "braid",
                "app.kubernetes.io/component": "driver",
                "app.kubernetes.io/managed-by": "braid",
                HOME: where.label,
                **labels,
            },
            "annotations": annotations,
        },
        "spec": spec,
    }


def _slug(name: str) -> str:
    """What the name of a pod may have of another name."""
    return re.sub("[^a-z0-9]+", "-", name.lower())[:30].strip("-") or "x"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
