"""Type variables: columns without a declared type, and what their uses say about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from braid.lang import sql_types as types
from braid.lang.errors import Note, Report
from braid.lang.source import Span


class Strength(IntEnum):
    """How much a use says: any value can be read as text, few can be shifted by an interval."""

    TEXT = 1
    """Passed where text is expected, into which Spark casts everything."""
    USE = 2
    """An operand of arithmetic, an argument of a function, compared with a literal."""
    CERTAIN = 3
    """Compared with a column of known type, shifted by an interval, or used as a condition."""


@dataclass(frozen=True)
class Evidence:
    """One use of a column: where it is and the type that it speaks for."""

    strength: Strength
    type: str
    span: Span
    why: str


@dataclass(eq=False)
class Variable:
    """The unknown type of a column; columns that must have the same type share one."""

    label: str
    parent: Variable | None = None
    evidence: list[Evidence] = field(default_factory=list)
    guess: str | None = None

    def root(self) -> Variable:
        """The variable that stands for all that are known to be equal."""
        node = self
        while node.parent is not None:
            node = node.parent
        if self is not node:
            self.parent = node
        return node

    def unite(self, other: Variable) -> None:
        """Make two variables equal."""
        left, right = self.root(), other.root()
        if left is not right:
            right.parent = left
            left.evidence += right.evidence
            left.guess = left.guess or right.guess

    def add(self, evidence: Evidence) -> None:
        """Record a use."""
        self.root().evidence.append(evidence)

    def decide(self) -> tuple[str | None, Evidence | None]:
        """The type that the evidence so far speaks for, and the use that decided it."""
        best: Evidence | None = None
        for strength in sorted(Strength, reverse=True):
            for item in self.root().evidence:
                if item.strength is not strength:
                    continue
                if best is None:
                    best = item
                elif best.strength is strength:
                    best = _wider(best, item)
            if best is not None:
                return best.type, best
        return None, None

    def report_conflict(self, report: Report) -> bool:
        """Report two certain uses that no one type can serve; whether there were any."""
        certain = [item for item in self.root().evidence if item.strength is Strength.CERTAIN]
        for first in certain[:1]:
            other = next((item for item in certain if not types.compatible(first.type, item.type)), None)
            if other is not None:
                report.add(
                    "PQL301",
                    other.span,
                    f'"{self.label}" is {other.why}, but it is {first.why} elsewhere',
                    "declare its type in CREATE INPUT TABLE and CAST it where another one is needed",
                    [Note(first.span, f"here it is {first.why}")],
                )
                return True
        return False


def _wider(first: Evidence, second: Evidence) -> Evidence:
    both = types.common(first.type, second.type)
    return second if both == second.type and both != first.type else first


Term = str | Variable | None
"""The type of an expression: known, that of a variable, or not known."""


def known(term: Term) -> str | None:
    """The type that a term has, as far as it is known by now."""
    return term.root().guess if isinstance(term, Variable) else term
