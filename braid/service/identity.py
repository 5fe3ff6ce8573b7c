"""Who asks, and what they may do: tokens, of which the registry has digests only."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sqlalchemy import select
from sqlalchemy.orm import Session

from braid.client.models import IdentifiedBy, NewToken, Role, TokenInfo, WhoAmI
from braid.core.times import DAY, SECOND
from braid.service.errors import DeniedError, NotFoundError, UnknownError
from braid.service.registry.tables import Token

PREFIX = "braid_"
_USED_SECONDS = 60.0
"""How exactly it is known when a token was used last."""


@dataclass(frozen=True)
class Identity:
    """Who asks.

    Parameters
    ----------
    name
        By which others know them.
    role
        What they may do.
    rows
        Whether they may see rows.
    source
        From where they ask.
    only
        Patterns of names of applications that they may change; none is all.
    by
        How it is known who they are.
    unnoted
        Their token, if its use is yet to be written down.
    """

    name: str
    role: Role
    rows: bool
    source: str = "local"
    only: tuple[str, ...] = ()
    by: IdentifiedBy = IdentifiedBy.TOKEN
    unnoted: str | None = None

    def need(self, role: Role) -> None:
        """Raise `DeniedError` if they may not do what needs a role."""
        if not self.role.may(role):
            raise DeniedError(
                f"{self.name!r} is {self.role.value}, and this needs {role.value}",
                hint="ask somebody who is admin for another token",
            )

    def covers(self, application: str) -> bool:
        """Whether an application is among those that they are limited to, if they are."""
        return not self.only or any(fnmatchcase(application, pattern) for pattern in self.only)

    def need_application(self, application: str) -> None:
        """Raise `DeniedError` if they may not change an application, whether it is there or not."""
        if not self.covers(application):
            raise DeniedError(
                f"{self.name!r} may not change application {application!r}",
                hint=f"the token is for {', '.join(self.only)}",
            )

    def need_rows(self) -> None:
        """Raise `DeniedError` if they may not see rows."""
        if not self.rows:
            raise DeniedError(
                f"{self.name!r} may not see rows", hint="ask somebody who is admin for another token"
            )


ANYBODY = Identity("anybody", Role.ADMIN, rows=True, by=IdentifiedBy.NOTHING)
"""Who asks a service that does not want to know."""


def whoami(who: Identity) -> WhoAmI:
    """What there is to say of who asks."""
    return WhoAmI(
        name=who.name, by=who.by, role=who.role, rows=who.rows, only=list(who.only), source=who.source
    )


def make_token(session: Session, asked: NewToken, now: float, secret: str | None = None) -> TokenInfo:
    """Make a token, of a new secret or a given one; what is returned is the only place that has it."""
    secret = secret or f"{PREFIX}{secrets.token_urlsafe(32)}"
    token = Token(
        id=secrets.token_hex(6),
        name=asked.name,
        digest=_digest(secret),
        role=asked.role,
        rows=asked.rows,
        only=list(asked.only),
        created=now,
        expires=None if asked.days is None else now + asked.days * DAY / SECOND,
        used=None,
    )
    session.add(token)
    return info(token).model_copy(update={"secret": secret})


def identify(session: Session, secret: str | None, now: float, source: str) -> Identity:
    """Who has a secret; `UnknownError` if nobody has, or not any more."""
    if not secret:
        raise UnknownError(
            "this needs a token",
            hint="send `Authorization: Bearer TOKEN`; the command line reads $BRAID_TOKEN",
        )
    # Digests are compared by the database's index: what that tells by its time is nothing about a secret.
    token = session.scalar(select(Token).where(Token.digest == _digest(secret)))
    if token is None or (token.expires is not None and token.expires <= now):
        raise UnknownError(
            "the token is not valid, or not any more", hint="ask somebody who is admin for another"
        )
    stale = token.used is None or now - token.used > _USED_SECONDS
    return Identity(
        token.name,
        Role(token.role),
        token.rows,
        source,
        only=tuple(token.only),
        unnoted=token.id if stale else None,
    )


def is_foreign(secret: str) -> bool:
    """Whether it is signed by somebody, rather than one of the service's own."""
    return not secret.startswith(PREFIX) and secret.count(".") >= 2


def note_use(session: Session, who: Identity, now: float) -> None:
    """Write down that a token is used, if that is not known well enough."""
    token = None if who.unnoted is None else session.get(Token, who.unnoted)
    if token is not None:
        token.used = now


def tokens(session: Session) -> list[TokenInfo]:
    """All tokens, without their secrets."""
    return [info(token) for token in session.scalars(select(Token).order_by(Token.created))]


def drop_token(session: Session, number: str) -> TokenInfo:
    """Let a token be valid no more."""
    token = session.get(Token, number)
    if token is None:
        raise NotFoundError(f"there is no token {number!r}", hint="braid tokens lists them")
    session.delete(token)
    return info(token)


def info(token: Token) -> TokenInfo:
    """What there is to say of a token."""
    return TokenInfo(
        id=token.id,
        name=token.name,
        role=Role(token.role),
        rows=token.rows,
        only=token.only,
        created=token.created,
        expires=token.expires,
        used=token.used,
    )


def _digest(secret: str) -> str:
    """Secrets have 256 random bits, so that no slow digest is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()
