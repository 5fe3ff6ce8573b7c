"""Refuses requests that are too large, before they are held in memory."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from braid.service.problems import problem

MOST_BYTES = 16 << 20
"""Of the body of a request."""


class BodyLimit:
    """ASGI middleware.

    Parameters
    ----------
    app
        What it guards.
    most
        The most bytes of a body.
    """

    def __init__(self, app: ASGIApp, most: int = MOST_BYTES) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _declared(scope) > self._most:
            await problem(413, self._what)(scope, receive, send)
            return
        come = 0

        async def counted() -> Message:
            nonlocal come
            message = await receive()
            come += len(message.get("body", b""))
            if come > self._most:
                raise HTTPException(413, self._what)
            return message

        await self._app(scope, counted, send)

    @property
    def _what(self) -> str:
        return f"the body of the request is larger than {self._most:,} bytes"


def _declared(scope: Scope) -> int:
    """What a request says of its size; whether it is a number, the server has checked."""
    sizes = [value for name, value in scope["headers"] if name == b"content-length"]
    return max((int(size) for size in sizes if size.isdigit()), default=0)
