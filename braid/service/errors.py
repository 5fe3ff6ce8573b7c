"""Errors that say, besides what is wrong, how an HTTP API tells it."""

from __future__ import annotations

from braid.core.errors import BraidError


class ServiceError(BraidError):
    """Something that was asked of the service, and cannot be done."""

    status = 422


class NotFoundError(ServiceError):
    """There is no such thing."""

    status = 404


class ConflictError(ServiceError):
    """It cannot be done as things are, or nobody has agreed to what it would do."""

    status = 409


class DeniedError(ServiceError):
    """Whoever asks may not do that."""

    status = 403


class UnavailableError(ServiceError):
    """Something that is needed for it does not answer."""

    status = 503


class UnknownError(ServiceError):
    """Nobody knows who asks."""

    status = 401
