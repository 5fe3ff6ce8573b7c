"""The process that serves: settings to registry, loops, HTTP API; and back, in good order."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI
from sqlalchemy import select

from braid import __version__
from braid.client.models import NewToken, Role
from braid.core.errors import ConfigError, RunError
from braid.core.logging import Log, log_to_file
from braid.home.locks import exclusive
from braid.home.paths import Home
from braid.home.service import Address, ServiceHome, write_secret
from braid.service.backends.choose import backend_of, master_of
from braid.service.decide.retention import Kept
from braid.service.endpoints import applications, data, repo, service, top
from braid.service.errors import ServiceError
from braid.service.guard import Guard
from braid.service.identity import identify, make_token
from braid.service.limits import BodyLimit
from braid.service.listening import listen, url_of, warning_of
from braid.service.loops.base import Loop
from braid.service.loops.follow import Follow
from braid.service.loops.supervise import Supervise
from braid.service.loops.trim import Trim
from braid.service.oidc import Access, FetchedKeys, Issuer
from braid.service.parameters import ALWAYS
from braid.service.problems import add_handlers
from braid.service.registry.database import Database
from braid.service.registry.tables import Token
from braid.service.repo.applying import Applier
from braid.service.repo.folder import check_folder
from braid.service.repo.mirror import Mirror, Remote
from braid.service.settings import Settings
from braid.service.state import ServiceState
from braid.service.stopping import stop_applications
from braid.service.trials import Trials

PREFIX = "/api/v1"
_TAGS = [
    {"name": "service", "description": "The service itself, who may use it, and what has happened."},
    {"name": "applications", "description": "Programs, what is deployed, and how it is."},
    {"name": "data", "description": "Categories of the log: what goes in, and what has come out."},
    {"name": "repo", "description": "The folder in Git that is followed, and how its files stand."},
]


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
        redirect_slashes=False,
        responses=ALWAYS,
        generate_unique_id_function=lambda route: route.name,
        openapi_tags=_TAGS,
    )
    app.state.service = state
    for module in (service, applications, top, data, repo):
        app.include_router(module.router, prefix=PREFIX)
    app.include_router(service.unversioned)
    add_handlers(app)
    settings = state.settings
    app.add_middleware(BodyLimit)
    app.add_middleware(Guard, own=settings.host, hosts=settings.hosts)
    return app


def serve(settings: Settings, on_ready: Callable[[ServiceState, str, str | None], None]) -> None:
    """Serve until a signal says to end; `on_ready` gets the address, and a warning."""
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
        listening = listen(settings)
        with log_to_file(folder.root / "service.log", "service") as log:
            state = open_state(settings, log)
            try:
                url = url_of(settings, listening)
                certificate = settings.tls_certificate
                address = Address(
                    url=url,
                    pid=os.getpid(),
                    certificate=None if certificate is None else str(certificate.absolute()),
                )
                write_secret(folder.address_file, address.model_dump_json())
                warning = warning_of(settings, listening)
                if warning is not None:
                    log.warning(warning, raised=True)  # it is printed besides
                on_ready(state, url, warning)
                config = http_server(create_app(state), settings)
                # uvicorn raises the signal that has ended it once more, when it is done.
                for number in (signal.SIGINT, signal.SIGTERM):
                    signal.signal(number, lambda number, frame: None)
                _Server(config, state.loops).run(sockets=[listening])
                if settings.stop_applications:
                    stop_applications(folder, state.backend)
                for loop in state.loops:
                    if loop.died is not None:
                        raise loop.died
            finally:
                folder.address_file.unlink(missing_ok=True)
                state.database.close()
                listening.close()


def http_server(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """How an application is served."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=5,
        # Anybody could say that they ask from elsewhere, and the audit would believe it.
        proxy_headers=False,
        server_header=False,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )


class _Server(uvicorn.Server):
    """A server whose loops begin nothing more once a signal has come: to answer requests may take seconds."""

    def __init__(self, config: uvicorn.Config, loops: Sequence[Loop]) -> None:
        super().__init__(config)
        self._loops = loops

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        for loop in self._loops:
            loop.end()
        super().handle_exit(sig, frame)


def open_state(settings: Settings, log: Log) -> ServiceState:
    """Open the registry, and make what is needed in the home."""
    remote = None if settings.repo is None else Remote.of(settings.repo, settings.repo_branch)
    home = Home.at(settings.home)
    folder = ServiceHome(home)
    backend = backend_of(settings, folder)
    database = Database(settings.registry or f"sqlite:///{folder.registry_file}")
    database.migrate()
    _make_first_token(database, folder, settings.token_file)
    supervise = Supervise(database, folder, backend, log, master=master_of(settings))
    access = Access.of(settings)
    issuer = None if access is None else Issuer(access, FetchedKeys(access.issuer))
    trim = Trim(database, log, Kept(events=settings.keep_events_days, audit=settings.keep_audit_days))
    state = ServiceState(
        settings, home, database, backend, supervise, Trials(home, settings, log), issuer, [trim]
    )
    if remote is not None:
        state.follow = Follow(
            Applier(database, home, state.trials, settings.review == "required", settings.folders),
            Mirror(folder.repo_folder, remote),
            check_folder(settings.repo_folder),
            log,
            seconds=settings.repo_seconds,
            on_landed=lambda: state.supervise.hurry(),
        )
        state.others.append(state.follow)
    return state


def _make_first_token(database: Database, folder: ServiceHome, given: Path | None) -> None:
    """See to it that whoever owns the home has a token: the given one, or that of the home."""
    secret = None if given is None else _secret_of(given)
    with database.transaction() as session:
        try:
            known = secret or folder.token_file.read_text().strip()
            identify(session, known, time.time(), "local")
            if secret is not None:
                write_secret(folder.token_file, f"{secret}\n")
            return
        except (FileNotFoundError, ServiceError):
            pass
        for old in session.scalars(select(Token).where(Token.name == "owner")):
            session.delete(old)
        asked = NewToken(name="owner", role=Role.ADMIN, rows=True, days=None)
        made = make_token(session, asked, time.time(), secret)
        write_secret(folder.token_file, f"{made.secret}\n")


def _secret_of(path: Path) -> str:
    """The token in a file."""
    try:
        secret = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"cannot read the owner's token: {why}", where=str(path)) from None
    if not re.fullmatch(r"[!-~]{32,512}", secret):
        raise ConfigError(
            "the owner's token has 32 to 512 letters, digits and signs, without blanks",
            where=str(path),
            hint="make one with `openssl rand -hex 32`",
        )
    return secret
