"""Refuses requests that a web page of somebody else's could have made: by the names in Host and Origin."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from braid.core.errors import ConfigError
from braid.service.problems import problem

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_AUTHORITY = re.compile(rf"(?:({_NAME})|\[([0-9A-Fa-f:.]+)\])(?::([0-9]{{1,5}}))?")
"""No user, no trailing dot, nothing escaped: no browser sends one of these on its own."""
_LAST_PORT = 65_535
_ANY = ("0.0.0.0", "::")
"""Listens on all addresses, and is none."""
_USUAL_PORTS = (None, 80, 443)
"""Which of them is left out depends on the scheme, which a proxy may have changed."""


@dataclass(frozen=True)
class Authority:
    """A host and a port, as a header names them.

    Parameters
    ----------
    host
        In lower case, without brackets.
    port
        None if it is the usual one.
    """

    host: str
    port: int | None

    @classmethod
    def read(cls, text: str) -> Authority | None:
        """What a text says; None if that is not a host with or without a port."""
        found = _AUTHORITY.fullmatch(text)
        if found is None:
            return None
        name, address, port = found.groups()
        number = None if port is None else int(port)
        try:
            host = name.lower() if address is None else str(ipaddress.IPv6Address(address))
        except ValueError:
            return None
        if number is not None and number > _LAST_PORT:
            return None
        return cls(host, None if number in _USUAL_PORTS else number)

    @classmethod
    def of_origin(cls, text: str) -> Authority | None:
        """What an Origin says; None if that is not a page of the web."""
        scheme, _, authority = text.partition("://")
        return cls.read(authority) if scheme in ("http", "https") else None


class Guard:
    """ASGI middleware.

    Parameters
    ----------
    app
        What it guards.
    own
        The address that it listens on.
    hosts
        Further names by which clients may reach it.
    """

    def __init__(self, app: ASGIApp, own: str, hosts: Iterable[str]) -> None:
        self._app = app
        mine = () if own in _ANY else (own,)
        self._hosts = frozenset(map(known_name, (*LOOPBACK, *mine, *hosts)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it."""
        if scope["type"] in ("http", "websocket"):
            wrong = self._wrong(scope)
            if wrong is not None:
                await problem(421, wrong, hint="see the setting `hosts`")(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _wrong(self, scope: Scope) -> str | None:
        if not scope["path"].startswith("/"):
            return "the request is for a proxy"
        hosts, origins = _named(scope, b"host"), _named(scope, b"origin")
        host = Authority.read(hosts[0]) if len(hosts) == 1 else None
        if host is None or host.host not in self._hosts:
            return "the request names another host than this service's"
        for origin in map(Authority.of_origin, origins):
            # Pages of other programs on this machine differ by their ports.
            if origin is None or origin.host not in self._hosts or origin.port != host.port:
                return "the request comes from a page of another host"
        return None


def known_name(host: str) -> str:
    """A name or an address as browsers send it, without brackets."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        name = host.encode("idna").decode().lower()
    except UnicodeError:
        name = ""
    if Authority.read(name) != Authority(name, None):
        raise ConfigError(f"{host!r} is not the name of a host", where="hosts", hint="names without ports")
    return name


def _named(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]
