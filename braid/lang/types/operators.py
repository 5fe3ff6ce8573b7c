"""Types of operators and of other forms that are not functions."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from braid.lang import sql_types as types
from braid.lang.dialect import DIALECT
from braid.lang.types.arithmetic import SYMBOLS, arithmetic, bit_not, bits, negative
from braid.lang.types.calls import bind_call
from braid.lang.types.intervals import interval_length, interval_type
from braid.lang.types.type_variables import Term, known
from braid.lang.types.walk import Walk, article

_ORDER = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_EQUAL = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_TEXT = (exp.Like, exp.ILike, exp.RegexpLike)
_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift)
_INTERVALS = "write for example INTERVAL '90 seconds', INTERVAL '3 minutes' or INTERVAL '1 hour 30 minutes'"
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


def _literal(walk: Walk, node: exp.Literal) -> Term:
    return "string" if node.is_string else types.of_number(node.name)


def _paren(walk: Walk, node: exp.Expr) -> Term:
    return walk.of(node.this)


def _cast(walk: Walk, node: exp.Cast) -> Term:
    walk.of(node.this)
    found = types.from_sqlglot(node.args["to"])
    if found is None:
        name = node.args["to"].sql(DIALECT)
        walk.complain("PQL303", node, f"{name} is not a type", f"types are: {', '.join(types.NAMES)}")
    return found


def _connector(walk: Walk, node: exp.Expr) -> Term:
    word = node.key.upper()
    stack = [node]
    while stack:
        part = stack.pop()
        if type(part) is type(node) and isinstance(part, exp.Connector):
            stack += [part.expression, part.this]
        else:
            walk.expect(part, "boolean", word)
    return "boolean"


def _not(walk: Walk, node: exp.Not) -> Term:
    walk.expect(node.this, "boolean", "NOT")
    return "boolean"


def _comparison(walk: Walk, node: exp.Binary) -> Term:
    walk.relate(node.this, node.expression, _COMPARE.get(type(node), "="))
    return "boolean"


def _between(walk: Walk, node: exp.Between) -> Term:
    for bound in ("low", "high"):
        walk.relate(node.this, node.args[bound], "BETWEEN")
    return "boolean"


def _in(walk: Walk, node: exp.In) -> Term:
    for item in node.expressions:
        walk.relate(node.this, item, "IN")
    return "boolean"


def _is(walk: Walk, node: exp.Is) -> Term:
    if isinstance(node.expression, exp.Boolean):
        walk.expect(node.this, "boolean", "IS")
    else:
        walk.of(node.this)
    return "boolean"


def _text_match(walk: Walk, node: exp.Binary) -> Term:
    walk.expect(node.this, "string", "LIKE")
    walk.expect(node.expression, "string", "LIKE")
    return "boolean"


def _pipes(walk: Walk, node: exp.DPipe) -> Term:
    terms = [walk.of(side) for side in (node.this, node.expression)]
    if any(types.base(known(term) or "") == "array" for term in terms):
        return walk.relate(node.this, node.expression, "||")
    for side in (node.this, node.expression):
        walk.expect(side, "string", "||")
    return "string"


def _case(walk: Walk, node: exp.Case) -> Term:
    for branch in node.args["ifs"]:
        if node.this is not None:
            walk.relate(node.this, branch.this, "=")
        else:
            walk.expect(branch.this, "boolean", "CASE WHEN")
    values = [branch.args["true"] for branch in node.args["ifs"]]
    default = node.args.get("default")
    return walk.unify([*values, *([default] if default is not None else [])], "CASE")


def _if(walk: Walk, node: exp.If) -> Term:
    walk.expect(node.this, "boolean", "IF")
    parts = [node.args.get("true"), node.args.get("false")]
    return walk.unify([part for part in parts if part is not None], "IF")


def _interval(walk: Walk, node: exp.Interval) -> Term:
    if interval_length(node) is None:
        walk.complain("PQL407", node, "this interval cannot be read as a length of time", _INTERVALS)
    return interval_type(node)


def _extract(walk: Walk, node: exp.Extract) -> Term:
    walk.expect(node.expression, "time", "EXTRACT")
    return "decimal(8,6)" if node.this.name.upper().startswith("SEC") else "int"


def _string_form(walk: Walk, node: exp.Expr) -> Term:
    for name in ("this", "expression"):
        if isinstance(node.args.get(name), exp.Expr):
            walk.expect(node.args[name], "string", node.key.upper())
    for name in ("start", "length", "from_", "for_", "position"):
        if isinstance(node.args.get(name), exp.Expr):
            walk.expect(node.args[name], "int", node.key.upper())
    return "string"


def _position(walk: Walk, node: exp.StrPosition) -> Term:
    walk.expect(node.this, "string", "POSITION")
    walk.expect(node.args["substr"], "string", "POSITION")
    return "int"


def _bracket(walk: Walk, node: exp.Bracket) -> Term:
    holder = known(walk.of(node.this))
    for index in node.expressions:
        walk.of(index)
    if holder is None or types.base(holder) in ("array", "map"):
        return types.inner(holder)[-1] if holder is not None else None
    if holder != "variant":
        hint = "declare the column as ARRAY<...> or MAP<...> in CREATE INPUT TABLE"
        walk.complain("PQL302", node, f"[ ] takes an array or a map, but this is {article(holder)}", hint)
    return None


def _dot(walk: Walk, node: exp.Dot) -> Term:
    holder = known(walk.of(node.this))
    name = node.expression.name
    if holder is None:
        return None
    fields = types.struct_fields(holder)
    if types.base(holder) != "struct":
        hint = f"declare the column as STRUCT<{name}: type, ...> in CREATE INPUT TABLE"
        walk.complain("PQL302", node, f".{name} takes a struct, but this is {article(holder)}", hint)
    elif name.lower() not in fields:
        listing = f"fields are: {', '.join(fields)}"
        walk.complain("PQL202", node, f'the struct has no field "{name}"', listing)
    return fields.get(name.lower())


def _lambda(walk: Walk, node: exp.Lambda) -> Term:
    return walk.of(node.this)


def _constant(name: str) -> Callable[[Walk, exp.Expr], Term]:
    return lambda walk, node: name


FORMS: tuple[tuple[type | tuple[type, ...], Callable[..., Term]], ...] = (
    (exp.Literal, _literal),
    (exp.Paren, _paren),
    (exp.Anonymous, bind_call),
    ((exp.And, exp.Or), _connector),
    ((*_EQUAL, *_ORDER), _comparison),
    (exp.Between, _between),
    (tuple(SYMBOLS), arithmetic),
    (exp.Cast, _cast),
    (exp.Not, _not),
    (exp.In, _in),
    (exp.Is, _is),
    (_TEXT, _text_match),
    (exp.Escape, _paren),
    (exp.DPipe, _pipes),
    (exp.Neg, negative),
    (_BITS, bits),
    (exp.BitwiseNot, bit_not),
    (exp.Case, _case),
    (exp.If, _if),
    (exp.Interval, _interval),
    (exp.Extract, _extract),
    ((exp.Trim, exp.Substring, exp.Overlay), _string_form),
    (exp.StrPosition, _position),
    (exp.Bracket, _bracket),
    (exp.Dot, _dot),
    (exp.Lambda, _lambda),
    (exp.Boolean, _constant("boolean")),
    ((exp.RawString, exp.Concat), _constant("string")),
    (exp.HexString, _constant("binary")),
)
"""Which function gives the type of which form; the first that fits."""
