"""The type of every expression.

The same walk serves two purposes. While types are being inferred, columns may be variables, and their uses
are collected as evidence. Afterwards every column has a type, and operations that do not fit are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from sqlglot import exp

from braid.lang import types
from braid.lang.calls import bind_call, literal_decimal
from braid.lang.dialect import DIALECT, span_of
from braid.lang.errors import Note, Report
from braid.lang.evidence import Evidence, Strength, Term, Variable, known
from braid.lang.intervals import interval_type
from braid.lang.source import Span
from braid.lang.types import Family

_ORDER = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_EQUAL = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_TEXT = (exp.Like, exp.ILike, exp.RegexpLike)
_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift)
_SYMBOLS = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "DIV"}


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
            method = next((method for kinds, method in _METHODS if isinstance(node, kinds)), None)
            term = None if method is None else method(self, node)
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
                why = f"used as {_article(evidence[1])} by {user}"
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
                "PQL302", node, f"{user} takes {_article(kind)}, but this is {_article(term)}", hint, [node]
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
        text = f"{user} needs operands of one type, not {_article(str(first))} and {_article(str(second))}"
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
            return Evidence(Strength.CERTAIN, other, span, f"used as {_article(other)} with {user}")
        kind = other
        if types.family(other) is Family.NUMBER:
            # An equality is with a code or a count; anything else may well have a fraction.
            kind = "bigint" if exact and other in types.INTEGERS else "double"
        return Evidence(Strength.USE, kind, span, f"used as {_article(kind)} with {user}")

    def _column(self, node: exp.Column) -> Term:
        return self._lookup(node)

    def _literal(self, node: exp.Literal) -> Term:
        return "string" if node.is_string else types.of_number(node.name)

    def _paren(self, node: exp.Expr) -> Term:
        return self.of(node.this)

    def _cast(self, node: exp.Cast) -> Term:
        self.of(node.this)
        found = types.from_sqlglot(node.args["to"])
        if found is None:
            name = node.args["to"].sql(DIALECT)
            self.complain("PQL303", node, f"{name} is not a type", f"types are: {', '.join(types.NAMES)}")
        return found

    def _connector(self, node: exp.Expr) -> Term:
        word = node.key.upper()
        stack = [node]
        while stack:
            part = stack.pop()
            if type(part) is type(node) and isinstance(part, exp.Connector):
                stack += [part.expression, part.this]
            else:
                self.expect(part, "boolean", word)
        return "boolean"

    def _not(self, node: exp.Not) -> Term:
        self.expect(node.this, "boolean", "NOT")
        return "boolean"

    def _comparison(self, node: exp.Binary) -> Term:
        self.relate(node.this, node.expression, _COMPARE.get(type(node), "="))
        return "boolean"

    def _between(self, node: exp.Between) -> Term:
        for bound in ("low", "high"):
            self.relate(node.this, node.args[bound], "BETWEEN")
        return "boolean"

    def _in(self, node: exp.In) -> Term:
        for item in node.expressions:
            self.relate(node.this, item, "IN")
        return "boolean"

    def _is(self, node: exp.Is) -> Term:
        if isinstance(node.expression, exp.Boolean):
            self.expect(node.this, "boolean", "IS")
        else:
            self.of(node.this)
        return "boolean"

    def _text_match(self, node: exp.Binary) -> Term:
        self.expect(node.this, "string", "LIKE")
        self.expect(node.expression, "string", "LIKE")
        return "boolean"

    def _pipes(self, node: exp.DPipe) -> Term:
        terms = [self.of(side) for side in (node.this, node.expression)]
        if any(types.base(known(term) or "") == "array" for term in terms):
            return self.relate(node.this, node.expression, "||")
        for side in (node.this, node.expression):
            self.expect(side, "string", "||")
        return "string"

    def _arithmetic(self, node: exp.Binary) -> Term:
        symbol = _SYMBOLS[type(node)]
        left, right = self.of(node.this), self.of(node.expression)
        kinds = [types.family(k) if (k := known(term)) is not None else None for term in (left, right)]
        if Family.INTERVAL in kinds:
            return self._shift(node, symbol, left, right, kinds)
        if Family.TIME in kinds:
            return self._difference(node, symbol, left, right, kinds)
        for side in (node.this, node.expression):
            self.expect(side, "number", symbol)
        if symbol == "DIV":
            return "bigint"
        numbers = [known(term) or "double" for term in (left, right)]
        if any(types.family(number) is not Family.NUMBER for number in numbers):
            return None
        first = literal_decimal(node.this, numbers[0], numbers[1])
        return types.arithmetic(symbol, first, literal_decimal(node.expression, numbers[1], numbers[0]))

    def _shift(
        self, node: exp.Binary, symbol: str, left: Term, right: Term, kinds: list[Family | None]
    ) -> Term:
        """Arithmetic with an interval: `time + interval`, `interval * number` and so on."""
        interval = known(left) if kinds[0] is Family.INTERVAL else known(right)
        if symbol in ("*", "/"):
            number = node.expression if kinds[0] is Family.INTERVAL else node.this
            if kinds[0] is not kinds[1] and not (symbol == "/" and number is node.this):
                self.expect(number, "number", symbol)
                return interval
        elif symbol in ("+", "-"):
            if kinds[0] is kinds[1]:
                return interval
            if symbol == "+" or kinds[1] is Family.INTERVAL:
                time = node.this if kinds[1] is Family.INTERVAL else node.expression
                self.expect(time, "timestamp", f"{symbol} INTERVAL")
                return "timestamp"
        sides = [_article(known(term) or "column") for term in (left, right)]
        self.complain("PQL302", node, f"{symbol} does not take {sides[0]} and {sides[1]}")
        return None

    def _difference(
        self, node: exp.Binary, symbol: str, left: Term, right: Term, kinds: list[Family | None]
    ) -> Term:
        """Arithmetic with a time and no interval: only differences of times, and dates and days."""
        if symbol == "-" and all(kind in (Family.TIME, None) for kind in kinds):
            for side, term in ((node.this, left), (node.expression, right)):
                if isinstance(term, Variable):
                    self.expect(side, "timestamp", "-")
            return types.INTERVAL
        if symbol in ("+", "-") and known(left) == "date" and kinds[1] is Family.NUMBER:
            return "date"
        sides = [_article(known(term) or "column") for term in (left, right)]
        shift = symbol in ("+", "-") and Family.NUMBER in kinds
        unit = "write INTERVAL '10 seconds' instead of a number" if shift else None
        self.complain(
            "PQL302",
            node,
            f"{symbol} does not take {sides[0]} and {sides[1]}",
            unit,
            [node.this, node.expression],
        )
        return None

    def _negative(self, node: exp.Neg) -> Term:
        term = self.of(node.this)
        if types.family(known(term) or "") is Family.INTERVAL:
            return known(term)
        self.expect(node.this, "number", "-")
        return term

    def _bits(self, node: exp.Binary) -> Term:
        for side in (node.this, node.expression):
            self.expect(side, "bigint", "a bit operation")
        return types.common(known(self.of(node.this)), known(self.of(node.expression)))

    def _bit_not(self, node: exp.BitwiseNot) -> Term:
        return self.expect(node.this, "bigint", "~")

    def _case(self, node: exp.Case) -> Term:
        for branch in node.args["ifs"]:
            if node.this is not None:
                self.relate(node.this, branch.this, "=")
            else:
                self.expect(branch.this, "boolean", "CASE WHEN")
        values = [branch.args["true"] for branch in node.args["ifs"]]
        default = node.args.get("default")
        return self.unify([*values, *([default] if default is not None else [])], "CASE")

    def _if(self, node: exp.If) -> Term:
        self.expect(node.this, "boolean", "IF")
        parts = [node.args.get("true"), node.args.get("false")]
        return self.unify([part for part in parts if part is not None], "IF")

    def _interval(self, node: exp.Interval) -> Term:
        return interval_type(node)

    def _extract(self, node: exp.Extract) -> Term:
        self.expect(node.expression, "time", "EXTRACT")
        return "decimal(8,6)" if node.this.name.upper().startswith("SEC") else "int"

    def _string_form(self, node: exp.Expr) -> Term:
        for name in ("this", "expression"):
            if isinstance(node.args.get(name), exp.Expr):
                self.expect(node.args[name], "string", node.key.upper())
        for name in ("start", "length", "from_", "for_", "position"):
            if isinstance(node.args.get(name), exp.Expr):
                self.expect(node.args[name], "int", node.key.upper())
        return "string"

    def _position(self, node: exp.StrPosition) -> Term:
        self.expect(node.this, "string", "POSITION")
        self.expect(node.args["substr"], "string", "POSITION")
        return "int"

    def _bracket(self, node: exp.Bracket) -> Term:
        holder = known(self.of(node.this))
        for index in node.expressions:
            self.of(index)
        if holder is None or types.base(holder) in ("array", "map"):
            return types.inner(holder)[-1] if holder is not None else None
        if holder != "variant":
            hint = "declare the column as ARRAY<...> or MAP<...> in CREATE INPUT TABLE"
            self.complain(
                "PQL302", node, f"[ ] takes an array or a map, but this is {_article(holder)}", hint
            )
        return None

    def _dot(self, node: exp.Dot) -> Term:
        holder = known(self.of(node.this))
        name = node.expression.name
        if holder is None:
            return None
        fields = types.struct_fields(holder)
        if types.base(holder) != "struct":
            hint = f"declare the column as STRUCT<{name}: type, ...> in CREATE INPUT TABLE"
            self.complain("PQL302", node, f".{name} takes a struct, but this is {_article(holder)}", hint)
        elif name.lower() not in fields:
            listing = f"fields are: {', '.join(fields)}"
            self.complain("PQL202", node, f'the struct has no field "{name}"', listing)
        return fields.get(name.lower())

    def _lambda(self, node: exp.Lambda) -> Term:
        return self.of(node.this)

    def _call(self, node: exp.Anonymous) -> Term:
        return bind_call(self, node)


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


def _article(name: str) -> str:
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"


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
_COMPARE = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "<=>",
}


def _constant(name: str) -> Callable[[Typer, exp.Expr], Term]:
    return lambda typer, node: name


_METHODS: tuple[tuple[type | tuple[type, ...], Callable[..., Term]], ...] = (
    (exp.Column, Typer._column),
    (exp.Literal, Typer._literal),
    (exp.Paren, Typer._paren),
    (exp.Anonymous, Typer._call),
    ((exp.And, exp.Or), Typer._connector),
    ((*_EQUAL, *_ORDER), Typer._comparison),
    (exp.Between, Typer._between),
    (tuple(_SYMBOLS), Typer._arithmetic),
    (exp.Cast, Typer._cast),
    (exp.Not, Typer._not),
    (exp.In, Typer._in),
    (exp.Is, Typer._is),
    (_TEXT, Typer._text_match),
    (exp.Escape, Typer._paren),
    (exp.DPipe, Typer._pipes),
    (exp.Neg, Typer._negative),
    (_BITS, Typer._bits),
    (exp.BitwiseNot, Typer._bit_not),
    (exp.Case, Typer._case),
    (exp.If, Typer._if),
    (exp.Interval, Typer._interval),
    (exp.Extract, Typer._extract),
    ((exp.Trim, exp.Substring, exp.Overlay), Typer._string_form),
    (exp.StrPosition, Typer._position),
    (exp.Bracket, Typer._bracket),
    (exp.Dot, Typer._dot),
    (exp.Lambda, Typer._lambda),
    (exp.Boolean, _constant("boolean")),
    ((exp.RawString, exp.Concat), _constant("string")),
    (exp.HexString, _constant("binary")),
)
