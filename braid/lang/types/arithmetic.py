"""Types of arithmetic: numbers, and times shifted by intervals."""

from __future__ import annotations

from sqlglot import exp

from braid.lang import sql_types as types
from braid.lang.sql_types import Family
from braid.lang.types.calls import literal_decimal
from braid.lang.types.type_variables import Term, Variable, known
from braid.lang.types.walk import Walk, article

SYMBOLS = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "DIV"}


def arithmetic(walk: Walk, node: exp.Binary) -> Term:
    """`left + right` and the other operators on numbers, times and intervals."""
    symbol = SYMBOLS[type(node)]
    left, right = walk.of(node.this), walk.of(node.expression)
    kinds = [types.family(k) if (k := known(term)) is not None else None for term in (left, right)]
    if Family.INTERVAL in kinds:
        return _shift(walk, node, symbol, left, right, kinds)
    if Family.TIME in kinds:
        return _difference(walk, node, symbol, left, right, kinds)
    for side in (node.this, node.expression):
        walk.expect(side, "number", symbol)
    if symbol == "DIV":
        return "bigint"
    numbers = [known(term) or "double" for term in (left, right)]
    if any(types.family(number) is not Family.NUMBER for number in numbers):
        return None
    first = literal_decimal(node.this, numbers[0], numbers[1])
    return types.arithmetic(symbol, first, literal_decimal(node.expression, numbers[1], numbers[0]))


def _shift(
    walk: Walk, node: exp.Binary, symbol: str, left: Term, right: Term, kinds: list[Family | None]
) -> Term:
    """Arithmetic with an interval: `time + interval`, `interval * number` and so on."""
    interval = known(left) if kinds[0] is Family.INTERVAL else known(right)
    if symbol in ("*", "/"):
        number = node.expression if kinds[0] is Family.INTERVAL else node.this
        if kinds[0] is not kinds[1] and not (symbol == "/" and number is node.this):
            walk.expect(number, "number", symbol)
            return interval
    elif symbol in ("+", "-"):
        if kinds[0] is kinds[1]:
            return interval
        if symbol == "+" or kinds[1] is Family.INTERVAL:
            time = node.this if kinds[1] is Family.INTERVAL else node.expression
            walk.expect(time, "timestamp", f"{symbol} INTERVAL")
            return "timestamp"
    sides = [article(known(term) or "column") for term in (left, right)]
    walk.complain("PQL302", node, f"{symbol} does not take {sides[0]} and {sides[1]}")
    return None


def _difference(
    walk: Walk, node: exp.Binary, symbol: str, left: Term, right: Term, kinds: list[Family | None]
) -> Term:
    """Arithmetic with a time and no interval: only differences of times, and dates and days."""
    if symbol == "-" and all(kind in (Family.TIME, None) for kind in kinds):
        for side, term in ((node.this, left), (node.expression, right)):
            if isinstance(term, Variable):
                walk.expect(side, "timestamp", "-")
        return types.INTERVAL
    if symbol in ("+", "-") and known(left) == "date" and kinds[1] is Family.NUMBER:
        return "date"
    sides = [article(known(term) or "column") for term in (left, right)]
    shift = symbol in ("+", "-") and Family.NUMBER in kinds
    unit = "write INTERVAL '10 seconds' instead of a number" if shift else None
    walk.complain(
        "PQL302",
        node,
        f"{symbol} does not take {sides[0]} and {sides[1]}",
        unit,
        [node.this, node.expression],
    )
    return None


def negative(walk: Walk, node: exp.Neg) -> Term:
    """`-x` of a number or an interval."""
    term = walk.of(node.this)
    if types.family(known(term) or "") is Family.INTERVAL:
        return known(term)
    walk.expect(node.this, "number", "-")
    return term


def bits(walk: Walk, node: exp.Binary) -> Term:
    """Operations on the bits of whole numbers."""
    for side in (node.this, node.expression):
        walk.expect(side, "bigint", "a bit operation")
    return types.common(known(walk.of(node.this)), known(walk.of(node.expression)))


def bit_not(walk: Walk, node: exp.BitwiseNot) -> Term:
    """`~x`."""
    return walk.expect(node.this, "bigint", "~")
