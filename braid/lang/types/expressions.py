"""The type of every expression.

The same walk serves two purposes. While types are being inferred, columns may be variables, and their uses
are collected as evidence. Afterwards every column has a type, and operations that do not fit are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from sqlglot import exp

from braid.lang import sql_types as types
from braid.lang.dialect import DIALECT, span_of
from braid.lang.errors import Note, Report
from braid.lang.source import Span
from braid.lang.sql_types import Family
from braid.lang.types.operators import FORMS
from braid.lang.types.type_variables import Evidence, Strength, Term, Variable
from braid.lang.types.walk import article


class Typer:
    """Gives types to expressions of one SELECT.

    Parameters
    ----------
    lookup
        The type of a resolved column.
    fallback
        The place to report when an expression does not know its own.
    report
        Where to report misfits; None while types are being inferred.
    origin
        Why a column has the type it has, for notes.
    """

    def __init__(
        self,
        lookup: Callable[[exp.Column], Term],
        fallback: Span,
        report: Report | None = None,
        origin: Callable[[exp.Column], Note | None] = lambda column: None,
    ) -> None:
        self._lookup = lookup
        self.fallback = fallback
        self.report = report
        self._origin = origin
        self._seen: dict[int, Term] = {}

    def of(self, node: exp.Expr) -> Term:
        """The type of an expression; None when it is not known."""
        key = id(node)
        if key not in self._seen:
            term = self._lookup(node) if isinstance(node, exp.Column) else _form(self, node)
            self._seen[key] = term
            if self.report is not None and isinstance(term, str):
                node.type = _data_type(term)
        return self._seen[key]

    def span(self, node: exp.Expr) -> Span:
        """Where an expression is."""
        return span_of(node) or self.fallback

    def expect(self, node: exp.Expr, kind: str, user: str) -> Term:
        """Use an expression as a `number`, `string`, `boolean`, `time`, `interval` or as a named type."""
        term = self.of(node)
        if isinstance(term, Variable):
            evidence = _EVIDENCE.get(kind, (Strength.USE, kind))
            if evidence is not None:
                why = f"used as {article(evidence[1])} by {user}"
                term.add(Evidence(*evidence, self.span(node), why))
        elif term is not None and not _fits(kind, term):
            hint = f"CAST it to {'DOUBLE' if kind == 'number' else kind.upper()}"
            if kind == "boolean":
                hint = "write a condition, such as a comparison"
            elif kind == "number" and types.family(term) is Family.TIME:
                hint = "shift times with an INTERVAL, or CAST to a number first"
            elif kind == "timestamp" and types.family(term) is Family.NUMBER:
                hint = "declare it without a type and name it with TIME, or use TIMESTAMP_SECONDS(...)"
            self.complain(
                "PQL302", node, f"{user} takes {article(kind)}, but this is {article(term)}", hint, [node]
            )
        return term

    def relate(self, left: exp.Expr, right: exp.Expr, user: str, *, literals: bool = True) -> Term:
        """Two expressions that must have a common type; gives that type.

        `literals` says whether a string literal may stand for a time, as in a comparison.
        """
        first, second = self.of(left), self.of(right)
        if isinstance(first, Variable) and isinstance(second, Variable):
            first.unite(second)
            return first
        for variable, other, node in ((first, second, right), (second, first, left)):
            if isinstance(variable, Variable):
                if isinstance(other, str):
                    place = self.span(left if node is right else right)
                    variable.add(
                        self._compared(other, node, user, place, exact=user in ("=", "<>", "IN", "<=>"))
                    )
                return variable
        assert not isinstance(first, Variable)
        assert not isinstance(second, Variable)
        if types.compatible(first, second):
            return types.common(first, second)
        if literals and _literal_time(left, second):
            return second
        if literals and _literal_time(right, first):
            return first
        text = f"{user} needs operands of one type, not {article(str(first))} and {article(str(second))}"
        target = first if first == "string" else second
        self.complain("PQL301", left, text, f"CAST one side, for example to {target}", [left, right], right)
        return None

    def unify(self, nodes: Sequence[exp.Expr], user: str) -> Term:
        """Several expressions of which one is chosen: branches of CASE, arguments of COALESCE."""
        anchor = next((node for node in nodes if self.of(node) is not None), None)
        if anchor is None:
            return None
        result = self.of(anchor)
        for node in nodes:
            if node is not anchor:
                term = self.relate(anchor, node, user, literals=False)
                result = term if isinstance(term, Variable) else _merge(result, term)
        return result

    def complain(
        self,
        code: str,
        node: exp.Expr,
        message: str,
        hint: str | None = None,
        about: Sequence[exp.Expr] = (),
        until: exp.Expr | None = None,
    ) -> None:
        """Report a misfit, and why the columns in `about` have their types; nothing while inferring."""
        if self.report is None:
            return
        notes = []
        for operand in about:
            column = operand.unnest()
            note = self._origin(column) if isinstance(column, exp.Column) else None
            if note is not None and note.span != self.span(node):
                notes.append(note)
        span = self.span(node).to(self.span(until)) if until is not None else self.span(node)
        self.report.add(code, span, message, hint, notes)

    def _compared(self, other: str, node: exp.Expr, user: str, span: Span, *, exact: bool) -> Evidence:
        literal = node.unnest()
        if isinstance(literal, exp.Neg):
            literal = literal.this
        if not isinstance(literal, exp.Literal):
            return Evidence(Strength.CERTAIN, other, span, f"used as {article(other)} with {user}")
        kind = other
        if types.family(other) is Family.NUMBER:
            # `x = 3` suggests a whole number; `x > 3` holds for fractions, too.
            kind = "bigint" if exact and other in types.INTEGERS else "double"
        return Evidence(Strength.USE, kind, span, f"used as {article(kind)} with {user}")


def _form(walk: Typer, node: exp.Expr) -> Term:
    method = next((method for kinds, method in FORMS if isinstance(node, kinds)), None)
    return None if method is None else method(walk, node)


@cache
def _data_type(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect=DIALECT)


def _merge(first: Term, second: Term) -> Term:
    if isinstance(first, Variable):
        return first
    assert not isinstance(second, Variable)
    return types.common(first, second)


def _literal_time(node: exp.Expr, other: str | None) -> bool:
    """Whether a string literal stands for a time here, as in `t > '2024-01-01'`."""
    literal = node.unnest()
    is_text = isinstance(literal, exp.Literal) and literal.is_string
    return is_text and other is not None and types.family(other) is Family.TIME


def _fits(kind: str, term: str) -> bool:
    family = types.family(term)
    if kind == "string":
        return family is not Family.OTHER or term == "binary"
    if kind in ("time", "date"):
        return family in (Family.TIME, Family.STRING)
    if kind in ("timestamp", "timestamp_ntz"):
        return family is Family.TIME
    if kind == "number" or types.family(kind) is Family.NUMBER:
        return family is Family.NUMBER
    if kind in ("boolean", "interval"):
        return family is Family(kind)
    if kind == "collection":
        return types.base(term) in ("array", "map")
    return kind != "binary" or family in (Family.STRING, Family.OTHER)


_EVIDENCE: dict[str, tuple[Strength, str] | None] = {
    "number": (Strength.USE, "double"),
    "string": (Strength.TEXT, "string"),
    "boolean": (Strength.CERTAIN, "boolean"),
    "time": (Strength.USE, "timestamp"),
    "timestamp": (Strength.CERTAIN, "timestamp"),
    "interval": None,
    "collection": None,
    "any": None,
}
