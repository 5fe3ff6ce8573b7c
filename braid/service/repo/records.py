"""What the registry knows of a folder in Git, and of the applications that its files are of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from braid.client.models import Desired, VersionState
from braid.client.repo import FileInfo, FileState
from braid.core.config import parse_options
from braid.home.service import Resources
from braid.plan.stages.base import Plan
from braid.service.decide.follow import Content, Known, Present
from braid.service.landing import plan_of, resources_of
from braid.service.records import happened
from braid.service.registry.tables import Application, Followed, Version
from braid.service.repo.folder import Read


def known(session: Session) -> list[Known]:
    """All that is recorded, by path."""
    return [
        Known(
            path=row.path,
            application=row.application,
            seen=Content(row.program, row.settings),
            state=FileState(row.state),
            problem=row.problem,
            hint=row.hint,
            agreed=row.agreed,
            landed=None
            if row.landed_program is None
            else Content(row.landed_program, row.landed_settings or ""),
            commit=row.commit,
            version=row.version,
            accepted=row.accepted,
            tried=row.tried,
            tries=row.tries,
            basis=row.basis,
        )
        for row in session.scalars(select(Followed).order_by(Followed.path, Followed.application))
    ]


def record(session: Session, before: Known | None, after: Known, commit: str, now: float) -> None:
    """Record how a file stands; what has become wrong or right of it is an event."""
    row = session.get(Followed, after.key)
    if row is None:
        row = Followed(path=after.path, application=after.application)
        session.add(row)
    row.program, row.settings = after.seen.program, after.seen.settings
    row.state, row.problem, row.hint = after.state, after.problem, after.hint
    row.agreed, row.commit, row.version = after.agreed, after.commit, after.version
    row.landed_program = None if after.landed is None else after.landed.program
    row.landed_settings = None if after.landed is None else after.landed.settings
    row.accepted, row.tried, row.tries, row.basis = after.accepted, after.tried, after.tries, after.basis
    text = _news(before, after)
    if text is not None:
        data = {"path": after.path, "commit": commit, "state": after.state.value, "hint": after.hint}
        happened(session, now, after.application or None, "folder", f"{after.path}: {text}", **data)


def forget(session: Session, record: Known) -> None:
    """Drop what is recorded of a file that nothing depends on any more."""
    row = session.get(Followed, record.key)
    if row is not None:
        session.delete(row)


def file_info(record: Known) -> FileInfo:
    """What there is to say of a file."""
    return FileInfo(
        path=record.path,
        application=record.application or None,
        state=record.state,
        problem=record.problem,
        hint=record.hint,
        version=record.version,
        commit=record.commit,
    )


def _news(before: Known | None, after: Known) -> str | None:
    """What has changed, in a line."""
    if after.state.is_well:
        if before is not None and not before.state.is_well:
            return "nothing is wrong any more"
        taken_over = before is None and after.version is not None and after.state is FileState.APPLIED
        return f"version {after.version} is what it says" if taken_over else None
    same = before is not None and (before.state, before.seen) == (after.state, after.seen)
    # What a file is tried again with may differ in its figures.
    if same and before is not None and (before.problem == after.problem or after.state is FileState.PROBLEM):
        return None
    return (after.problem or after.state).splitlines()[0]


@dataclass(frozen=True)
class _Landed:
    """What a version says that a file can say, too."""

    plan: Plan
    """With its options."""
    resources: Resources


class Comparer:
    """Compares what the registry has with what files say; remembers versions, as they never change."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, int, float], _Landed] = {}

    def present(self, session: Session, wanted: Mapping[str, Read | None]) -> dict[str, Present]:
        """What there is of some applications, each compared with the program that is to be it, if any."""
        applications = session.scalars(select(Application).where(Application.name.in_(wanted))).all()
        by_name: dict[str, list[_Row]] = {one.name: [] for one in applications}
        for application, number, state, author, created in session.execute(_last_versions(wanted)):
            by_name[application].append(_Row(number, state, author, created))
        present: dict[str, Present] = {}
        kept: dict[tuple[str, int, float], _Landed] = {}
        for one in applications:
            read = wanted[one.name]
            rows = {row.number: row for row in by_name[one.name]}
            last = rows.get(max(rows, default=0))
            waits = next((row for row in rows.values() if row.state == VersionState.WAITING), None)
            current = None if one.version is None else rows.get(one.version)
            differs: dict[int, tuple[str, ...]] = {}
            for row in (current, waits):
                if row is not None and read is not None and read.plan is not None:
                    landed = self._landed(session, one.name, row)
                    kept[one.name, row.number, row.created] = landed
                    differs[row.number] = _differs(landed, read)
            present[one.name] = Present(
                version=one.version,
                author="" if current is None else current.author,
                latest=0 if last is None else last.number,
                void=last is not None and last.state == VersionState.VOID,
                waiting=None if waits is None else waits.number,
                desired=Desired(one.desired),
                differs=() if one.version is None else differs.get(one.version, ()),
                waiting_fits=waits is not None and differs.get(waits.number) == (),
            )
        self._versions = kept
        return present

    def _landed(self, session: Session, name: str, row: _Row) -> _Landed:
        found = self._versions.get((name, row.number, row.created))
        if found is None:
            version = session.get(Version, (name, row.number))
            assert version is not None
            plan = plan_of(version)
            options = parse_options({**dict(plan.options), **version.options})
            found = _Landed(plan.with_options(options), resources_of(version))
        return found


@dataclass(frozen=True)
class _Row:
    number: int
    state: VersionState
    author: str
    created: float


def _last_versions(names: Iterable[str]) -> Select[str, int, VersionState, str, float]:
    """The versions of applications that matter: what should run, what waits, and the last one."""
    last = (
        select(func.max(Version.number))
        .where(Version.application == Application.name)
        .correlate(Application)
        .scalar_subquery()
    )
    matters = or_(
        Version.number == Application.version,
        Version.number == last,
        Version.state == VersionState.WAITING,
    )
    return (
        select(Version.application, Version.number, Version.state, Version.author, Version.created)
        .join(Application, Application.name == Version.application)
        .where(Application.name.in_(names), matters)
    )


def _differs(landed: _Landed, read: Read) -> tuple[str, ...]:
    """What a file says otherwise than a version, in words."""
    assert read.plan is not None
    said: list[str] = []
    ours, theirs = dict(read.plan.options), dict(landed.plan.options)
    if landed.plan.stages != read.plan.stages:
        said.append("the program")
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            said.append(f"option {name} is {theirs.get(name, 'as usual')}, not {ours.get(name, 'as usual')}")
    wanted, has = read.asked.resources.asked, landed.resources.asked
    for name in Resources.model_fields:
        if wanted.get(name) != has.get(name):
            said.append(f"{name} is {has.get(name, 'as usual')}, not {wanted.get(name, 'as usual')}")
    return tuple(said)
