"""Program text and places in it."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Span(NamedTuple):
    """A stretch of the program: character offsets, `end` not included."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """From the start of this one to the end of the other."""
        return Span(min(self.start, other.start), max(self.end, other.end))


class Place(NamedTuple):
    """A line and a column, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class SourceText:
    """The text of a program, and what to call it in messages."""

    text: str
    filename: str = "<pql>"

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(i + 1 for i, char in enumerate(self.text) if char == "\n")]

    def place(self, offset: int) -> Place:
        """Line and column of a character."""
        line = bisect.bisect_right(self._starts, offset)
        return Place(line, offset - self._starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """The text of a line, without its end."""
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r")

    def where(self, span: Span) -> str:
        """`file:line:column` of the start of a span."""
        place = self.place(span.start)
        return f"{self.filename}:{place.line}:{place.column}"
