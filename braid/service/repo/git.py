"""Runs Git so that nothing in a repository runs, nobody is asked for anything, and nothing takes forever."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from braid.core.errors import BraidError

_KEPT = (
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
)
"""Variables of Git that say how a repository is reached. Others may lead it to another repository."""
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.useReplaceRefs=false",
    "fetch.recurseSubmodules=false",
    "gc.autoDetach=false",
    "i18n.logOutputEncoding=UTF-8",
    "log.showSignature=false",
    "submodule.recurse=false",
)
_PROTOCOLS = "file:git:http:https:ssh"
"""Not `ext`, which runs a command."""
_ERROR = re.compile(r"^(?:fatal|error|remote|ssh): *(.+)$", re.MULTILINE)
_SECRET = re.compile(r"(?<=://)[^/\s]+(?=@)")
_LONGEST_TEXT = 500
_SECONDS = 60.0
"""For what reads the copy only."""
_MOST_COMMITS = 100
_FORM = "--format=%H%x00%an%x00%ae%x00%(trailers:key=Co-authored-by,valueonly,separator=%x01)%x02"


class RepoError(BraidError):
    """A repository cannot be read."""


class CutShortError(RepoError):
    """Git was ended: it has taken too long, or the service ends."""


@dataclass(frozen=True)
class Entry:
    """What is in a folder of a commit; a name that is not UTF-8 holds surrogates."""

    mode: str
    kind: str
    hash: str
    size: int
    name: str


@dataclass(frozen=True)
class Commit:
    """Who has made a commit."""

    id: str
    name: str
    email: str
    helpers: tuple[str, ...] = ()
    """Names and addresses of those who are said to have written it, too."""


class Running:
    """The process that runs, if any; and whether any may."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.cancelled = False

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a process, in a session of its own: it has no terminal, and ends with all that it starts."""
        with self._lock:
            if self.cancelled:
                raise CutShortError("the service ends")
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
            return self._process

    def cancel(self) -> None:
        """End what runs, and let nothing more run."""
        with self._lock:
            self.cancelled = True
            if self._process is not None and self._process.returncode is None:
                _kill(self._process)


class Git:
    """Runs Git for one bare repository.

    Parameters
    ----------
    folder
        The bare repository.
    running
        Shared with others that are cancelled with it.
    """

    def __init__(self, folder: Path, running: Running | None = None) -> None:
        self.folder = folder
        self.running = running or Running()

    def beside(self, folder: Path) -> Git:
        """The same for another repository."""
        return Git(folder, self.running)

    def run(
        self,
        *arguments: str,
        seconds: float,
        given: bytes | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> bytes:
        """What a command prints; `RepoError` if it fails, or takes longer."""
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        command = ["git", f"--git-dir={self.folder}", *settings, *arguments]
        try:
            process = self.running.start(command, _environment() | dict(environment or {}))
        except FileNotFoundError:
            raise RepoError("git is not installed", hint="install Git 2.25 or newer") from None
        try:
            output, errors = process.communicate(given, seconds)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.communicate()
            raise CutShortError(f"git {arguments[0]} has not ended within {seconds:g} s") from None
        if process.returncode == 0:
            return output
        if self.running.cancelled:
            raise CutShortError("the service ends")
        raise RepoError(f"git {arguments[0]}: {_said(errors)}", hint=_hint(errors))

    # -- reading ----------------------------------------------------------------------------------

    def tree(self, commit: str, path: str) -> list[Entry]:
        """What is in a folder, if there is one; an empty path is the repository's root."""
        treeish = commit
        if path:
            found = _entries(
                self.run("ls-tree", "-z", "-l", "--full-tree", commit, "--", path, seconds=_SECONDS)
            )
            folders = [entry.hash for entry in found if (entry.kind, entry.name) == ("tree", path)]
            if not folders:
                return []
            treeish = folders[0]
        return _entries(self.run("ls-tree", "-z", "-l", "--full-tree", treeish, seconds=_SECONDS))

    def blobs(self, hashes: Iterable[str]) -> dict[str, bytes]:
        """What blobs hold."""
        wanted = list(dict.fromkeys(hashes))
        if not wanted:
            return {}
        output = self.run(
            "cat-file", "--batch", seconds=_SECONDS, given="".join(f"{h}\n" for h in wanted).encode()
        )
        found, at = {}, 0
        for hash_ in wanted:
            end = output.index(b"\n", at)
            header = output[at:end].split()
            if len(header) != 3:
                raise RepoError(f"blob {hash_} is missing from the copy of the repository")
            size = int(header[2])
            found[hash_] = output[end + 1 : end + 1 + size]
            at = end + 1 + size + 1
        return found

    def commits(self, head: str, since: str | None, paths: Sequence[str]) -> list[Commit]:
        """Commits that have changed some paths since another commit, newest first; at least the last one."""
        if since is not None and not self._has(since):
            since = None  # gone after a force-push
        found = self._log(*([] if since is None else [f"^{since}"]), head, "--", *paths)
        return found or self._log("-n1", head, "--", *paths) or self._log("-n1", head, "--")

    def _has(self, commit: str) -> bool:
        try:
            self.run("cat-file", "-e", f"{commit}^{{commit}}", seconds=_SECONDS)
        except CutShortError:
            raise
        except RepoError:
            return False
        return True

    def _log(self, *arguments: str) -> list[Commit]:
        literally = {"GIT_LITERAL_PATHSPECS": "1"}
        output = self.run(
            "log", f"-n{_MOST_COMMITS}", _FORM, *arguments, seconds=_SECONDS, environment=literally
        )
        return [_commit(part) for part in output.decode(errors="replace").split("\x02") if "\0" in part]


def shown(url: str) -> str:
    """A URL, or what Git says, without secrets."""
    return _SECRET.sub("***", url)


def is_installed() -> bool:
    """Whether there is a `git` to run."""
    return shutil.which("git") is not None


def _environment() -> dict[str, str]:
    # What is the service's own, as the password of its registry, is nothing to programs that Git starts.
    foreign = ("GIT_", "BRAID_")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(foreign) or name in _KEPT}
    return kept | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "LC_ALL": "C.UTF-8",
        "LANGUAGE": "",
    }


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _said(errors: bytes) -> str:
    """What Git says is wrong, in a line."""
    text = errors.decode(errors="replace")
    lines = [line.strip() for line in _ERROR.findall(text)] or [line.strip() for line in text.splitlines()]
    said = "; ".join(dict.fromkeys(line for line in lines if line)) or "failed, and has not said why"
    return shown("".join(char if char.isprintable() else " " for char in said))[:_LONGEST_TEXT]


def _hint(errors: bytes) -> str | None:
    if b"dubious ownership" in errors:
        return "it belongs to another user: see safe.directory in `git help config`"
    if b"could not read Username" in errors or b"Authentication failed" in errors:
        return "nobody is asked for a password: see `git help credentials`, or use SSH"
    return None


def _entries(output: bytes) -> list[Entry]:
    found = []
    for line in output.split(b"\0"):
        if line:
            facts, _, name = line.partition(b"\t")
            mode, kind, hash_, size = facts.decode().split()
            found.append(Entry(mode, kind, hash_, int(size) if size != "-" else 0, os.fsdecode(name)))
    return found


def _commit(part: str) -> Commit:
    id_, name, email, helpers = part.strip("\n").split("\0")
    names = [text for helper in helpers.split("\x01") for text in re.split("[<>]", helper)]
    return Commit(id_, _clean(name), _clean(email), tuple(found for text in names if (found := _clean(text))))


def _clean(text: str) -> str:
    return "".join(char for char in text if char.isprintable()).strip()[:120]
