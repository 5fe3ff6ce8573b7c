"""What to do about each file of a folder in Git: apply it, or say why not. Nothing is ever deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from braid.client.models import Desired
from braid.client.repo import FileState

RETRY_SECONDS, LONGEST_RETRY_SECONDS = 60.0, 3600.0
"""After which what could not be applied is tried again, though nothing has changed; doubled every time."""


@dataclass(frozen=True)
class Content:
    """Hashes of a program and of the YAML file beside it; the latter is empty if there is none."""

    program: str
    settings: str = ""


@dataclass(frozen=True)
class File:
    """A program of a commit.

    Parameters
    ----------
    path, content
        Which, and what it holds.
    application
        What it says that it is; None if it is broken.
    problem, hint
        Why it cannot be applied whatever runs, and what to do about it.
    desired
        What the application should be doing.
    """

    path: str
    content: Content
    application: str | None = None
    problem: str | None = None
    hint: str | None = None
    desired: Desired = Desired.RUNNING


@dataclass(frozen=True)
class Known:
    """What is recorded of a file and an application.

    Parameters
    ----------
    path, application
        Together they name the record; the application is empty as long as none is known.
    seen
        What it held when it was seen last.
    state, problem, hint
        How it stood.
    agreed
        The program that its settings were written for: what they agree to counts for no other.
    landed, commit, version
        What of it was applied last, of which commit, as which version; None if nothing was.
    accepted
        The commit up to which all that was written of it has been accepted: until then authors add up.
    tried, tries, basis
        When it could last not be applied, how often in a row, and what was there then.
    """

    path: str
    application: str
    seen: Content
    state: FileState = FileState.APPLIED
    problem: str | None = None
    hint: str | None = None
    agreed: str = ""
    landed: Content | None = None
    commit: str | None = None
    version: int | None = None
    accepted: str | None = None
    tried: float | None = None
    tries: int = 0
    basis: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Names the record."""
        return self.path, self.application

    @property
    def may_agree(self) -> bool:
        """Whether what its settings agree to is for this program."""
        return self.agreed == self.seen.program

    def stands(self, state: FileState, problem: str | None = None, hint: str | None = None) -> Known:
        """The same in another state."""
        return replace(self, state=state, problem=problem, hint=hint, tried=None, tries=0, basis="")

    def runs(self) -> Known:
        """The same, when what was applied is what should run."""
        return replace(self, accepted=self.commit)

    def rejected(self, problem: str, hint: str | None, now: float, basis: str) -> Known:
        """The same, after it could not be applied."""
        tries = self.tries + 1 if self.basis == basis else 1
        return replace(
            self, state=FileState.PROBLEM, problem=problem, hint=hint, tried=now, tries=tries, basis=basis
        )

    def waiting(self, version: int) -> Known:
        """The same while a version of it waits."""
        hint = f"somebody else approves it: braid approve {self.application} {version} HASH"
        return self.stands(FileState.WAITING, f"version {version} waits for approval", hint)

    def applied(self, commit: str, version: int | None) -> Known:
        """The same, after what was seen has been applied."""
        return replace(self, landed=self.seen, commit=commit, version=version)


@dataclass(frozen=True)
class Present:
    """What the registry has of an application.

    Parameters
    ----------
    version, author
        What should run, if anything; and who has landed it.
    latest
        The number of the last version, whatever has become of it.
    void
        Whether that will never run.
    waiting
        The version that waits for approval.
    desired
        What the application should be doing.
    differs
        What of `version` is not as its file says.
    waiting_fits
        Whether `waiting` is what the file says.
    """

    version: int | None
    author: str = ""
    latest: int = 0
    void: bool = False
    waiting: int | None = None
    desired: Desired = Desired.RUNNING
    differs: tuple[str, ...] = ()
    waiting_fits: bool = False

    @property
    def fits(self) -> bool:
        """Whether what should run is what the file says."""
        return self.version is not None and not self.differs


class What(StrEnum):
    """What to do."""

    RECORD = "record"
    """Only write down how things stand."""
    DEPLOY = "deploy"
    WANT = "want"
    """Have the application run or stopped, as the file says."""
    VOID = "void"
    """A version that waits, and that the file has moved on from."""
    FORGET = "forget"
    """Drop the record."""


@dataclass(frozen=True)
class Step:
    """What to do.

    Parameters
    ----------
    what
        That.
    known
        What to record; for a deploy, without its version.
    before
        What is recorded of the file, or of the one that it was before it was renamed.
    desired
        What the application should be doing.
    """

    what: What
    known: Known
    before: Known | None = None
    desired: Desired = Desired.RUNNING


def decide(
    files: Sequence[File],
    records: Sequence[Known],
    present: Mapping[str, Present],
    commit: str,
    now: float,
    asked: str | None = None,
) -> list[Step]:
    """What to do about each file, and each record.

    Parameters
    ----------
    files, commit
        What the branch has now.
    records, present
        What is recorded, and what the registry has of applications, compared with the file that claims each.
    now
        The clock.
    asked
        An application that somebody wants to be as its file says, whatever was done by hand.
    """
    claims = claimed(files, records)
    keys = {file.path: (file.path, application or "") for file, application in claims}
    claimants: dict[str, list[str]] = defaultdict(list)
    for file, application in claims:
        if application is not None:
            claimants[application].append(file.path)
    by_key = {record.key: record for record in records}
    left = {key: record for key, record in by_key.items() if key not in keys.values()}
    steps: list[Step] = []
    for file, application in claims:
        known = by_key.get(keys[file.path])
        if application is not None and len(claimants[application]) == 1 and not (known and known.landed):
            known = _left_by(application, left) or known
        seen = _seen(file, application or "", known)
        if application is not None and len(claimants[application]) > 1:
            problem = seen.stands(FileState.PROBLEM, *_several(application, claimants))
            steps.append(Step(What.RECORD, problem, known))
        elif file.problem is not None or application is None:
            problem = seen.stands(FileState.PROBLEM, file.problem, file.hint)
            steps.append(Step(What.RECORD, problem, known))
        else:
            here = present.get(application)
            steps.extend(_of_file(file, seen, known, here, commit, now, force=asked == application))
    steps.extend(_of_record(record, claimants, present) for record in left.values())
    return steps


def claimed(files: Sequence[File], records: Sequence[Known]) -> list[tuple[File, str | None]]:
    """Files with the applications that they are of: a broken one is of that which it was of before."""
    before = {one.path: one.application for one in records if one.state is not FileState.ORPHAN}
    return [(file, file.application or before.get(file.path) or None) for file in files]


def basis_of(commit: str, here: Present | None) -> str:
    """What a file that cannot be applied is tried again for, if it changes."""
    return f"{commit} {here and (here.version, here.latest, here.void, here.desired.value)}"


def _left_by(application: str, left: Mapping[tuple[str, str], Known]) -> Known | None:
    """The record of a file that was of an application and is so no more, as after it was renamed."""
    found = (record for record in left.values() if record.application == application and record.landed)
    return next(found, None)


def _seen(file: File, application: str, known: Known | None) -> Known:
    """A record of what a file holds now; settings that were there before agree to what they did before."""
    if known is None:
        return Known(file.path, application, file.content, agreed=file.content.program)
    agreed = known.agreed if known.seen.settings == file.content.settings else file.content.program
    return replace(known, path=file.path, application=application, seen=file.content, agreed=agreed)


def _several(application: str, claimants: Mapping[str, list[str]]) -> tuple[str, str]:
    return (
        f"{' and '.join(claimants[application])} are of the same application, {application!r}",
        "remove one of them, or give it an application of another name",
    )


def _of_file(
    file: File,
    seen: Known,
    known: Known | None,
    here: Present | None,
    commit: str,
    now: float,
    *,
    force: bool,
) -> Iterator[Step]:
    """What to do about a file that is in order."""
    name, new = seen.application, seen.landed is None
    changed = force or new or seen.landed != file.content
    sync = f"apply what the folder says (braid repo sync {name})"
    deploy = Step(What.DEPLOY, seen, known)
    if _is_held(seen, known, here, commit, now) and not force:
        yield Step(What.RECORD, seen, known)
    elif here is None:
        if changed:
            yield deploy
        else:
            what = f"application {name!r} was deleted by hand"
            yield Step(What.RECORD, seen.stands(FileState.DRIFT, what, f"{sync}, or remove the file"), known)
    elif here.fits:
        if here.waiting is not None and here.waiting == seen.version:
            yield Step(What.VOID, seen, known)
        adopted = (seen.applied(commit, here.version) if seen.landed != file.content else seen).runs()
        if here.desired == file.desired:
            yield Step(What.RECORD, adopted.stands(FileState.APPLIED), known)
        elif changed and (force or not new) and here.desired is not Desired.DELETED:
            yield Step(What.WANT, adopted.stands(FileState.APPLIED), known, file.desired)
        else:
            what = f"by hand it was {_done(here.desired)}; the folder says {file.desired}"
            yield Step(What.RECORD, adopted.stands(FileState.DRIFT, what, sync), known)
    elif here.waiting_fits and here.waiting is not None:
        landed = seen.applied(commit, here.waiting) if seen.landed != file.content else seen
        yield Step(What.RECORD, landed.waiting(here.waiting), known)
    elif new and not force:
        what = f"application {name!r} was deployed by hand, and is not what the folder says: {_list(here)}"
        yield Step(What.RECORD, seen.stands(FileState.CONFLICT, what, f"{sync}, or change the file"), known)
    elif changed or (here.void and here.latest == seen.version):
        # A version of its own that is void since what runs has changed is planned again.
        yield deploy
    else:
        what = f"by hand, version {here.version} by {here.author} has taken its place: {_list(here)}"
        yield Step(What.RECORD, seen.stands(FileState.DRIFT, what, f"{sync}, or change the file"), known)


def _is_held(seen: Known, known: Known | None, here: Present | None, commit: str, now: float) -> bool:
    """Whether it could not be applied, and nothing has changed since then."""
    return (
        known is not None
        and known.tried is not None
        and known.seen == seen.seen
        and known.basis == basis_of(commit, here)
        and now < known.tried + min(RETRY_SECONDS * 2 ** min(known.tries - 1, 10), LONGEST_RETRY_SECONDS)
    )


def _of_record(record: Known, claimants: Mapping[str, list[str]], present: Mapping[str, Present]) -> Step:
    """What to do about a record whose file is gone, or of another application now."""
    name = record.application
    if record.landed is None or len(claimants[name]) == 1 or name not in present:
        return Step(What.FORGET, record, record)
    if claimants[name]:
        return Step(What.RECORD, record.stands(FileState.PROBLEM, *_several(name, claimants)), record)
    what = f"no file is of application {name!r} any more; it goes on"
    hint = f"delete it with `braid delete {name}`, or put the file back"
    return Step(What.RECORD, record.stands(FileState.ORPHAN, what, hint), record)


def _done(desired: Desired) -> str:
    words = {Desired.RUNNING: "started", Desired.STOPPED: "stopped", Desired.DELETED: "deleted"}
    return words[desired]


def _list(here: Present) -> str:
    return "; ".join(here.differs) or "nothing of it may run yet"
