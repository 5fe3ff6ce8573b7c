"""The process that serves: settings to registry, loops, HTTP API; and back, in good order."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy import select
from starlette.exceptions import HTTPException

from braid import __version__
from braid.client.models import NewToken, Problem, Role
from braid.core.errors import BraidError, ConfigError, RunError
from braid.core.logging import Log, log_to_file
from braid.home.locks import exclusive
from braid.home.paths import Home
from braid.home.service import Address, ServiceHome, write_secret
from braid.service.backends.local import LocalProcesses
from braid.service.endpoints import applications, data, service
from braid.service.errors import ServiceError
from braid.service.guard import LOOPBACK, Guard
from braid.service.identity import identify, make_token
from braid.service.loops.supervise import Supervise
from braid.service.registry.database import Database
from braid.service.registry.tables import Token
from braid.service.settings import Settings
from braid.service.state import ServiceState

PREFIX = "/api/v1"
_PROBLEMS: dict[int | str, dict[str, object]] = {
    status: {"model": Problem} for status in (400, 401, 403, 404, 409, 421, 422)
}


def create_app(state: ServiceState) -> FastAPI:
    """The HTTP API over a state whose loops are not started yet."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        for loop in state.loops:
            loop.start()
        try:
            yield
        finally:
            for loop in reversed(state.loops):
                loop.end()
            for loop in reversed(state.loops):
                loop.stop()

    app = FastAPI(
        title="Braid",
        version=__version__,
        summary="Streaming joins as a service.",
        lifespan=life,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=_PROBLEMS,
    )
    app.state.service = state
    for module in (service, applications, data):
        app.include_router(module.router, prefix=PREFIX)
    app.add_exception_handler(BraidError, _braid_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    settings = state.settings
    app.add_middleware(Guard, hosts=(*LOOPBACK, settings.host, *settings.hosts))
    return app


def serve(settings: Settings, on_ready: Callable[[ServiceState, str], None]) -> None:
    """Serve until a signal says to end; `on_ready` is called with the address."""
    home = Home.at(settings.home)
    folder = ServiceHome(home)
    folder.make()
    with exclusive(folder.lock_file) as alone:
        if not alone:
            known = Address.read(folder.address_file)
            raise RunError(
                "a service of this home is running already",
                where=str(home.root) if known is None else known.url,
                hint="use it, or stop it first",
            )
        listening = _listen(settings)
        with log_to_file(folder.root / "service.log", "service") as log:
            state = open_state(settings, log)
            try:
                port = listening.getsockname()[1]
                host = f"[{settings.host}]" if ":" in settings.host else settings.host
                url = f"http://{host}:{port}"
                write_secret(folder.address_file, Address(url=url, pid=os.getpid()).model_dump_json())
                on_ready(state, url)
                config = uvicorn.Config(
                    create_app(state), log_level="warning", access_log=False, timeout_graceful_shutdown=5
                )
                # uvicorn raises the signal that has ended it once more, when it is done.
                for number in (signal.SIGINT, signal.SIGTERM):
                    signal.signal(number, lambda number, frame: None)
                uvicorn.Server(config).run(sockets=[listening])
                for loop in state.loops:
                    if loop.died is not None:
                        raise loop.died
            finally:
                folder.address_file.unlink(missing_ok=True)
                state.database.close()
                listening.close()


def open_state(settings: Settings, log: Log) -> ServiceState:
    """Open the registry, and make what is needed in the home."""
    home = Home.at(settings.home)
    folder = ServiceHome(home)
    database = Database(settings.registry or f"sqlite:///{folder.registry_file}")
    database.migrate()
    _make_first_token(database, folder)
    supervise = Supervise(database, folder, LocalProcesses(folder), log, master=settings.master)
    return ServiceState(settings, home, database, supervise)


def _make_first_token(database: Database, folder: ServiceHome) -> None:
    """See to it that whoever owns the home has a token."""
    with database.transaction() as session:
        try:
            identify(session, folder.token_file.read_text().strip(), time.time(), "local")
            return
        except (FileNotFoundError, ServiceError):
            pass
        for old in session.scalars(select(Token).where(Token.name == "owner")):
            session.delete(old)
        asked = NewToken(name="owner", role=Role.ADMIN, rows=True, days=None)
        made = make_token(session, asked, time.time())
        write_secret(folder.token_file, f"{made.secret}\n")


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}",
            hint="choose another port (--port), or 0 for a free one",
        ) from None
    return listening


def _problem(status: int, what: str, where: str | None = None, hint: str | None = None) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse(Problem(what=what, where=where, hint=hint).model_dump(), status, headers)


def _braid_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BraidError)
    status = error.status if isinstance(error, ServiceError) else 422
    return _problem(status, error.what, error.where, error.hint)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = jsonable_encoder(error.errors()[0])
    where = ".".join(map(str, first["loc"]))
    return _problem(422, str(first["msg"]), where)


def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _problem(error.status_code, str(error.detail), request.url.path)
