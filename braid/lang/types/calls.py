"""Types of function calls: arguments against signatures, and the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp

from braid.lang import sql_types as types
from braid.lang.dialect import type_from_text
from braid.lang.types import functions
from braid.lang.types.type_variables import Term, known
from braid.lang.types.walk import Walk

_LETTER = re.compile(r"\b[TKV]\b")
_OPERATIONS = {
    "mod": "%",
    "pmod": "%",
    "try_mod": "%",
    "try_add": "+",
    "try_subtract": "-",
    "try_multiply": "*",
    "try_divide": "/",
}


def bind_call(walk: Walk, node: exp.Anonymous) -> Term:
    """The type of a call, after using each argument as its signature says."""
    name, arguments = node.name.lower(), node.expressions
    signature = _choose(walk, name, arguments)
    if signature is None:
        for argument in arguments:
            walk.of(argument)
        return None
    bound: dict[str, list[exp.Expr]] = {}
    letters: dict[str, Term] = {}
    for pattern, argument in zip(signature.patterns(len(arguments)), arguments, strict=True):
        kind, _, letter = pattern.partition(":")
        if kind in ("T", "K", "V"):
            bound.setdefault(kind, []).append(argument)
        elif "<" in kind:
            _bind_nested(walk, argument, kind, letters, name)
        elif kind in ("any", "lambda", "unit"):
            walk.of(argument)
        else:
            walk.expect(argument, kind, name.upper())
            if letter:
                bound.setdefault(letter, []).append(argument)
    for letter, nodes in bound.items():
        own = walk.unify(nodes, name.upper())
        outer = known(letters.get(letter))
        if outer is None:
            letters[letter] = own
        elif not types.compatible(outer, known(own)):
            text = f"{name.upper()} takes a {outer} here, as the elements are, but this is a {known(own)}"
            walk.complain("PQL301", nodes[0], text, f"CAST it to {outer.upper()}")
    special = _RESULTS.get(name)
    if special is not None:
        return special(walk, arguments, letters)
    return _result(signature.result, letters)


def _choose(walk: Walk, name: str, arguments: Sequence[exp.Expr]) -> functions.Signature | None:
    fitting = [s for s in functions.signatures().get(name, ()) if s.accepts(len(arguments))]
    if len(fitting) > 1:
        root = types.base(known(walk.of(arguments[0])) or "")
        fitting = [s for s in fitting if types.base(s.parameters[0].pattern) == root] or fitting
    return fitting[0] if fitting else None


def _bind_nested(walk: Walk, argument: exp.Expr, pattern: str, letters: dict[str, Term], name: str) -> None:
    found = known(walk.of(argument))
    if found is None:
        return
    if types.base(found) != types.base(pattern):
        wanted = types.base(pattern)
        hint = f"declare the column as {wanted.upper()}<...> in CREATE INPUT TABLE"
        text = f"{name.upper()} takes {'an' if wanted == 'array' else 'a'} {wanted}, but this is a {found}"
        walk.complain("PQL302", argument, text, hint)
        return
    for part, inner in zip(types.inner(pattern), types.inner(found), strict=True):
        if part in ("T", "K", "V"):
            letters.setdefault(part, inner)
        elif part == "array<T>" and types.base(inner) == "array":
            letters.setdefault("T", types.inner(inner)[0])


def literal_decimal(node: exp.Expr, own: str, other: str) -> str:
    """An integer literal beside a decimal counts only the digits that it has."""
    literal = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    return f"decimal({min(len(node.name), 38)},0)" if literal and types.base(other) == "decimal" else own


def _result(pattern: str, letters: dict[str, Term]) -> Term:
    if pattern == "?":
        return None
    if pattern in letters:
        return letters[pattern]
    needed = _LETTER.findall(pattern)
    found = {letter: known(letters.get(letter)) for letter in needed}
    if any(value is None for value in found.values()):
        return None
    return _LETTER.sub(lambda match: str(found[match[0]]), pattern)


def _whole(walk: Walk, arguments: Sequence[exp.Expr], letters: dict[str, Term]) -> Term:
    """CEIL and FLOOR."""
    number = known(walk.of(arguments[0]))
    if number is None or len(arguments) > 1:
        return "bigint" if len(arguments) == 1 else None
    if types.base(number) == "decimal":
        precision, scale = map(int, re.findall(r"\d+", number))
        return f"decimal({min(precision - scale + 1, 38)},0)"
    return "bigint"


def _round(walk: Walk, arguments: Sequence[exp.Expr], letters: dict[str, Term]) -> Term:
    number = known(walk.of(arguments[0]))
    if number is None or types.base(number) != "decimal":
        return letters.get("T")
    digits = 0
    if len(arguments) > 1:
        if not isinstance(arguments[1], exp.Literal):
            return None
        digits = int(arguments[1].name) if arguments[1].name.isdigit() else 0
    precision, scale = map(int, re.findall(r"\d+", number))
    kept = min(scale, digits)
    return f"decimal({min(precision - scale + 1 + kept, 38)},{kept})"


def _shift(walk: Walk, arguments: Sequence[exp.Expr], letters: dict[str, Term]) -> Term:
    return "bigint" if known(walk.of(arguments[0])) in ("bigint", None) else "int"


def _zero_if_null(walk: Walk, arguments: Sequence[exp.Expr], letters: dict[str, Term]) -> Term:
    return types.common(known(walk.of(arguments[0])) or "double", "int")


def _operation(symbol: str) -> Callable[[Walk, Sequence[exp.Expr], dict[str, Term]], Term]:
    def result(walk: Walk, arguments: Sequence[exp.Expr], letters: dict[str, Term]) -> Term:
        left, right = (known(walk.of(argument)) or "double" for argument in arguments)
        left, right = literal_decimal(arguments[0], left, right), literal_decimal(arguments[1], right, left)
        numbers = all(types.family(side) is types.Family.NUMBER for side in (left, right))
        return types.arithmetic(symbol, left, right) if numbers else None

    return result


def _concat(walk: Walk, arguments: Sequence[exp.Expr], letters: dict[str, Term]) -> Term:
    if arguments and types.base(known(walk.of(arguments[0])) or "") == "array":
        return walk.unify(arguments, "CONCAT")
    for argument in arguments:
        walk.expect(argument, "string", "CONCAT")
    return "string"


def _reverse(walk: Walk, arguments: Sequence[exp.Expr], letters: dict[str, Term]) -> Term:
    found = known(walk.of(arguments[0]))
    return found if types.base(found or "") == "array" else "string"


def _map(walk: Walk, arguments: Sequence[exp.Expr], letters: dict[str, Term]) -> Term:
    """MAP(key, value, key, value, ...)."""
    if not arguments or len(arguments) % 2:
        return None
    parts = [known(walk.unify(arguments[i::2], "MAP")) for i in (0, 1)]
    return None if None in parts else f"map<{parts[0]},{parts[1]}>"


def _parsed(walk: Walk, arguments: Sequence[exp.Expr], letters: dict[str, Term]) -> Term:
    """FROM_JSON and its relatives: the type is what the schema, if it is a literal, says."""
    schema = arguments[1]
    if not isinstance(schema, exp.Literal) or not schema.is_string:
        return None
    for text in (schema.name, f"STRUCT<{schema.name}>"):
        parsed = type_from_text(text)
        found = types.from_sqlglot(parsed) if parsed is not None else None
        if found is not None:
            return found
    return None


def _struct(walk: Walk, arguments: Sequence[exp.Expr], letters: dict[str, Term]) -> Term:
    fields = []
    for number, argument in enumerate(arguments, 1):
        value = argument.this if isinstance(argument, exp.Alias) else argument
        fields.append((argument.alias_or_name or f"col{number}", known(walk.of(value))))
    return _struct_of(fields)


def _named_struct(walk: Walk, arguments: Sequence[exp.Expr], letters: dict[str, Term]) -> Term:
    if len(arguments) % 2 or not all(isinstance(name, exp.Literal) for name in arguments[::2]):
        return None
    names, values = arguments[::2], arguments[1::2]
    return _struct_of([(n.name, known(walk.of(v))) for n, v in zip(names, values, strict=True)])


def _struct_of(fields: Sequence[tuple[str, str | None]]) -> str | None:
    if not fields or any(kind is None or not re.fullmatch(r"\w+", name) for name, kind in fields):
        return None
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in fields)}>"


_RESULTS: dict[str, Callable[[Walk, Sequence[exp.Expr], dict[str, Term]], Term]] = {
    **{name: _operation(symbol) for name, symbol in _OPERATIONS.items()},
    **dict.fromkeys(("ceil", "ceiling", "floor"), _whole),
    **dict.fromkeys(("shiftleft", "shiftright", "shiftrightunsigned"), _shift),
    "zeroifnull": _zero_if_null,
    "nullif": lambda walk, arguments, letters: walk.of(arguments[0]),
    **dict.fromkeys(("round", "bround"), _round),
    **dict.fromkeys(("from_json", "from_csv", "from_xml"), _parsed),
    "concat": _concat,
    "reverse": _reverse,
    "map": _map,
    "struct": _struct,
    "named_struct": _named_struct,
}
