"""Refuses requests that a web page of somebody else's could have made: by the names in Host and Origin."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Guard:
    """ASGI middleware.

    Parameters
    ----------
    app
        What it guards.
    hosts
        Names by which clients may reach it.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it."""
        if scope["type"] in ("http", "websocket"):
            wrong = self._wrong(scope)
            if wrong is not None:
                answer = JSONResponse({"what": wrong, "where": None, "hint": "see the setting `hosts`"}, 421)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _wrong(self, scope: Scope) -> str | None:
        named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(named) != 1 or not self._knows(f"//{named[0]}"):
            return "the request names another host than this service's"
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        if any(not self._knows(origin) for origin in origins):
            return "the request comes from a page of another host"
        return None

    def _knows(self, url: str) -> bool:
        try:
            host = urlsplit(url).hostname
        except ValueError:
            return False
        return host is not None and host.lower() in self._hosts
