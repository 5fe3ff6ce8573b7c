"""The programs of a commit: which files there are, what they hold, and what is wrong with them."""

from __future__ import annotations

import hashlib
import os
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from braid import api
from braid.client.models import Desired, Program
from braid.core.config import parse_options
from braid.core.errors import BraidError, ConfigError
from braid.core.logging import Log
from braid.plan.stages.base import Plan
from braid.service.decide.follow import Content, File
from braid.service.repo.asked import MOST_BYTES, Asked, read_asked
from braid.service.repo.git import Entry

PROGRAM, SETTINGS = ".sql", ".yaml"
_MOST_FILES = 1000
_MOST_PROGRAM_BYTES = 1 << 20
_LONGEST_NAME = 150
_LONGEST_TEXT = 4000
_LFS = b"version https://git-lfs.github.com/spec/"
_SUBMODULE, _LINK = "160000", "120000"

Blobs = Callable[[Iterable[str]], Mapping[str, bytes]]
"""Tells what blobs hold, by their hashes."""


@dataclass(frozen=True)
class Source:
    """A program and its settings, as they are in a commit.

    Parameters
    ----------
    path
        Of the program, as it is shown: with no character that cannot be printed.
    paths
        Of both files, as Git has them.
    content
        Their hashes.
    problem, hint
        Why they cannot be read, if so.
    """

    path: str
    paths: tuple[str, ...]
    content: Content
    problem: str | None = None
    hint: str | None = None


@dataclass(frozen=True)
class Read:
    """What a program and its settings say, or what is wrong with them."""

    program: Program | None = None
    plan: Plan | None = None
    """With its options."""
    asked: Asked = field(default_factory=Asked)
    application: str | None = None
    problem: str | None = None
    hint: str | None = None


def sources(entries: Iterable[Entry], folder: str) -> list[Source]:
    """The programs of a folder, by name; `ConfigError` if there are more than anybody has."""
    found = {entry.name: entry for entry in entries if not entry.name.startswith(".")}
    programs = sorted(name for name in found if name.endswith(PROGRAM))
    if len(programs) > _MOST_FILES:
        raise ConfigError(f"{folder or '.'} has {len(programs):,} programs; {_MOST_FILES:,} may be followed")
    told = [
        _source(found[name], found.get(name.removesuffix(PROGRAM) + SETTINGS), folder) for name in programs
    ]
    for name in sorted(found):
        stem, _, ending = name.rpartition(".")
        if ending == "yml" and f"{stem}{PROGRAM}" in found:
            told.append(_stray(found[name], folder, "it is not read", f"call it {_shown(stem)}{SETTINGS}"))
        elif ending == "yaml" and f"{stem}{PROGRAM}" not in found:
            what = f"there is no {_shown(stem)}{PROGRAM} beside it"
            told.append(_stray(found[name], folder, what, "remove it, or put the program there"))
    return told


class Reader:
    """Reads programs, each content once.

    Parameters
    ----------
    blobs
        Tells what blobs hold.
    log
        Where bugs are told that a program finds.
    """

    def __init__(self, blobs: Blobs, log: Log) -> None:
        self._blobs = blobs
        self._log = log
        self._known: dict[tuple[str, Content], Read] = {}

    def read(self, found: Iterable[Source]) -> dict[str, Read]:
        """What programs say, by path."""
        wanted = {(source.path, source.content): source for source in found if source.problem is None}
        new = [key for key in wanted if key not in self._known]
        hashes = [hash_ for _, content in new for hash_ in (content.program, content.settings) if hash_]
        held = self._blobs(hashes)
        for key in new:
            self._known[key] = self._read(wanted[key], held)
        self._known = {key: self._known[key] for key in wanted}
        return {path: read for (path, _), read in self._known.items()}

    def _read(self, source: Source, held: Mapping[str, bytes]) -> Read:
        application = None
        try:
            text = _text(held[source.content.program], source.path)
            plan = api.compile_text(text, source.path).plan
            application = plan.application
            asked = Asked()
            if source.content.settings:
                path = settings_path(source.path)
                asked = read_asked(_text(held[source.content.settings], path), path)
            options = parse_options({**dict(plan.options), **asked.options})
        except BraidError as error:
            return Read(application=application, problem=said(error), hint=error.hint)
        except Exception as error:  # noqa: BLE001  a program that finds a bug must not end the service, for ever
            self._log.error("a program finds a bug", path=source.path, traceback=traceback.format_exc())
            return Read(problem=f"it finds a bug: {type(error).__name__}; see the service's log")
        program = Program(program=text, options=asked.options, resources=asked.resources)
        return Read(program, plan.with_options(options), asked, application)


def settings_path(path: str) -> str:
    """The YAML file beside a program."""
    return path.removesuffix(PROGRAM) + SETTINGS


def check_folder(text: str) -> str:
    """A folder as Git names it, which is empty for the root; `ConfigError` if it cannot be one."""
    found = PurePosixPath(text.strip("/"))
    if text.startswith("/") or ".." in found.parts or not text.isprintable() or len(text) > _LONGEST_NAME:
        raise ConfigError(
            f"{text!r} is not a folder of a repository", hint="name it from the repository's root: apps"
        )
    return "" if found == PurePosixPath() else str(found)


def file_of(source: Source, read: Read | None) -> File:
    """A program, as decisions see it."""
    if read is None:
        return File(source.path, source.content, problem=source.problem, hint=source.hint)
    desired = Desired(read.asked.desired)
    return File(source.path, source.content, read.application, read.problem, read.hint, desired)


def _source(program: Entry, settings: Entry | None, folder: str) -> Source:
    entries = [(program, _MOST_PROGRAM_BYTES)] + ([] if settings is None else [(settings, MOST_BYTES)])
    path = _shown(_join(folder, program.name))
    paths = tuple(_join(folder, entry.name) for entry, _ in entries)
    content = Content(program.hash, "" if settings is None else settings.hash)
    if path != paths[0] or len(program.name) > _LONGEST_NAME:
        what = "its name is too long, or has characters that cannot be printed"
        # No other file has the same key, whatever its name looks like.
        key = f"{path[:_LONGEST_NAME]} ({hashlib.sha256(os.fsencode(paths[0])).hexdigest()[:8]})"
        return Source(key, paths, content, what, "give it another name")
    for entry, most in entries:
        wrong = _wrong(entry, most)
        if wrong is not None:
            return Source(
                path, paths, content, f"{_join(folder, entry.name)} {wrong}", "put the file itself there"
            )
    return Source(path, paths, content)


def _stray(entry: Entry, folder: str, problem: str, hint: str) -> Source:
    path = _join(folder, entry.name)
    shown = _shown(path)[:_LONGEST_NAME]
    if shown != path:
        shown += f" ({hashlib.sha256(os.fsencode(path)).hexdigest()[:8]})"
    return Source(shown, (path,), Content("", entry.hash), problem, hint)


def _wrong(entry: Entry, most: int) -> str | None:
    if entry.mode == _LINK:
        return "is a symbolic link, which is not followed"
    if entry.mode == _SUBMODULE:
        return "is a submodule, which is not followed"
    if entry.kind != "blob":
        return "is a folder"
    return f"has {entry.size:,} bytes; at most {most:,} are read" if entry.size > most else None


def _text(held: bytes, path: str) -> str:
    if held.startswith(_LFS):
        raise ConfigError(
            "it is kept by Git LFS, which is not used", where=path, hint="commit the file itself"
        )
    try:
        text = held.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"it is not UTF-8: {error.reason} at byte {error.start}", where=path) from None
    if "\0" in text:
        raise ConfigError("it has a byte that is zero, as no text has", where=path)
    return text


def said(error: BraidError) -> str:
    """What is wrong, and where; the hint is told apart."""
    return (f"{error.where}: {error.what}" if error.where else error.what)[:_LONGEST_TEXT]


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _shown(text: str) -> str:
    return "".join(
        char if char.isprintable() and not "\ud800" <= char <= "\udfff" else f"\\x{ord(char) & 0xFF:02x}"
        for char in text
    )
