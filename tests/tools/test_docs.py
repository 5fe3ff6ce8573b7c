"""The documentation names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    named = set(re.findall(r"`(?:braid/)?([a-z_]+/[\w/]*(?:\.\w+)?)`", page.read_text()))
    folders = {path.name for path in (ROOT / "braid").iterdir() if path.is_dir()} | {"tests", "tools", "docs"}
    paths = {name for name in named if name.split("/")[0] in folders}
    missing = {name for name in paths if not ((ROOT / "braid" / name).exists() or (ROOT / name).exists())}
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())]
    missing = {t for t in targets if t and "://" not in t and not (page.parent / t).exists()}
    assert not missing
