"""The part of the Kubernetes API that drivers need: pods are made, listed and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import urllib3.exceptions
from kubernetes import client, config

from braid.core.errors import ConfigError, RunError
from braid.service.backends.pods import APPLICATION, JOB, POOL, Manifest

TIMEOUTS = (3.0, 10.0)
"""Seconds to connect, and to answer."""
_PAGE = 500
_TRIES = 3


@dataclass(frozen=True)
class Pod:
    """A pod, as the API server tells of it.

    Parameters
    ----------
    name, uid
        No other pod ever has the same `uid`.
    application, job, pool
        Labels: what it runs.
    phase, deleting
        Where it is in its life; and whether somebody has asked that it ends.
    says
        What it waits for, or how it has ended, as far as that is known.
    """

    name: str
    uid: str
    application: str | None
    job: str | None
    pool: str | None
    phase: str
    deleting: bool
    says: str | None

    @property
    def over(self) -> bool:
        """Whether its processes have ended."""
        return self.phase in ("Succeeded", "Failed")


class PodApi:
    """Talks to an API server; whatever goes wrong is a `RunError`.

    Parameters
    ----------
    api
        The client.
    namespace, selector
        Which pods.
    timeouts
        Seconds to connect, and to answer.
    """

    def __init__(
        self,
        api: client.CoreV1Api,
        namespace: str,
        selector: str,
        timeouts: tuple[float, float] = TIMEOUTS,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._selector = selector
        self.timeouts = timeouts
        """Seconds to connect, and to answer."""

    @classmethod
    def here(cls, namespace: str, selector: str) -> PodApi:
        """That of the cluster that this process is in, or of the user's configuration."""
        settings = client.Configuration()
        try:
            try:
                config.load_incluster_config(client_configuration=settings)
            except config.ConfigException:
                config.load_kube_config(client_configuration=settings)
        except (config.ConfigException, OSError) as error:
            raise ConfigError(
                f"there is no way to reach a Kubernetes cluster: {error}",
                where="backend = 'kubernetes'",
                hint="run the service in a pod with a service account, or set KUBECONFIG",
            ) from None
        settings.retries = False
        return cls(client.CoreV1Api(client.ApiClient(settings)), namespace, selector)

    def list(self) -> list[Pod]:
        """All pods."""
        for _ in range(_TRIES):
            try:
                return list(self._pages())
            except client.ApiException as error:
                if error.status != 410:
                    raise _told("list pods", error) from error
        raise RunError("the API server does not list pods: the list is outdated before it is read")

    def create(self, manifest: Manifest) -> None:
        """Make a pod, unless there is one of its name."""
        try:
            with _reached("make a pod"):
                self._api.create_namespaced_pod(self._namespace, manifest, _request_timeout=self.timeouts)
        except client.ApiException as error:
            if error.status != 409 or _reason(error) != "AlreadyExists":
                raise _told("make a pod", error) from error

    def delete(self, pod: Pod, seconds: int) -> None:
        """Have a pod ended within so many seconds; it is there until that is so."""
        options = {"gracePeriodSeconds": seconds, "preconditions": {"uid": pod.uid}}
        try:
            with _reached("delete a pod"):
                self._api.delete_namespaced_pod(
                    pod.name,
                    self._namespace,
                    grace_period_seconds=seconds,
                    body=options,
                    _request_timeout=self.timeouts,
                )
        except client.ApiException as error:
            if error.status not in (404, 409, 410):
                raise _told("delete a pod", error) from error

    def _pages(self) -> Iterator[Pod]:
        more = None
        while True:
            with _reached("list pods"):
                page = self._api.list_namespaced_pod(
                    self._namespace,
                    label_selector=self._selector,
                    limit=_PAGE,
                    _continue=more,
                    _request_timeout=self.timeouts,
                )
            yield from map(_pod, page.items)
            more = page.metadata and page.metadata._continue
            if not more:
                return


@contextmanager
def _reached(what: str) -> Iterator[None]:
    """Say what it was that could not be asked for."""
    try:
        yield
    except client.ApiException as error:
        if not error.status:
            raise RunError(f"the API server of Kubernetes does not {what}: {error.reason}") from error
        raise
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise RunError(
            f"the API server of Kubernetes does not answer: {error}", hint="nothing is changed until it does"
        ) from error


def _told(what: str, error: client.ApiException) -> RunError:
    said = _field(error, "message") or error.reason or ""
    return RunError(f"the API server of Kubernetes refuses to {what} ({error.status}): {said}")


def _reason(error: client.ApiException) -> str | None:
    return _field(error, "reason")


def _field(error: client.ApiException, name: str) -> str | None:
    try:
        found = json.loads(error.body or "")
    except ValueError:
        return None
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, str) else None


def _pod(found: client.V1Pod) -> Pod:
    labels, status = found.metadata.labels or {}, found.status
    return Pod(
        name=found.metadata.name,
        uid=found.metadata.uid,
        application=labels.get(APPLICATION),
        job=labels.get(JOB),
        pool=labels.get(POOL),
        phase=(status and status.phase) or "Unknown",
        deleting=found.metadata.deletion_timestamp is not None,
        says=None if status is None else _says(status),
    )


def _says(status: client.V1PodStatus) -> str | None:
    """What a pod waits for, or how it has ended."""
    for container in status.container_statuses or []:
        waiting, ended = container.state.waiting, container.state.terminated
        if waiting is not None and waiting.reason not in (None, "ContainerCreating", "PodInitializing"):
            return _joined(waiting.reason, waiting.message)
        if ended is not None and ended.exit_code:
            return _joined(f"{ended.reason or 'ended'}, code {ended.exit_code}", _last_line(ended.message))
    if status.reason:
        return _joined(status.reason, status.message)
    for condition in status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            return _joined(condition.reason or "not scheduled", condition.message)
    return None


def _joined(reason: str, message: str | None) -> str:
    return f"{reason}: {message}" if message else reason


def _last_line(text: str | None) -> str | None:
    lines = (text or "").strip().splitlines()
    return lines[-1] if lines else None
