"""A bare copy of one branch of a repository, which is brought up to date, and can be thrown away."""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from braid.core.errors import ConfigError
from braid.service.repo.git import CutShortError, Git, RepoError, is_installed, shown

_HEAD = "refs/braid/head"
_LOOK_SECONDS = 25.0
_FETCH_SECONDS = 600.0
_SHA256 = 64
"""Digits of a hash in repositories that use it."""
_PASSWORD = re.compile(r"[^/]*://[^/@]*:[^/]*@")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://|(?:[^/:@\s]+@)?[^/:\s]+:", re.IGNORECASE)
"""A URL, or `user@host:path` as SSH has it."""


@dataclass(frozen=True)
class Remote:
    """What is followed.

    Parameters
    ----------
    url
        An absolute path, or a URL.
    branch
        None for whatever its HEAD is.
    """

    url: str = field(repr=False)
    branch: str | None

    @classmethod
    def of(cls, repo: str, branch: str | None) -> Remote:
        """What the settings say; `ConfigError` if that cannot be."""
        if not is_installed():
            raise ConfigError("a folder in Git needs the program git", hint="install Git 2.25 or newer")
        if _PASSWORD.match(repo):
            raise ConfigError(
                f"the URL {shown(repo)} has a password in it, which others could read",
                hint="use SSH, or a credential helper of Git's: see `git help credentials`",
            )
        path = Path(repo).expanduser()
        if path.exists():
            found = cls(str(path.resolve()), branch)
        elif _URL.match(repo) and not repo.startswith("-"):
            found = cls(repo, branch)
        else:
            raise ConfigError(
                f"there is no repository {shown(repo)}", hint="a folder on this machine, or a URL"
            )
        git = Git(path)
        if branch is not None:
            try:
                git.run("check-ref-format", f"refs/heads/{branch}", seconds=_LOOK_SECONDS)
            except RepoError:
                raise ConfigError(f"{branch!r} is not the name of a branch") from None
        if found.is_local:
            try:
                git.run("ls-remote", "--quiet", "--", found.url, "HEAD", seconds=_LOOK_SECONDS)
            except RepoError as error:
                raise ConfigError(
                    f"{found.shown} is not a repository that can be read: {error.what}", hint=error.hint
                ) from None
        return found

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return self.url.startswith("/")

    @property
    def shown(self) -> str:
        """Without secrets."""
        return shown(self.url)


class Mirror:
    """The copy.

    Parameters
    ----------
    folder
        For copies; those of other repositories are removed.
    remote
        What is followed.
    """

    def __init__(self, folder: Path, remote: Remote) -> None:
        name = hashlib.sha256(f"{remote.url}\0{remote.branch or ''}".encode()).hexdigest()[:16]
        self.git = Git(folder / f"{name}.git")
        self.remote = remote
        self.branch = remote.branch
        """The branch, once it is known."""
        if folder.is_dir():
            for other in folder.iterdir():
                if other != self.git.folder:
                    shutil.rmtree(other, ignore_errors=True)

    def head(self) -> str | None:
        """The commit that was fetched last."""
        if not (self.git.folder / "HEAD").exists():
            return None
        try:
            return (
                self.git.run("rev-parse", "--verify", f"{_HEAD}^{{commit}}", seconds=_LOOK_SECONDS)
                .decode()
                .strip()
            )
        except RepoError:
            return None

    def look(self) -> str:
        """The head of the branch, of which all is here then; `RepoError` if that cannot be had."""
        there = self._remote_head()
        if self.head() == there:
            return there
        try:
            self._fetch(self.git, there)
        except CutShortError:
            raise
        except RepoError:
            # The other side has just answered, so it may well be the copy that is damaged.
            self._fetch_anew(there)
        found = self.head()
        if found is None:
            raise RepoError("what was fetched is not a commit")
        return found

    def drop(self) -> None:
        """Throw the copy away, as it is damaged."""
        shutil.rmtree(self.git.folder, ignore_errors=True)

    def _remote_head(self) -> str:
        wanted = f"refs/heads/{self.remote.branch}" if self.remote.branch else "HEAD"
        refs = self._refs("--symref", wanted)
        if wanted in refs:
            self.branch = self.remote.branch or refs[""].removeprefix("refs/heads/") or None
            return refs[wanted]
        heads = [name.removeprefix("refs/heads/") for name in self._refs("--heads")]
        if self.remote.branch is None:
            raise RepoError("the repository's HEAD has no commit yet", hint=_branches(heads))
        raise RepoError(f"the repository has no branch {self.remote.branch!r}", hint=_branches(heads))

    def _refs(self, option: str, *patterns: str) -> dict[str, str]:
        """References of the remote, with their commits; and under an empty name what its HEAD stands for."""
        output = self.git.run(
            "ls-remote", "--quiet", option, "--", self.remote.url, *patterns, seconds=_LOOK_SECONDS
        )
        found = {"": ""}
        for line in output.decode(errors="replace").splitlines():
            value, _, name = line.partition("\t")
            if value.startswith("ref: "):
                found[""] = value.removeprefix("ref: ")
            else:
                found[name] = value
        return found

    def _fetch_anew(self, there: str) -> None:
        """Fetch all, and let go of the copy that there is only when that is done."""
        fresh = self.git.beside(self.git.folder.with_suffix(".new"))
        shutil.rmtree(fresh.folder, ignore_errors=True)
        try:
            self._fetch(fresh, there)
            self.drop()
            fresh.folder.rename(self.git.folder)
        finally:
            shutil.rmtree(fresh.folder, ignore_errors=True)

    def _fetch(self, git: Git, there: str) -> None:
        if not (git.folder / "HEAD").exists():
            git.folder.parent.mkdir(parents=True, exist_ok=True)
            form = ["--object-format=sha256"] if len(there) == _SHA256 else []
            git.run("init", "--quiet", "--bare", "--template=", *form, seconds=_LOOK_SECONDS)
        ref = f"refs/heads/{self.remote.branch}" if self.remote.branch else "HEAD"
        options = ["--quiet", "--prune", "--no-tags", "--no-recurse-submodules"]
        git.run("fetch", *options, "--", self.remote.url, f"+{ref}:{_HEAD}", seconds=_FETCH_SECONDS)


def _branches(names: list[str]) -> str:
    found = sorted(name for name in names if name)
    return f"branches: {', '.join(found[:20]) or 'none'}" + (", ..." if len(found) > 20 else "")
