"""What goes over HTTP of a folder in Git that the service follows."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from braid.client.models import Told


class FileState(StrEnum):
    """How a file of the folder and its application stand."""

    APPLIED = "applied"
    """What should run is what the file says."""
    WAITING = "waiting"
    """A version of it waits for approval."""
    PROBLEM = "problem"
    """It cannot be applied; the application goes on with what it has."""
    DRIFT = "drift"
    """Somebody has changed the application by hand since the file was applied."""
    CONFLICT = "conflict"
    """The application was deployed by hand, as something else, before the folder had it."""
    ORPHAN = "orphan"
    """The file is gone, and the application goes on."""

    @property
    def is_well(self) -> bool:
        """Whether nobody has to do anything but approve."""
        return self in (FileState.APPLIED, FileState.WAITING)


class FileInfo(Told):
    """A file of the folder.

    Parameters
    ----------
    path, application
        The program, and its application, as far as that is known.
    state, problem, hint
        How it stands, what is wrong, and what to do about it.
    version, commit
        What of it has landed last, and with which commit.
    """

    path: str
    application: str | None = None
    state: FileState
    problem: str | None = None
    hint: str | None = None
    version: int | None = None
    commit: str | None = None


class RepoInfo(Told):
    """The repository that is followed.

    Parameters
    ----------
    repo, branch, folder
        What is followed.
    commit
        The head of the branch, as it was seen last.
    looked
        When the repository was seen last.
    trouble
        Why it cannot be seen now; what is deployed goes on.
    files
        The files of the folder, and applications whose files are gone.
    """

    repo: str
    branch: str | None = None
    folder: str
    commit: str | None = None
    looked: float | None = None
    trouble: str | None = None
    files: list[FileInfo] = Field(default_factory=list)
