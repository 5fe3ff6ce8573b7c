"""Tables of the registry. Times are seconds since the epoch."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Float, ForeignKey, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from braid.client.models import Desired, Role, VersionState
from braid.client.repo import FileState

NAME = String(200)
HASH = String(64)
NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts rows of INTEGER columns only."""


class Base(DeclarativeBase):
    """All tables."""

    type_annotation_map = {dict[str, Any]: JSON, list[str]: JSON, float: Float}  # noqa: RUF012


class Application(Base):
    """An application, and what it should be doing."""

    __tablename__ = "applications"

    name: Mapped[str] = mapped_column(NAME, primary_key=True)
    desired: Mapped[Desired] = mapped_column(String(20))
    version: Mapped[int | None] = mapped_column(Integer)
    """The version that should run; None until one is accepted."""
    owner: Mapped[str] = mapped_column(NAME)
    created: Mapped[float]
    restart: Mapped[int] = mapped_column(Integer, default=0)
    """Counts how often somebody has asked for another start."""


class Version(Base):
    """A program that was landed; it never changes but for its approval."""

    __tablename__ = "versions"

    application: Mapped[str] = mapped_column(
        NAME, ForeignKey("applications.name", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    program: Mapped[str] = mapped_column(Text)
    options: Mapped[dict[str, Any]]
    resources: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    plan: Mapped[dict[str, Any]]
    hash: Mapped[str] = mapped_column(String(64))
    """Of the plan that was agreed to."""
    author: Mapped[str] = mapped_column(NAME)
    created: Mapped[float]
    verdict: Mapped[str | None] = mapped_column(String(20))
    changes: Mapped[list[str]]
    replay: Mapped[bool]
    discard: Mapped[bool]
    create: Mapped[bool]
    state: Mapped[VersionState] = mapped_column(String(20))
    approved_by: Mapped[str | None] = mapped_column(NAME)
    desired: Mapped[Desired] = mapped_column(
        String(20), default=Desired.RUNNING, server_default=Desired.RUNNING.value
    )
    """What its application should be doing from when it is accepted."""
    writers: Mapped[list[str]] = mapped_column(default=list, server_default="[]")
    """Further names of those who have written it, and may not approve it."""


class Start(Base):
    """A start of a driver, and how it ended: what backoff goes by."""

    __tablename__ = "starts"

    job: Mapped[str] = mapped_column(String(40), primary_key=True)
    application: Mapped[str] = mapped_column(
        NAME, ForeignKey("applications.name", ondelete="CASCADE"), index=True
    )
    version: Mapped[int] = mapped_column(Integer)
    restart: Mapped[int] = mapped_column(Integer)
    at: Mapped[float]
    ended: Mapped[float | None]
    failed: Mapped[bool] = mapped_column(default=False)
    domain: Mapped[str | None] = mapped_column(String(20))
    error: Mapped[str | None] = mapped_column(Text)


class Event(Base):
    """Something that happened."""

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(NUMBER, primary_key=True, autoincrement=True)
    at: Mapped[float] = mapped_column(index=True)
    application: Mapped[str | None] = mapped_column(NAME, index=True)
    kind: Mapped[str] = mapped_column(String(60))
    text: Mapped[str] = mapped_column(Text)
    data: Mapped[dict[str, Any]]


class Audit(Base):
    """Something that somebody has changed."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(NUMBER, primary_key=True, autoincrement=True)
    at: Mapped[float] = mapped_column(index=True)
    who: Mapped[str] = mapped_column(NAME)
    source: Mapped[str] = mapped_column(NAME)
    action: Mapped[str] = mapped_column(String(60))
    target: Mapped[str] = mapped_column(NAME)
    before: Mapped[Any] = mapped_column(JSON, nullable=True)
    after: Mapped[Any] = mapped_column(JSON, nullable=True)


class Token(Base):
    """A token: only a digest of its secret is kept."""

    __tablename__ = "tokens"
    __table_args__ = (UniqueConstraint("digest"),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(NAME)
    digest: Mapped[str] = mapped_column(String(64))
    role: Mapped[Role] = mapped_column(String(20))
    rows: Mapped[bool]
    only: Mapped[list[str]] = mapped_column(server_default="[]")
    """Patterns of names of applications that it may change; none is all."""
    created: Mapped[float]
    expires: Mapped[float | None]
    used: Mapped[float | None]


class Followed(Base):
    """A file of a folder in Git, and what of it has been applied: see `decide.follow.Known`."""

    __tablename__ = "followed"

    path: Mapped[str] = mapped_column(String(400), primary_key=True)
    application: Mapped[str] = mapped_column(NAME, primary_key=True)
    """Empty as long as none is known."""
    program: Mapped[str] = mapped_column(HASH)
    settings: Mapped[str] = mapped_column(HASH)
    state: Mapped[FileState] = mapped_column(String(20))
    problem: Mapped[str | None] = mapped_column(Text)
    hint: Mapped[str | None] = mapped_column(Text)
    agreed: Mapped[str] = mapped_column(HASH)
    landed_program: Mapped[str | None] = mapped_column(HASH)
    landed_settings: Mapped[str | None] = mapped_column(HASH)
    commit: Mapped[str | None] = mapped_column(HASH)
    version: Mapped[int | None] = mapped_column(Integer)
    accepted: Mapped[str | None] = mapped_column(HASH)
    tried: Mapped[float | None]
    tries: Mapped[int] = mapped_column(Integer)
    basis: Mapped[str] = mapped_column(Text)
