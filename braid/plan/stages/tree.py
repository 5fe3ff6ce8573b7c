"""A tree of lines, as explain draws it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Node:
    """A line of the tree and what hangs below it."""

    text: str
    children: list[Node] = field(default_factory=list)

    def lines(self, first: str = "", rest: str = "") -> Iterator[str]:
        """The subtree, drawn with box characters."""
        yield f"{first}{self.text}"
        for position, child in enumerate(self.children, start=1):
            last = position == len(self.children)
            yield from child.lines(f"{rest}{'└─ ' if last else '├─ '}", f"{rest}{'   ' if last else '│  '}")
