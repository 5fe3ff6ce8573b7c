"""What clients are told of errors: what, where and a hint, and never a traceback."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from braid.client.models import Problem
from braid.core.errors import BraidError
from braid.service.errors import ServiceError

_LOG = logging.getLogger("braid.service")


def add_handlers(app: FastAPI) -> None:
    """Have an application tell of errors in this way."""
    app.add_exception_handler(BraidError, _braid_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(SQLAlchemyError, _registry_away)
    app.add_exception_handler(OSError, _system_error)
    app.add_exception_handler(Exception, _bug)


def problem(status: int, what: str, where: str | None = None, hint: str | None = None) -> JSONResponse:
    """An answer that says what is wrong."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    told = Problem(what=_plain(what) or "", where=_plain(where), hint=_plain(hint))
    return JSONResponse(told.model_dump(), status, headers)


def _plain(text: str | None) -> str | None:
    """What was asked may have halves of letters in it, which no answer can have."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _braid_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BraidError)
    status = error.status if isinstance(error, ServiceError) else 422
    return problem(status, error.what, error.where, error.hint)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return problem(422, str(first["msg"]), ".".join(map(str, first["loc"])))


def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, str(error.detail), request.url.path)


def _registry_away(request: Request, error: Exception) -> JSONResponse:
    lines = str(getattr(error, "orig", None) or type(error).__name__).splitlines()
    _LOG.error("the registry has failed: %s", lines[0] if lines else type(error).__name__)
    return problem(503, "the registry does not answer", hint="try again; the output of the service says more")


def _system_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, OSError)
    return problem(503, f"the service's machine: {error.strerror or error}", hint="try again")


def _bug(request: Request, error: Exception) -> JSONResponse:
    """It is raised on after that, and printed where the service was started."""
    return problem(500, f"a bug of the service's: {type(error).__name__}", hint="its output says more")
