"""Applications and their versions in the registry: land, approve, roll back, stop, start, delete."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from braid.client.models import Deploy, Desired, Program, Rollback, VersionInfo, VersionState
from braid.core.config import parse_options
from braid.engine.ownership import places
from braid.home.paths import Home
from braid.home.service import Resources
from braid.plan.physical.readers import category_readers
from braid.plan.serialise import loads
from braid.plan.stages.base import Plan
from braid.service.errors import ConflictError, DeniedError, NotFoundError
from braid.service.identity import Identity
from braid.service.planning import Base, Landed, Planned, stored_plan
from braid.service.records import changed, happened
from braid.service.registry.tables import Application, Version


@dataclass(frozen=True)
class Origin:
    """Where a version comes from that nobody has deployed by hand.

    Parameters
    ----------
    path, commit
        Of which file, and with which commit.
    writers
        Names of those who have written it, besides its author.
    desired
        What its application should be doing from when it is accepted.
    """

    path: str
    commit: str
    writers: tuple[str, ...] = ()
    desired: Desired = Desired.RUNNING


def application_of(session: Session, name: str, *, lock: bool = False) -> Application:
    """An application by its name; with `lock`, nobody else changes it until the transaction ends."""
    found = session.get(Application, name, with_for_update=lock or None)
    if found is None:
        names = ", ".join(session.scalars(select(Application.name).order_by(Application.name))) or "none"
        raise NotFoundError(f"there is no application {name!r}", hint=f"applications: {names}")
    return found


def version_of(session: Session, name: str, number: int) -> Version:
    """A version of an application."""
    application_of(session, name)
    found = session.get(Version, (name, number))
    if found is None:
        numbers = ", ".join(str(one.number) for one in versions(session, name)) or "none"
        raise NotFoundError(f"application {name!r} has no version {number}", hint=f"versions: {numbers}")
    return found


def versions(session: Session, name: str) -> Sequence[Version]:
    """All versions of an application, oldest first."""
    return session.scalars(select(Version).where(Version.application == name).order_by(Version.number)).all()


def land(
    session: Session,
    home: Home,
    planned: Planned,
    asked: Deploy,
    who: Identity,
    now: float,
    *,
    review: bool,
    origin: Origin | None = None,
) -> Version:
    """Make a version of a program that has been planned and agreed to."""
    who.need_application(planned.info.application)
    planned.check(asked)
    _check_places(session, home, planned)
    info = planned.info
    application = session.get(Application, info.application, with_for_update=True)
    if planned.base != (None if application is None else application.version):
        raise ConflictError(
            f"another version of {info.application!r} has landed meanwhile", hint="plan it again"
        )
    if application is None:
        application = Application(
            name=info.application,
            desired=Desired.RUNNING,
            version=None,
            owner=who.name,
            created=now,
            restart=0,
        )
        session.add(application)
        session.flush()
    _check_kept(application)
    last = session.scalar(select(func.max(Version.number)).where(Version.application == application.name))
    version = Version(
        application=application.name,
        number=(last or 0) + 1,
        program=asked.program,
        options=dict(asked.options),
        resources=asked.resources.asked,
        plan=stored_plan(planned),
        hash=info.hash,
        author=who.name,
        created=now,
        verdict=info.verdict,
        changes=[f"{one.subject}: {one.detail}" for one in info.changes],
        replay=asked.replay,
        discard=asked.discard,
        create=asked.create,
        state=VersionState.WAITING if review else VersionState.ACCEPTED,
        approved_by=None,
        desired=Desired.RUNNING if origin is None else origin.desired,
        writers=[] if origin is None else list(origin.writers),
    )
    _void_others(session, application.name)
    session.add(version)
    before = application.version
    if not review:
        _accept(application, version)
    source = {} if origin is None else {"path": origin.path, "commit": origin.commit}
    happened(
        session,
        now,
        application.name,
        "version",
        f"version {version.number} by {who.name}" + (" waits for approval" if review else ""),
        version=version.number,
        verdict=info.verdict,
        **source,
    )
    changed(
        session,
        now,
        who,
        "deploy",
        application.name,
        {"version": before},
        {"version": version.number, "hash": info.hash, **source},
    )
    return version


def rolled_back(session: Session, name: str, asked: Rollback) -> tuple[str, Deploy]:
    """The plan of an earlier version, as JSON, and what is asked with it."""
    application = application_of(session, name)
    known = [one.number for one in versions(session, name) if one.state == VersionState.ACCEPTED]
    number = asked.version
    if number is None:
        earlier = [one for one in known if application.version is None or one < application.version]
        if not earlier:
            raise ConflictError(f"application {name!r} has no earlier version")
        number = earlier[-1]
    version = version_of(session, name, number)
    again = Deploy(
        program=version.program,
        options=version.options,
        resources=resources_of(version),
        replay=asked.replay,
        discard=asked.discard,
        remove=asked.remove,
    )
    return json.dumps(version.plan), again


def approve(
    session: Session, name: str, number: int, hash_: str, present: str, who: Identity, now: float
) -> Version:
    """Let a version run; `present` is the hash of the plan as it would be now."""
    application, version = application_of(session, name, lock=True), version_of(session, name, number)
    if version.state != VersionState.WAITING:
        raise ConflictError(
            f"version {number} of {name!r} is {version.state}, and does not wait for approval"
        )
    if _has_written(version, who):
        raise DeniedError("nobody approves their own version", hint="ask somebody else who is approver")
    if hash_ != version.hash:
        raise ConflictError(
            f"that is not the plan of version {number}", hint=f"its hash is {version.hash}: look at it again"
        )
    if present != version.hash:
        void(session, name, number, "what runs has changed", now)
        return version
    version.approved_by = who.name
    _accept(application, version)
    happened(session, now, name, "version", f"version {number} approved by {who.name}", version=number)
    changed(session, now, who, "approve", name, None, {"version": number, "hash": hash_})
    return version


def void(session: Session, name: str, number: int, why: str, now: float) -> None:
    """Let a version wait no more, if it still does."""
    application_of(session, name, lock=True)
    version = session.get(Version, (name, number))
    if version is not None and version.state == VersionState.WAITING:
        version.state = VersionState.VOID
        happened(session, now, name, "version", f"version {number} is void: {why}", version=number)


def want(
    session: Session, name: str, desired: Desired, who: Identity, now: float, *, again: bool = False
) -> Application:
    """Have an application run or stopped; with `again`, have it started anew."""
    application = application_of(session, name, lock=True)
    _check_kept(application)
    if desired is Desired.RUNNING and application.version is None:
        raise ConflictError(f"no version of {name!r} may run yet", hint="somebody has to approve one")
    before = application.desired
    application.desired = desired
    if again or (desired is Desired.RUNNING and before != desired):
        application.restart += 1
    action = "restart" if again else "start" if desired is Desired.RUNNING else "stop"
    happened(session, now, name, action, f"{action} by {who.name}")
    changed(session, now, who, action, name, {"desired": before}, {"desired": desired})
    return application


def readers(session: Session, category: str) -> list[str]:
    """Applications whose version that should run reads a category, by name."""
    should_run = select(Version).join(
        Application, (Application.name == Version.application) & (Application.version == Version.number)
    )
    return sorted(
        version.application
        for version in session.scalars(should_run)
        if any(category in one.inputs.values() for one in category_readers(plan_of(version)))
    )


def landed(session: Session) -> Landed:
    """Tells which version of an application should run."""

    def find(name: str) -> Base | None:
        application = session.get(Application, name)
        if application is None or application.version is None:
            return None
        version = version_of(session, name, application.version)
        options = parse_options({**dict(plan_of(version).options), **version.options})
        return Base(version.number, plan_of(version).with_options(options), resources_of(version))

    return find


def version_info(version: Version, *, whole: bool = False) -> VersionInfo:
    """What there is to say of a version; with `whole`, its program, too."""
    return VersionInfo(
        number=version.number,
        state=VersionState(version.state),
        author=version.author,
        created=version.created,
        hash=version.hash,
        verdict=version.verdict,
        changes=version.changes,
        approved_by=version.approved_by,
        options=version.options,
        resources=resources_of(version),
        program=version.program if whole else None,
    )


def plan_of(version: Version) -> Plan:
    """The plan of a version."""
    return loads(json.dumps(version.plan))


def program_of(version: Version) -> Program:
    """What was asked for with a version."""
    return Program(program=version.program, options=version.options, resources=resources_of(version))


def resources_of(version: Version) -> Resources:
    """What a version asks for."""
    return Resources.model_validate(version.resources)


def _check_places(session: Session, home: Home, planned: Planned) -> None:
    """Refuse a plan that writes what another application is to write, even if that has not run yet."""
    mine = set(places(home, planned.plan))
    others = select(Version).join(
        Application, (Application.name == Version.application) & (Application.version == Version.number)
    )
    for version in session.scalars(others.where(Application.name != planned.info.application)):
        both = mine & set(places(home, plan_of(version)))
        if both:
            what, name = min(both)
            raise ConflictError(
                f"{what} {name!r} is written by application {version.application!r}",
                hint="store the table under another name",
            )


def _check_kept(application: Application) -> None:
    """Refuse to change what is being deleted."""
    if application.desired == Desired.DELETED:
        name = application.name
        raise ConflictError(f"application {name!r} is being deleted", hint=f"end that: braid delete {name}")


def _has_written(version: Version, who: Identity) -> bool:
    """Whether somebody is the author of a version, or one of several; Git may spell them otherwise."""
    return who.name == version.author or who.name.casefold() in map(str.casefold, version.writers)


def _accept(application: Application, version: Version) -> None:
    version.state = VersionState.ACCEPTED
    application.version = version.number
    application.desired = version.desired
    application.restart += 1


def _void_others(session: Session, name: str) -> None:
    """A newer version takes the place of one that waits."""
    for one in versions(session, name):
        if one.state == VersionState.WAITING:
            one.state = VersionState.VOID
