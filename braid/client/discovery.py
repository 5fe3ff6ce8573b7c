"""Where an OpenID Connect issuer is asked for what, as it says itself."""

from __future__ import annotations

import ipaddress
import json
import time
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from braid.core.errors import ConfigError, RunError

WELL_KNOWN = "/.well-known/openid-configuration"
RESOURCE = "/.well-known/oauth-protected-resource"
"""Where a service says whose tokens it takes (RFC 9728)."""
_TIMEOUT = httpx.Timeout(3.0)
_LONGEST_SECONDS = 5.0
_MOST_BYTES = 1 << 20


class Resource(BaseModel):
    """What a service says of the tokens that it takes.

    Parameters
    ----------
    resource
        The service.
    authorization_servers
        Issuers.
    client_id
        Who asks them, for the command line.
    scopes_supported
        What to ask for.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    resource: str
    authorization_servers: list[str]
    client_id: str
    scopes_supported: list[str]


class Issued(BaseModel):
    """What an issuer says of itself.

    Parameters
    ----------
    issuer
        Its address, which is in its tokens.
    jwks_uri
        Where its keys are.
    token_endpoint, device_authorization_endpoint, revocation_endpoint
        Where tokens are asked for, where a login on another device begins, and where tokens are given back.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    issuer: str
    jwks_uri: str
    token_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    revocation_endpoint: str | None = None

    @classmethod
    def discover(cls, issuer: str) -> Self:
        """Ask an issuer; `RunError` if it does not answer, or says that it is another one."""
        check_secure(issuer)
        where = issuer.rstrip("/") + WELL_KNOWN
        try:
            found = cls.model_validate(read_json(where))
        except ValidationError as error:
            first = error.errors()[0]
            what = (
                f"the issuer does not say what it should: {'.'.join(map(str, first['loc']))}, {first['msg']}"
            )
            raise RunError(what, where=where) from None
        if found.issuer != issuer:
            raise RunError(f"it says that it is another issuer: {found.issuer!r}", where=where)
        for url in (
            found.jwks_uri,
            found.token_endpoint,
            found.device_authorization_endpoint,
            found.revocation_endpoint,
        ):
            if url is not None:
                check_secure(url)
        return found


def check_secure(url: str) -> None:
    """Raise `ConfigError` for an address that somebody on the way could answer for."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    if (
        not host
        or parts.username
        or not (parts.scheme == "https" or (parts.scheme == "http" and _is_near(host)))
    ):
        raise ConfigError(f"{url!r} is not an address with https", hint="http is for this machine alone")


def read_json(url: str) -> dict[str, Any]:
    """A JSON object, read within a few seconds, from nowhere else."""
    end = time.monotonic() + _LONGEST_SECONDS
    data = b""
    try:
        with httpx.stream("GET", url, timeout=_TIMEOUT, trust_env=is_far(url)) as answer:
            if answer.status_code != httpx.codes.OK:
                raise RunError(f"it answers {answer.status_code}", where=url)
            for part in answer.iter_bytes():
                data += part
                if len(data) > _MOST_BYTES or time.monotonic() > end:
                    raise RunError("its answer takes too long, or is too long", where=url)
        found = json.loads(data)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise RunError(f"it does not answer: {error or type(error).__name__}", where=url) from None
    except (ValueError, RecursionError):
        raise RunError("it does not answer with JSON", where=url) from None
    if not isinstance(found, dict):
        raise RunError("it does not answer with a JSON object", where=url)
    return found


def is_far(url: str) -> bool:
    """Whether `$HTTPS_PROXY` and `$SSL_CERT_FILE` are for an address: not for those of this machine."""
    try:
        return not _is_near(urlsplit(url).hostname or "")
    except ValueError:
        return False


def _is_near(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
