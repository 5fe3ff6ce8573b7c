"""Which files programs may read and write: what is deployed runs with the rights of whoever serves."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from braid.core.config import AppConfig
from braid.core.connectors import SourceKind
from braid.home.paths import Home
from braid.log.layout import check_name
from braid.plan.physical.targets import TableTarget, target_of
from braid.plan.stages.base import Plan
from braid.service.errors import ServiceError

OWN = "files"
"""The folder of a home that programs may always use."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_GLOB = re.compile(r"[*?\[\]{}\\]")


def check_folders(home: Home, plan: Plan, options: AppConfig, folders: Sequence[str]) -> None:
    """Refuse a plan that reads or writes files outside of the folders that the settings name.

    Names of categories and tables cannot lead out of the home, which is checked here if nowhere before.
    """
    for stage in plan.stages:
        for kind, name in stage.sources():
            if SourceKind(kind).connector.logged:
                check_name(name, "category")
    allowed = [str(home.root / OWN), str(home.root / "warehouse"), *folders]
    for what, path in paths(plan, options):
        if not any(is_within(path, folder, home.root) for folder in allowed):
            raise ServiceError(
                f"{what} is outside of the folders that programs may use",
                where=path,
                hint=f"use {home.root / OWN}, or name another one in the setting `folders` of the service",
            )


def paths(plan: Plan, options: AppConfig) -> Iterator[tuple[str, str]]:
    """All paths that a program says, and what for."""
    for stage in plan.stages:
        for kind, name in stage.sources():
            if SourceKind(kind) is SourceKind.FILES:
                yield f"what {stage.name!r} reads", name
        target = target_of(plan.application, stage, options)
        if isinstance(target, TableTarget) and target.path is not None:
            yield f"what {stage.name!r} writes", target.path


def is_within(path: str, folder: str, base: Path) -> bool:
    """Whether all that a path or a pattern stands for is in a folder; relative ones are of a base folder.

    Links in the part before the first wildcard are followed. Nothing else is guessed at: what may lead up
    again, be escaped or be of another filesystem is not within.
    """
    if "\0" in path or "\\" in path or ".." in re.split(r"[/{},]", path):
        return False
    if _SCHEME.match(path) or _SCHEME.match(folder):
        plain = folder.rstrip("/")
        return path == plain or path.startswith(f"{plain}/")
    fixed = path[: found.start()].rpartition("/")[0] if (found := _GLOB.search(path)) else path
    if path.startswith("/") and not fixed:
        fixed = "/"
    inside, outside = Path(os.path.realpath(base / fixed)), Path(os.path.realpath(base / folder))
    return inside.is_relative_to(outside)
