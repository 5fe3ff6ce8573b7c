"""The documentation names files and headings that exist, and all that dead letters give as a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from braid.core.side import Side
from braid.kernels.lost import Loss
from braid.kernels.operator import INPUT

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"])
LINKED = [*PAGES, *sorted((ROOT / "bench").rglob("README.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    named = set(re.findall(r"`(?:braid/)?([a-z_]+/[\w/]*(?:\.\w+)?)`", page.read_text()))
    folders = {path.name for path in (ROOT / "braid").iterdir() if path.is_dir()} | {"tests", "tools", "docs"}
    paths = {name for name in named if name.split("/")[0] in folders}
    missing = {name for name in paths if not ((ROOT / "braid" / name).exists() or (ROOT / name).exists())}
    assert not missing


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = set(re.findall(r"\]\(([^)\s]+)\)", page.read_text()))
    assert {link for link in links if "://" not in link and not leads_somewhere(page, link)} == set()


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def anchors(page: Path) -> set[str]:
    """What the headings of a page are linked by, as GitHub makes it of their words."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_anchors_are_those_of_headings(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n```sh\n# a comment\n```\n## Figure 8: one week, [-3 h]\n### `two` words\n")
    assert anchors(page) == {"one", "figure-8-one-week--3-h", "two-words"}
    assert leads_somewhere(page, "#one")
    assert leads_somewhere(tmp_path / "other.md", "page.md#two-words")
    assert not leads_somewhere(page, "#a-comment")
    assert not leads_somewhere(page, "missing.md")


def test_every_reason_of_a_dead_letter_is_explained() -> None:
    code = "".join(path.read_text() for path in sorted((ROOT / "braid").rglob("*.py")))
    reasons = set(re.findall(r'\b_note\(\s*"(\w+)"', code))
    reasons |= set(re.findall(r'^\w+ = "(\w+)"\n"""Reason of ', code, re.MULTILINE))
    assert {"malformed_json", "malformed_csv", "missing_field"} <= reasons
    reasons |= {loss.reason(side) for loss in Loss for side in Side} | {Loss.LATE.reason(INPUT)}
    page = (ROOT / "docs" / "running.md").read_text()
    section = page.partition("\n## Dead letters\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    assert {reason for row in rows for reason in re.findall(r"`(\w+)`", row)} == reasons
