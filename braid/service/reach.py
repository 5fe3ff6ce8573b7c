"""Which categories those may publish to, and see rows of, who are limited to some applications."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from braid.core.owner import NOBODY
from braid.home.paths import Home
from braid.service import landing
from braid.service.errors import DeniedError
from braid.service.identity import Identity


def check_publish(session: Session, home: Home, who: Identity, category: str) -> None:
    """Raise `DeniedError` if somebody may not publish to a category."""
    if who.only and not may_publish(
        who, category, owner_of(home, category), landing.readers(session, category)
    ):
        raise DeniedError(
            f"{who.name!r} may not publish to category {category!r}",
            hint=f"it is another application's to write or to read, and the token is for "
            f"{', '.join(who.only)}",
        )


def check_rows(session: Session, home: Home, who: Identity, category: str) -> None:
    """Raise `DeniedError` if somebody may not see rows of a category."""
    who.need_rows()
    if who.only and not may_see(who, category, owner_of(home, category), landing.readers(session, category)):
        raise DeniedError(
            f"{who.name!r} may not see rows of category {category!r}",
            hint=f"no application writes or reads it that the token is for: {', '.join(who.only)}",
        )


def may_publish(who: Identity, category: str, owner: str | None, readers: Sequence[str]) -> bool:
    """Whether that changes only applications that somebody may change.

    Parameters
    ----------
    who
        Somebody.
    category, owner
        A category, and the application that writes it, if any.
    readers
        Applications that read it. If none does, its name must be like those of theirs.
    """
    if owner is not None and not who.covers(owner):
        return False
    return all(map(who.covers, readers)) and (bool(readers) or who.covers(category))


def may_see(who: Identity, category: str, owner: str | None, readers: Sequence[str]) -> bool:
    """Whether an application writes or reads it that somebody may change; parameters as for publishing."""
    return any(map(who.covers, readers)) or who.covers(category if owner is None else owner)


def owner_of(home: Home, category: str) -> str | None:
    """The application that writes a category, if any."""
    log = home.log()
    owner = log.open(category).owner if log.has(category) else None
    return None if owner is None or owner == NOBODY else owner.application
