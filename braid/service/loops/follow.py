"""Follows a folder in Git: what its branch says is planned, and applied if it may be; what differs is told.

Nothing but the head of the branch counts, so that it does not matter how it has come there. When the
repository cannot be reached, the last head that was seen counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from braid.client.repo import FileInfo, RepoInfo
from braid.core.errors import BraidError
from braid.core.logging import Log
from braid.service import landing
from braid.service.decide.follow import File, Known, Present, Step, What, basis_of, claimed, decide
from braid.service.errors import ConflictError, NotFoundError
from braid.service.identity import Identity
from braid.service.loops.base import Loop
from braid.service.records import changed, happened
from braid.service.repo.applying import Applier, author
from braid.service.repo.folder import Read, Reader, Source, file_of, said, sources
from braid.service.repo.git import CutShortError, RepoError
from braid.service.repo.mirror import Mirror
from braid.service.repo.records import Comparer, file_info, forget, known, record


@dataclass(frozen=True)
class _Head:
    """A commit, and what it has in the folder."""

    commit: str
    sources: dict[str, Source] = field(default_factory=dict)
    read: dict[str, Read] = field(default_factory=dict)

    @property
    def files(self) -> list[File]:
        """The same, as decisions see it."""
        return [file_of(source, self.read.get(path)) for path, source in self.sources.items()]


class Follow(Loop):
    """The loop.

    Parameters
    ----------
    applier
        Lands files.
    mirror, folder
        The copy of the repository, and where in it programs are.
    log, seconds
        Of the service; and how often the repository is looked at.
    on_landed
        What is called when something else should run.
    clock
        In seconds since the epoch.
    """

    name = "follow"

    def __init__(
        self,
        applier: Applier,
        mirror: Mirror,
        folder: str,
        log: Log,
        *,
        seconds: float,
        on_landed: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(log, seconds)
        self._applier = applier
        self._database = applier.database
        self._mirror = mirror
        self._folder = folder
        self._on_landed = on_landed
        self._clock = clock
        self._turns = threading.Lock()
        self._comparer = Comparer()
        self._reader = Reader(mirror.git.blobs, self._log)
        self._head: _Head | None = None
        self._looked: float | None = None
        self._unseen: str | None = None
        """Why the head of the branch cannot be seen."""

    @property
    def text(self) -> str:
        """What is followed, in words."""
        remote = self._mirror.remote
        return f"{remote.shown}, branch {remote.branch or 'HEAD'}, folder {self._folder or '.'}"

    def turn(self) -> None:
        """Look at the repository, and do what is to be done about each file."""
        with self._turns:
            self._see()
            self._do()

    def end(self) -> None:
        """Have it end: Git is not waited for."""
        super().end()
        self._mirror.git.running.cancel()

    def sync(self, name: str, who: Identity) -> FileInfo:
        """Apply what the folder says of an application, whatever was done to it by hand."""
        with self._turns:
            self._see()
            files = [] if self._head is None else self._head.files
            with self._database.transaction() as session:
                names = sorted({one for _, one in claimed(files, known(session)) if one is not None})
                if name not in names:
                    raise NotFoundError(
                        f"no file of the folder is of application {name!r}",
                        hint=f"applications of the folder: {', '.join(names) or 'none'}",
                    )
                changed(session, self._clock(), who, "sync", name)
            self._do(name)
        found = [one for one in self.info().files if one.application == name]
        wrong = next((one for one in found if not one.state.is_well), None)
        if wrong is not None:
            raise ConflictError(wrong.problem or wrong.state, hint=wrong.hint)
        return found[0]

    def info(self) -> RepoInfo:
        """What is followed, and how it stands."""
        with self._database.reading() as session:
            files = [file_info(one) for one in known(session)]
        return RepoInfo(
            repo=self._mirror.remote.shown,
            branch=self._mirror.branch,
            folder=self._folder,
            commit=None if self._head is None else self._head.commit,
            looked=self._looked,
            trouble=self._unseen,
            files=files,
        )

    # -- looking ----------------------------------------------------------------------------------

    def _see(self) -> None:
        """Find the head of the branch, and read what it has; if that fails, what was seen last counts."""
        trouble: str | None = None
        try:
            commit: str | None = self._mirror.look()
            self._looked = self._clock()
        except RepoError as error:
            trouble = said(error) + (f"; {error.hint}" if error.hint else "")
            commit = self._mirror.head()
        try:
            if commit is not None and (self._head is None or self._head.commit != commit):
                self._head = self._read(commit)
        except BraidError as error:
            trouble = trouble or said(error)
            if isinstance(error, RepoError) and not isinstance(error, CutShortError):
                self._mirror.drop()
        if self._mirror.git.running.cancelled:
            return
        if trouble is None and self._head is not None and not self._head.sources:
            trouble = f"commit {self._head.commit[:12]} has no programs in {self._folder or 'its root'}"
        self._tell(trouble)

    def _read(self, commit: str) -> _Head:
        found = sources(self._mirror.git.tree(commit, self._folder), self._folder)
        return _Head(commit, {source.path: source for source in found}, self._reader.read(found))

    def _tell(self, trouble: str | None) -> None:
        """Keep what is wrong with the repository; if that has changed, it is an event."""
        if trouble == self._unseen:
            return
        self._unseen = trouble
        text = "the repository is in order again" if trouble is None else f"the repository: {trouble}"
        with self._database.transaction() as session:
            happened(session, self._clock(), None, "folder", text, repo=self._mirror.remote.shown)

    # -- doing ------------------------------------------------------------------------------------

    def _do(self, asked: str | None = None) -> None:
        """Do what is to be done about each file; what is wrong with one of them holds up no other."""
        head, now = self._head, self._clock()
        if head is None:
            return
        with self._database.reading() as session:
            records = known(session)
            present = self._present(session, head, records)
        steps = decide(head.files, records, present, head.commit, now, asked)
        self._note(head, steps, now)
        todo = [step for step in steps if step.what in (What.DEPLOY, What.WANT, What.VOID)]
        taken = [self._take(step, head, present.get(step.known.application), now) for step in todo]
        troubles = [error for error in taken if error is not None]
        if troubles:
            raise troubles[0]

    def _present(self, session: Session, head: _Head, records: Sequence[Known]) -> dict[str, Present]:
        """What the registry has of all applications that matter."""
        wanted: dict[str, Read | None] = {one.application: None for one in records if one.application}
        for file, application in claimed(head.files, records):
            if application is not None:
                wanted[application] = head.read.get(file.path)
        return self._comparer.present(session, wanted)

    def _note(self, head: _Head, steps: Sequence[Step], now: float) -> None:
        """Write down how things stand, where that has changed."""
        noted = [
            step
            for step in steps
            if step.what is What.FORGET or (step.what is What.RECORD and step.before != step.known)
        ]
        # What is known of a file that was renamed goes to its new name at once: nothing loses it in between.
        moved = [
            step
            for step in steps
            if step.what in (What.DEPLOY, What.WANT) and step.before and step.before.key != step.known.key
        ]
        if not (noted or moved):
            return
        with self._database.transaction() as session:
            for step in noted:
                if step.what is What.FORGET:
                    forget(session, step.known)
                else:
                    record(session, step.before, step.known, head.commit, now)
            for step in moved:
                record(session, step.known, step.known, head.commit, now)

    def _take(self, step: Step, head: _Head, here: Present | None, now: float) -> BraidError | OSError | None:
        """Take a step; an error of this machine's is given back, as it says nothing of the file."""
        try:
            self._change(step, head, now)
        except (CutShortError, OSError) as error:
            self._log.warning("a file cannot be applied", path=step.known.path, error=str(error))
            return None if self._mirror.git.running.cancelled else error
        except BraidError as error:
            basis = basis_of(head.commit, here)
            rejected = step.known.rejected(said(error), error.hint, now, basis)
            with self._database.transaction() as session:
                record(session, step.before, rejected, head.commit, now)
        else:
            self._on_landed()
        return None

    def _change(self, step: Step, head: _Head, now: float) -> None:
        known, git = step.known, self._mirror.git
        if step.what is What.VOID:
            assert known.version is not None
            with self._database.transaction() as session:
                why = "the folder says something else by now"
                landing.void(session, known.application, known.version, why, now)
            return
        commits = git.commits(head.commit, known.accepted, head.sources[known.path].paths)
        if step.what is What.DEPLOY:
            read = head.read[known.path]
            self._applier.apply(step.before, known, read, head.commit, commits, now)
            return
        with self._database.transaction() as session:
            landing.want(session, known.application, step.desired, author(commits[0]), now)
            record(session, step.before, known, head.commit, now)
