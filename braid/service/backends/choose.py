"""Which backend the settings ask for."""

from __future__ import annotations

from braid.core.errors import ConfigError
from braid.home.service import ServiceHome
from braid.service.backends.base import Backend
from braid.service.backends.local import LocalProcesses
from braid.service.settings import Settings

_POD_MASTER = "local[2,4]"
"""Spark in a pod that is asked for no number of cores; it would count those of the node."""


def backend_of(settings: Settings, folder: ServiceHome) -> Backend:
    """Where drivers run. On a standalone cluster, it is their executors that run elsewhere."""
    return _pods(settings, folder) if settings.backend == "kubernetes" else LocalProcesses(folder)


def master_of(settings: Settings) -> str | None:
    """Where Spark runs, for drivers."""
    return settings.master or (_POD_MASTER if settings.backend == "kubernetes" else None)


def _pods(settings: Settings, folder: ServiceHome) -> Backend:
    try:
        from braid.service.backends.kubernetes import Pods
        from braid.service.backends.pod_api import PodApi
        from braid.service.backends.pods import HOME, Where
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"backend = 'kubernetes' needs the package {error.name!r}",
            hint="install it with `pip install 'braid-streams[service,kubernetes]'`",
        ) from None
    namespace, image, claim = (
        settings.kubernetes_namespace,
        settings.kubernetes_image,
        settings.kubernetes_claim,
    )
    assert namespace is not None
    assert image is not None
    assert claim is not None
    where = Where(
        namespace=namespace,
        image=image,
        claim=claim,
        home=str(folder.home.root),
        account=settings.kubernetes_account,
    )
    return Pods(folder, PodApi.here(namespace, f"{HOME}={where.label}"), where)
