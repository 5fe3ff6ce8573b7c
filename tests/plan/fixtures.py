"""Pairs of programs in `tests/fixtures/plan/<rule>.sql`: before and after one rule.

A file holds cases. Each starts with `-- case: title`; `-- becomes` stands between the two programs.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent / "fixtures" / "plan"


class Pair(NamedTuple):
    title: str
    before: str
    after: str


def read(rule: str) -> list[Pair]:
    pairs = []
    for case in (ROOT / f"{rule}.sql").read_text().split("-- case: ")[1:]:
        title, _, programs = case.partition("\n")
        before, _, after = programs.partition("-- becomes\n")
        pairs.append(Pair(title, before.strip() + "\n", after.strip() + "\n"))
    return pairs


def write(rule: str, pairs: list[Pair]) -> None:
    text = "\n".join(f"-- case: {p.title}\n{p.before}\n-- becomes\n{p.after}" for p in pairs)
    (ROOT / f"{rule}.sql").write_text(text)
