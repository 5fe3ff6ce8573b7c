"""Settings of the service: from flags, then `BRAID_*` variables, then a file, then what is usual."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from braid.client.discovery import check_secure
from braid.client.models import Role
from braid.core.errors import ConfigError
from braid.core.sizes import parse_size
from braid.home.paths import default_home

FILE = "braid.toml"
_KUBERNETES = ("kubernetes_namespace", "kubernetes_image", "kubernetes_claim", "kubernetes_account")
Size = Annotated[int, BeforeValidator(lambda value: value if value is None else parse_size(value))]
"""Bytes, written as `512m` or `2g`."""


class Settings(BaseSettings):
    """What `braid serve` can be told."""

    model_config = SettingsConfigDict(env_prefix="BRAID_", frozen=True, extra="forbid")

    home: Path = Field(
        default_factory=lambda: Path(default_home()), description="Folder of the log and of applications."
    )
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(7077, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    auth: Literal["token", "none"] = Field(
        "token", description="Who may ask: whoever has a token, or anybody on this machine."
    )
    oidc_issuer: str | None = Field(
        None, description="OpenID Connect issuer whose tokens let people in, as its tokens name it."
    )
    oidc_client: str | None = Field(
        None,
        description="Whom it knows the service as: the audience of tokens, and the client of `braid login`.",
    )
    oidc_claim: str = Field("groups", description="The claim of tokens that has somebody's groups or roles.")
    oidc_roles: dict[str, Role] = Field(
        default_factory=dict,
        description="Which role a group has; the highest one counts, and without one, nobody gets in.",
    )
    oidc_rows: tuple[str, ...] = Field((), description="Groups that may see rows.")
    oidc_name: str = Field(
        "sub",
        description="The claim that names somebody; whoever can change it can approve what they deploy.",
    )
    tls_certificate: Path | None = Field(
        None, description="PEM file of the certificate, with those that it depends on, for HTTPS."
    )
    tls_key: Path | None = Field(None, description="PEM file of its key.")
    token_file: Path | None = Field(
        None, description="File with the owner's token, as of a mounted secret; one is made by default."
    )
    registry: str | None = Field(
        None, repr=False, description="URL of the registry's database; by default SQLite in the home."
    )
    hosts: tuple[str, ...] = Field(
        (),
        description="Further names by which clients may reach the service, as a guard against DNS rebinding.",
    )
    folders: tuple[str, ...] = Field(
        (), description="Folders besides those of the home whose files programs may read and write."
    )
    review: Literal["none", "required"] = Field(
        "none", description="Whether somebody other than its author must approve a version."
    )
    keep_events_days: float = Field(30, ge=1, le=36_500, description="How long events are kept.")
    keep_audit_days: float = Field(730, ge=1, le=36_500, description="How long the audit is kept.")
    backend: Literal["local", "standalone", "kubernetes"] = Field(
        "local",
        description="Where drivers run: on this machine, the same with executors on a cluster, or in pods.",
    )
    repo: str | None = Field(
        None, description="Repository of Git with a folder of programs to follow: a folder, or a URL."
    )
    repo_branch: str | None = Field(None, description="Branch to follow; by default its HEAD.")
    repo_folder: str = Field("apps", description="Folder of the programs in it.")
    repo_seconds: float = Field(15, ge=1, le=86_400, description="How often it is looked at.")
    master: str | None = Field(None, description="Where Spark runs; local[*] by default.")
    trial_seconds: float = Field(
        10, ge=0, le=25, description="How long a trial before landing may take; 0 is without trials."
    )
    trial_memory: Size = Field(2 << 30, ge=256 << 20, description="How much memory a trial may take.")
    quota_rows_held: int | None = Field(None, ge=1, description="Most rows that an application may hold.")
    quota_memory: Size | None = Field(
        None, ge=1, description="Most memory of an application's driver with its workers."
    )
    quota_cores: int | None = Field(None, ge=1, description="Most cores of an application.")
    quota_log_per_day: Size | None = Field(
        None, ge=1, description="Most that an application may add to the log in a day."
    )

    @model_validator(mode="after")
    def _issuers_need_clients(self) -> Self:
        if self.oidc_issuer is None:
            return self
        if self.oidc_client is None or not self.oidc_roles:
            raise ValueError(
                "an issuer takes oidc_client and oidc_roles: whom tokens are for, and who may do what"
            )
        try:
            check_secure(self.oidc_issuer)
        except ConfigError as error:
            raise ValueError(f"oidc_issuer: {error.what}; {error.hint}") from None
        return self

    @model_validator(mode="after")
    def _quotas_need_trials(self) -> Self:
        if self.trial_seconds == 0 and (self.quota_rows_held or self.quota_memory or self.quota_log_per_day):
            raise ValueError("without trials, quotas of rows, memory and the log cannot be kept")
        return self

    stop_applications: bool = Field(
        False, description="Whether applications end with the service, and start when it begins again."
    )
    kubernetes_namespace: str | None = Field(None, description="Namespace of drivers.")
    kubernetes_image: str | None = Field(None, description="Container image of drivers, with Braid in it.")
    kubernetes_claim: str | None = Field(
        None, description="Volume claim with the home, which drivers have at the same path as the service."
    )
    kubernetes_account: str | None = Field(
        None, description="Service account of drivers; they get no token of it."
    )

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        """Refuse settings of which one makes no sense with another."""
        local = self.master is None or is_local(self.master)
        if self.backend == "local" and not local:
            raise ValueError(f"master = {self.master!r} is not on this machine: set backend = 'standalone'")
        if self.backend == "standalone" and (self.master is None or not self.master.startswith("spark://")):
            raise ValueError("backend = 'standalone' needs master = 'spark://HOST:PORT'")
        if (
            self.backend == "kubernetes"
            and self.master is not None
            and not (local or self.master.startswith("spark://"))
        ):
            raise ValueError("with backend = 'kubernetes', master is 'local[CORES]' or 'spark://HOST:PORT'")
        given = {name: getattr(self, name) for name in _KUBERNETES}
        for name, value in given.items():
            if self.backend != "kubernetes" and value is not None:
                raise ValueError(f"{name} makes sense with backend = 'kubernetes' only")
            if self.backend == "kubernetes" and value is None and name != "kubernetes_account":
                raise ValueError(f"backend = 'kubernetes' needs {name}")
        return self


def read_settings(file: Path | None = None, **flags: object) -> Settings:
    """Settings of flags that are not None, of the environment, and of a file."""
    given = {name: value for name, value in flags.items() if value is not None}
    path = file or Path(FILE)
    found: dict[str, Any] = {}
    if file is not None or path.exists():
        try:
            found = tomllib.loads(path.read_text())
        except OSError as error:
            raise ConfigError(f"cannot read the settings: {error.strerror}", where=str(path)) from None
        except ValueError as error:
            raise ConfigError(f"the settings are not TOML: {error}", where=str(path)) from None
    _check_flag(given.get("registry"))
    known = {name for name in found if f"BRAID_{name}".upper() not in os.environ}
    try:
        return Settings(**{name: found[name] for name in known} | given)
    except ValidationError as error:
        first = error.errors()[0]
        text = first["msg"].removeprefix("Value error, ")
        if not first["loc"]:
            raise ConfigError(f"settings that do not go together: {text}") from None
        name = ".".join(map(str, first["loc"]))
        source = "flag" if name in given else "file" if name in found else f"variable BRAID_{name.upper()}"
        raise ConfigError(
            f"setting {name!r} ({source}): {text}",
            hint=f"settings: {', '.join(Settings.model_fields)}",
        ) from None


def is_local(master: str) -> bool:
    """Whether a Spark master stands for the machine of the driver."""
    return master == "local" or master.startswith("local[")


def _check_flag(registry: object) -> None:
    """Refuse a password among the arguments of a process, which everybody on its machine can read."""
    if not isinstance(registry, str):
        return
    try:
        parts = urlsplit(registry)
        secret = parts.password or parse_qs(parts.query).get("password")
    except ValueError:
        return  # whoever opens it says what is wrong
    if secret:
        raise ConfigError(
            "a password among the arguments can be read by everybody on this machine",
            where="--registry",
            hint="give the URL in $BRAID_REGISTRY or in braid.toml, or the password in ~/.pgpass",
        )
