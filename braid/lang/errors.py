"""Everything that can be wrong with a program: codes, places, rendering, and one exception for all of it."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from braid.core.errors import BraidError
from braid.lang.source import SourceText, Span

CODES = {
    "PQL100": "text that cannot be read: an open quote or comment, a stray character",
    "PQL101": "a token where another one is expected",
    "PQL102": "a statement that PQL does not have",
    "PQL103": "a program that is too large or too deeply nested",
    "PQL104": "an expression that PQL does not have",
    "PQL105": "no CREATE APPLICATION, or more than one",
    "PQL106": "a clause that is not supported in streaming queries",
    "PQL201": "a table or view that does not exist",
    "PQL202": "a column that does not exist",
    "PQL203": "a column name that several tables have",
    "PQL204": "a table or view name that is used twice",
    "PQL205": "a column name that is used twice",
    "PQL206": "views that read each other in a circle",
    "PQL207": "reading from a CREATE TABLE, which is an output",
    "PQL208": "an alias that is used twice in a FROM clause",
    "PQL209": "an output expression without a name",
    "PQL210": "a function that does not exist",
    "PQL211": "a function that reaches outside the query",
    "PQL212": "a function that gives another value on replay",
    "PQL213": "an aggregate, window or row-generating function",
    "PQL214": "a wrong number of arguments",
    "PQL215": "a name that is not valid or is reserved",
    "PQL301": "one column used as two types",
    "PQL302": "an operation on a type that it does not take",
    "PQL303": "a type that does not exist",
    "PQL304": "a type that cannot be inferred",
    "PQL401": "a join without a time bound",
    "PQL402": "a join with a time bound in one direction only",
    "PQL403": "a time bound that is not constant",
    "PQL404": "a time bound in months or years",
    "PQL405": "a time window that is empty",
    "PQL406": "a time bound on something that is not a timestamp",
    "PQL407": "an interval that cannot be read",
    "PQL408": "a kind of join that is not supported",
    "PQL409": "a match mode that does not exist",
    "PQL410": "a condition of a join that needs both sides at once",
    "PQL411": "a time-series join without a known event time",
    "PQL412": "an ASOF join without a comparison of two times",
    "PQL413": "a neighbour of a row that has none: INTERPOLATE, PREVIOUS or NEXT outside an ASOF join",
    "PQL414": "a LOOKUP that is not joined by its keys",
    "PQL415": "an operator that is called without what it needs, or beside a join",
    "PQL416": "a key of a type that has no equality: an array, a map, a struct or a variant",
    "PQL501": "an option that does not exist, or is given twice",
    "PQL502": "a value that an option does not take",
    "PQL503": "a source or storage that does not exist",
    "PQL504": "a source or storage without a needed argument",
    "PQL505": "two tables that write to the same place",
    "PQL901": "warning: an input table that nothing reads",
    "PQL902": "warning: a view that nothing reads",
    "PQL903": "warning: a program that stores nothing",
}
"""Stable codes and what they stand for."""

_MAX_SHOWN = 50
_MAX_WIDTH = 110


@dataclass(frozen=True)
class Note:
    """A second place that a message refers to."""

    span: Span
    message: str


@dataclass(frozen=True)
class Diagnostic:
    """One error or warning.

    Parameters
    ----------
    code
        One of `CODES`.
    message
        What is wrong, naming the offending value.
    span
        Where; the caret goes under it.
    hint
        What to do about it.
    notes
        Other places that matter, such as the first definition of a duplicate.
    """

    code: str
    message: str
    span: Span
    hint: str | None = None
    notes: tuple[Note, ...] = ()

    @property
    def warning(self) -> bool:
        """Whether the program is accepted nevertheless."""
        return self.code.startswith("PQL9")

    def render(self, source: SourceText) -> str:
        """The message with its place, its line, a caret and the hint."""
        kind = "warning" if self.warning else "error"
        parts = [
            f"{source.where(self.span)}: {kind} {self.code}: {self.message}",
            _excerpt(source, self.span),
        ]
        for note in self.notes:
            parts += [f"  {source.where(note.span)}: {note.message}", _excerpt(source, note.span)]
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


class PqlError(BraidError):
    """A program that does not compile; holds every error that was found in it."""

    def __init__(self, source: SourceText, diagnostics: Iterable[Diagnostic]) -> None:
        self.source = source
        self.diagnostics = tuple(sorted(diagnostics, key=lambda d: d.span))
        shown = [d.render(source) for d in self.diagnostics[:_MAX_SHOWN]]
        if len(self.diagnostics) > _MAX_SHOWN:
            shown.append(f"{source.filename}: and {len(self.diagnostics) - _MAX_SHOWN} more errors")
        super().__init__("\n\n".join(shown))


class ClauseError(Exception):
    """Raised inside the compiler to give up on one clause; becomes a diagnostic."""

    def __init__(self, code: str, span: Span, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(code, message, span, hint)


class Report:
    """Collects diagnostics, each once, while the compiler goes on."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self._found: dict[tuple[str, Span, str], Diagnostic] = {}
        self.error_count = 0
        """Errors so far; cheaper than counting `errors`."""

    def add(
        self, code: str, span: Span, message: str, hint: str | None = None, notes: Iterable[Note] = ()
    ) -> None:
        """Record an error or, with a code from PQL900 on, a warning."""
        self.record(Diagnostic(code, message, span, hint, tuple(notes)))

    def suggest(
        self, word: str, known: Iterable[str], *, listing: str | None = None, cutoff: float = 0.6
    ) -> str | None:
        """As the function `suggest`, but nothing any more once there are more errors than are shown."""
        if self.error_count >= _MAX_SHOWN:
            return None
        return suggest(word, known, listing=listing, cutoff=cutoff)

    def record(self, diagnostic: Diagnostic) -> None:
        """Record a finished diagnostic."""
        assert diagnostic.code in CODES
        key = (diagnostic.code, diagnostic.span, diagnostic.message)
        if key not in self._found:
            self._found[key] = diagnostic
            self.error_count += not diagnostic.warning

    @property
    def errors(self) -> list[Diagnostic]:
        """Errors so far, without warnings."""
        return [d for d in self._found.values() if not d.warning]

    @property
    def warnings(self) -> list[Diagnostic]:
        """Warnings so far."""
        return sorted((d for d in self._found.values() if d.warning), key=lambda d: d.span)

    def check(self) -> None:
        """Raise all errors found so far, if any."""
        if self.errors:
            raise PqlError(self.source, self.errors)


def suggest(
    word: str, known: Iterable[str], *, listing: str | None = None, cutoff: float = 0.6
) -> str | None:
    """A hint for a misspelt word: the nearest known one, and (with `listing`) all of them."""
    options = list(dict.fromkeys(known))
    by_lower = {option.lower(): option for option in options}
    near = difflib.get_close_matches(word.lower()[:80], by_lower, n=1, cutoff=cutoff)
    parts = [f"did you mean {by_lower[near[0]]}?"] if near else []
    if listing is not None:
        shown = ", ".join(options[:20]) + (", ..." if len(options) > 20 else "")
        parts.append(f"{listing}: {shown or 'none'}")
    return " ".join(parts) or None


def _excerpt(source: SourceText, span: Span) -> str:
    """The line of a span with carets under it, cut around the carets when the line is long."""
    number, column = source.place(span.start)
    line = source.line(number)
    start = min(column - 1, len(line))
    length = max(1, min(span.end - span.start, len(line) - start))
    first = max(0, start - _MAX_WIDTH // 2) if len(line) > _MAX_WIDTH else 0
    last = min(len(line), first + _MAX_WIDTH)
    length = max(1, min(length, last - start))
    before, after = ("..." if first else ""), ("..." if last < len(line) else "")
    shown = before + _printable(line[first:last]) + after
    pad = " " * (len(before) + _width(line[first:start]))
    carets = "^" * max(1, _width(line[start : start + length]))
    gutter = " " * len(str(number))
    return f"  {number} | {shown}".rstrip() + f"\n  {gutter} | {pad}{carets}"


def _printable(text: str) -> str:
    return "".join(" " if char == "\t" else char if char.isprintable() else "?" for char in text)


def _width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )
