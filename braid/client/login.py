"""Logs in on another device (RFC 8628), and keeps what comes of it for the commands that follow."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from braid.client.discovery import RESOURCE, Issued, Resource, is_far, read_json
from braid.core.errors import ConfigError, RunError
from braid.home.service import write_secret

CREDENTIALS = "BRAID_CREDENTIALS"
_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_EARLY = 60.0
"""Seconds before its end at which a token is exchanged for another."""
_TIMEOUT = 10.0


class Login(BaseModel):
    """What a login has come to.

    Parameters
    ----------
    issuer, client
        Who has issued it, and to whom.
    token, expires
        What the service is shown, and until when; in seconds since the epoch.
    refresh
        What the issuer gives another one for.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    issuer: str
    client: str
    token: str
    expires: float
    refresh: str | None = None


class _Asked(BaseModel):
    """What an issuer says of a login that has begun."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None = None
    expires_in: float = Field(gt=0)
    interval: float = Field(5.0, ge=0)


class _Told(BaseModel):
    """Tokens of an issuer."""

    access_token: str
    id_token: str | None = None
    refresh_token: str | None = None
    expires_in: float = 300.0


@dataclass(frozen=True)
class Shown:
    """What whoever logs in has to do.

    Parameters
    ----------
    url, code
        Where to go with any browser, and what to type in there.
    complete
        Where nothing has to be typed in; None if there is no such page.
    issuer
        Who asks.
    """

    url: str
    code: str
    complete: str | None
    issuer: str


def log_in(
    server: str,
    show: Callable[[Shown], None],
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Login:
    """Log in to a service, by a browser anywhere, and keep what comes of it."""
    resource = resource_of(server)
    issuer = resource.authorization_servers[0]
    issued = Issued.discover(issuer)
    if issued.device_authorization_endpoint is None or issued.token_endpoint is None:
        raise RunError("the issuer has no login on another device", where=issuer)
    asked = {"client_id": resource.client_id, "scope": " ".join(resource.scopes_supported)}
    try:
        begun = _Asked.model_validate(_post(issued.device_authorization_endpoint, asked))
    except ValidationError as error:
        first = error.errors()[0]
        what = f"the issuer does not say what it should: {'.'.join(map(str, first['loc']))}, {first['msg']}"
        raise RunError(what, where=issued.device_authorization_endpoint) from None
    show(Shown(begun.verification_uri, begun.user_code, begun.verification_uri_complete, issuer))
    end, interval = clock() + begun.expires_in, begun.interval
    form = {"grant_type": _GRANT, "device_code": begun.device_code, "client_id": resource.client_id}
    while clock() < end:
        sleep(interval)
        told = _post(issued.token_endpoint, form, pending=True)
        if "error" not in told:
            login = _login(issuer, resource.client_id, told, None, clock())
            with _kept() as logins:
                logins[_key(server)] = login
            return login
        interval += 5.0 if told["error"] == "slow_down" else 0.0
    raise RunError("nobody has logged in in time", hint="begin again")


def log_out(server: str) -> bool:
    """Forget a login, and tell the issuer, if it can be reached; whether there was one."""
    with _kept() as logins:
        found = logins.pop(_key(server), None)
    if found is not None and found.refresh is not None:
        try:
            issued = Issued.discover(found.issuer)
            if issued.revocation_endpoint is not None:
                form = {"token": found.refresh, "token_type_hint": "refresh_token", "client_id": found.client}
                _send(issued.revocation_endpoint, form)
        except (RunError, ConfigError, httpx.HTTPError):
            pass  # it ends by itself
    return found is not None


def has_login(server: str) -> bool:
    """Whether somebody has logged in to a service, and not out."""
    return _key(server) in _read(credentials_file())


def token_of(server: str, clock: Callable[[], float] = time.time) -> str | None:
    """A token that is valid for a while; None if nobody has logged in."""
    found = _read(credentials_file()).get(_key(server))
    if found is None or clock() < found.expires - _EARLY:
        return None if found is None else found.token
    with _kept() as logins:  # one command at a time: some issuers take a refresh token once
        found = logins.get(_key(server))
        if found is None or clock() < found.expires - _EARLY:
            return None if found is None else found.token
        again = f"log in again: braid login --server {server}"
        if found.refresh is None:
            raise ConfigError(f"the login to {server} has expired", hint=again)
        issued = Issued.discover(found.issuer)
        if issued.token_endpoint is None:
            raise RunError("the issuer gives no tokens", where=found.issuer)
        form = {"grant_type": "refresh_token", "refresh_token": found.refresh, "client_id": found.client}
        try:
            told = _post(issued.token_endpoint, form)
        except ConfigError as error:
            raise ConfigError(f"the login to {server} has ended: {error.what}", hint=again) from None
        fresh = _login(found.issuer, found.client, told, found.refresh, clock())
        logins[_key(server)] = fresh
        return fresh.token


def resource_of(server: str) -> Resource:
    """Whose tokens a service takes."""
    url = server.rstrip("/") + RESOURCE
    try:
        found = Resource.model_validate(read_json(url))
    except ValidationError:
        found = None
    except RunError as error:
        hint = "it may have no `oidc_issuer`: use a token in $BRAID_TOKEN"
        raise RunError(
            f"the service does not say whose logins it takes: {error.what}", where=url, hint=hint
        ) from None
    if found is None or not found.authorization_servers:
        raise RunError("the service does not say whose logins it takes", where=url)
    return found


def credentials_file() -> Path:
    """Where logins are kept: `$BRAID_CREDENTIALS`, or a file in the user's folder of settings."""
    named = os.environ.get(CREDENTIALS)
    if named:
        return Path(named).expanduser().absolute()
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser().absolute() / "braid" / "credentials.json"


def _login(issuer: str, client: str, told: dict[str, Any], refresh: str | None, now: float) -> Login:
    try:
        found = _Told.model_validate(told)
    except ValidationError as error:
        what = f"the issuer's answer has no token: {error.errors()[0]['msg']}"
        raise RunError(what, where=issuer) from None
    return Login(
        issuer=issuer,
        client=client,
        # An ID token is for the client, by name; for whom an access token is differs from issuer to issuer.
        token=found.id_token or found.access_token,
        expires=now + found.expires_in,
        refresh=found.refresh_token or refresh,
    )


def _post(url: str, form: dict[str, str], *, pending: bool = False) -> dict[str, Any]:
    """The answer of an issuer; with `pending`, also that somebody has not yet agreed."""
    try:
        answer = _send(url, form)
        told = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise RunError(f"the issuer does not answer: {error or type(error).__name__}", where=url) from None
    except ValueError:
        raise RunError(f"the issuer answers {answer.status_code}, without JSON", where=url) from None
    if not isinstance(told, dict):
        raise RunError("the issuer does not answer with a JSON object", where=url)
    if pending and told.get("error") in ("authorization_pending", "slow_down"):
        return told
    if answer.is_error or "error" in told:
        what = told.get("error_description") or told.get("error") or answer.status_code
        raise ConfigError(f"the issuer refuses: {what}", where=url)
    return told


def _send(url: str, form: dict[str, str]) -> httpx.Response:
    return httpx.post(url, data=form, timeout=_TIMEOUT, trust_env=is_far(url))


def _key(server: str) -> str:
    """An address, in one way only."""
    parts = urlsplit(server if "://" in server else f"http://{server}")
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


@contextmanager
def _kept() -> Iterator[dict[str, Login]]:
    """Logins by services; what is changed in the block is kept."""
    path = credentials_file()
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, mode=0o700)
    with path.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _read(path)
        before = dict(found)
        yield found
        if found != before:
            kept = {server: login.model_dump(mode="json") for server, login in found.items()}
            write_secret(path, json.dumps(kept, indent=2) + "\n")


def _read(path: Path) -> dict[str, Login]:
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read()
    except FileNotFoundError:
        return {}
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(
            "others may read the file with logins",
            where=str(path),
            hint=f"chmod 600 {path}, and log in again",
        )
    try:
        return {server: Login.model_validate(one) for server, one in json.loads(text).items()}
    except (ValueError, AttributeError):
        raise ConfigError(
            "the file with logins is damaged", where=str(path), hint="remove it, and log in again"
        ) from None
