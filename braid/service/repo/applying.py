"""Lands what a file says, and records that it has, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from braid import api
from braid.client.models import Deploy, PlanInfo, Role, VersionState
from braid.client.repo import FileState
from braid.home.paths import Home
from braid.service import landing
from braid.service.decide.follow import Known
from braid.service.errors import ConflictError
from braid.service.identity import Identity
from braid.service.planning import plan_program
from braid.service.registry.database import Database
from braid.service.repo.asked import Consent
from braid.service.repo.folder import Read, settings_path
from braid.service.repo.git import Commit
from braid.service.repo.records import record
from braid.service.trials import Trials

AUTHOR = "git:"
"""What the names of authors begin with who are known by a commit."""


@dataclass(frozen=True)
class Applier:
    """Lands files.

    Parameters
    ----------
    database, home
        The registry, and where applications run.
    trials
        Tries programs before they land.
    review
        Whether versions wait for approval.
    folders
        What programs may read and write besides folders of the home.
    """

    database: Database
    home: Home
    trials: Trials
    review: bool
    folders: tuple[str, ...] = ()

    def apply(
        self, before: Known | None, known: Known, read: Read, head: str, commits: Sequence[Commit], now: float
    ) -> None:
        """Make a version of what a file says at the head of the branch; raises why it cannot be.

        Parameters
        ----------
        before, known
            What is recorded of it, and what is to be, but for the version.
        read, head, commits
            What it says, at which commit, and which have changed it, newest first.
        now
            The clock.
        """
        assert read.program is not None
        agreed = read.asked.agree if known.may_agree else frozenset()
        asked = Deploy(
            program=read.program.program,
            options=read.program.options,
            resources=read.program.resources,
            replay=Consent.REPLAY in agreed,
            discard=Consent.DISCARD in agreed,
            remove=Consent.REMOVE in agreed,
            create=read.asked.create,
        )
        with self.database.reading() as session:
            planned = plan_program(
                self.home,
                read.program,
                landing.landed(session),
                create=asked.create,
                folders=self.folders,
            )
        _check_agreed(planned.info, agreed, read.asked.agree, known.path)
        planned.check(asked)
        planned = self.trials.tried(planned)
        origin = landing.Origin(known.path, head, writers(commits), read.asked.desired)
        with self.database.transaction() as session:
            version = landing.land(
                session,
                self.home,
                planned,
                asked,
                author(commits[0]),
                now,
                review=self.review,
                origin=origin,
            )
            waits = version.state == VersionState.WAITING
            landed = known.applied(head, version.number)
            landed = landed.waiting(version.number) if waits else landed.runs().stands(FileState.APPLIED)
            record(session, before or known, landed, head, now)


def author(commit: Commit) -> Identity:
    """Who has made a commit, as the registry knows them."""
    name = f"{AUTHOR}{commit.name or commit.email or 'nobody'}"
    return Identity(name, Role.EDITOR, rows=False, source=f"commit {commit.id[:12]}")


def writers(commits: Sequence[Commit]) -> tuple[str, ...]:
    """By which names the service may know those who have made commits: parts of addresses, too."""
    names = [
        name
        for commit in commits
        for text in (commit.name, commit.email, *commit.helpers)
        for name in (text, text.partition("@")[0])
    ]
    return tuple(dict.fromkeys(name for name in names if name))


def needed(info: PlanInfo) -> dict[Consent, str]:
    """What somebody has to agree to, and why."""
    found = {}
    if info.verdict == api.Verdict.REPLAYED.value:
        found[Consent.REPLAY] = "replays inputs"
    if info.in_flight:
        found[Consent.DISCARD] = f"decides rows in flight of {', '.join(info.in_flight)} before their time"
    if info.removes:
        found[Consent.REMOVE] = f"leaves out what runs: {', '.join(info.removes)}"
    return found


def _check_agreed(
    info: PlanInfo, agreed: Collection[Consent], written: Collection[Consent], path: str
) -> None:
    """Raise unless a file agrees to all that its update does."""
    wanted = needed(info)
    missing = {consent: why for consent, why in wanted.items() if consent not in agreed}
    if info.verdict == api.Verdict.REFUSED.value or not missing:
        return  # what is refused says so itself
    settings = settings_path(path)
    hint = f"write `agree: [{', '.join(wanted)}]` into {settings}, or take the change back"
    if all(consent in written for consent in missing):
        hint = (
            f"`agree` in {settings} was written for an earlier program: "
            "change that file, too, as by a comment, to say so of this one"
        )
    raise ConflictError(
        f"the update of {info.application!r} {'; and '.join(missing.values())}; nobody has agreed to that",
        where=path,
        hint=hint,
    )
