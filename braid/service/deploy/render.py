"""Deployment files from templates: text in, text out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from braid.core.errors import ConfigError
from braid.service.decide.backoff import LIMITS

T = TypeVar("T", bound=BaseModel)
_HERE = Path(__file__).parent
UID = 10001
"""The user of containers: no user of any machine."""
STOP_SECONDS = int(LIMITS.stop) + 30
"""How long whoever shuts down has to wait: applications end, or are killed, before."""


def _absolute(text: str) -> str:
    if not re.fullmatch(r"/[A-Za-z0-9._/-]*[A-Za-z0-9._-]", text) or ".." in text:
        raise ValueError("it has to be the absolute path of a folder or file, without blanks")
    return text


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
Name = Annotated[str, Field(pattern="^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
Image = Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9._:/@-]*$")]


class _Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Systemd(_Options):
    """What the units are filled in with.

    Parameters
    ----------
    home, user
        The home, and who owns it.
    braid
        The command.
    environment
        A file with further variables, which need not be there.
    """

    home: AbsolutePath = "/var/lib/braid"
    user: Annotated[str, Field(pattern="^[a-z_][a-z0-9_-]{0,30}$")] = "braid"
    braid: AbsolutePath = "/opt/braid/bin/braid"
    environment: AbsolutePath = "/etc/braid/environment"


class Dockerfile(_Options):
    """What the Dockerfile is filled in with.

    Parameters
    ----------
    base
        The image that it begins with.
    home, port
        The home in the container, and where the service listens.
    """

    base: Image = "python:3.11-slim-bookworm"
    home: AbsolutePath = "/var/lib/braid"
    port: Annotated[int, Field(ge=1024, le=65535)] = 7077


class Kubernetes(_Options):
    """What the manifests are filled in with.

    Parameters
    ----------
    image
        Of the service and of drivers.
    namespace
        Where all of it is.
    home, claim, storage, storage_class
        The home in containers; its volume claim, how large it is, and of which class (the cluster decides).
    account
        The service account of drivers.
    port
        Where the service listens.
    """

    image: Image
    namespace: Name = "braid"
    home: AbsolutePath = "/var/lib/braid"
    claim: Name = "braid-home"
    storage: Annotated[str, Field(pattern="^[1-9][0-9]*(Mi|Gi|Ti)$")] = "100Gi"
    storage_class: Name | None = None
    account: Name = "braid-driver"
    port: Annotated[int, Field(ge=1024, le=65535)] = 7077


def options_of(kind: type[T], given: Mapping[str, object]) -> T:
    """Options as given, or else as usual."""
    try:
        return kind.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]).replace("_", "-")
        what = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"--{name} {first['input']!r}: {what}") from None


def systemd(options: Systemd) -> dict[str, str]:
    """The units, by their names."""
    names = ("braid.service", "braid-applications.service")
    values = {**options.model_dump(), "seconds": STOP_SECONDS}
    return {name: _filled(f"{name}.template", values) for name in names}


def dockerfile(options: Dockerfile) -> dict[str, str]:
    """The Dockerfile, by its name."""
    extras = "service,spark,postgres,kubernetes"
    values = {**options.model_dump(), "uid": UID, "seconds": STOP_SECONDS, "extras": extras}
    return {"Dockerfile": _filled("Dockerfile.template", values)}


def kubernetes(options: Kubernetes) -> dict[str, str]:
    """The manifests, in one file, by its name."""
    kind = options.storage_class
    values = {
        **options.model_dump(),
        "uid": UID,
        "storage_class": "" if kind is None else f"  storageClassName: {kind}\n",
    }
    return {"kubernetes.yaml": _filled("kubernetes.yaml.template", values)}


def _filled(template: str, values: Mapping[str, object]) -> str:
    return Template((_HERE / template).read_text(encoding="utf-8")).substitute(values)
