"""Which expressions PQL accepts: known forms and functions that are safe to run, and to run again."""

from __future__ import annotations

from sqlglot import exp

from braid.lang.dialect import span_of
from braid.lang.errors import Report
from braid.lang.source import Span
from braid.lang.types import functions

_FORMS = (
    *(
        exp.Column,
        exp.Identifier,
        exp.Literal,
        exp.Null,
        exp.Boolean,
        exp.Paren,
        exp.RawString,
        exp.HexString,
    ),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ),
    *(exp.NullSafeNEQ, exp.Between, exp.In, exp.Is, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg, exp.BitwiseAnd, exp.BitwiseOr),
    *(
        exp.BitwiseXor,
        exp.BitwiseNot,
        exp.BitwiseLeftShift,
        exp.BitwiseRightShift,
        exp.DPipe,
        exp.Case,
        exp.If,
    ),
    *(exp.Cast, exp.DataType, exp.DataTypeParam, exp.ColumnDef, exp.Interval, exp.IntervalSpan, exp.Var),
    *(
        exp.Anonymous,
        exp.Extract,
        exp.Trim,
        exp.Substring,
        exp.StrPosition,
        exp.Overlay,
        exp.Bracket,
        exp.Dot,
    ),
    *(exp.Lambda, exp.Concat),
)
_SUBQUERIES = (exp.Query, exp.Exists)
_WINDOWS = (exp.Window, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_NO_SUBQUERY = "give the inner query a name with CREATE VIEW and join it with a time window"
_MANY_ROWS_HINT = "aggregates over streams are not supported yet: store the rows and aggregate them there"


def check_expression(tree: exp.Expr, fallback: Span, report: Report) -> bool:
    """Report every form and function in `tree` that PQL does not accept; whether there was none."""
    before = report.error_count
    for node in tree.walk():
        if isinstance(node, _SUBQUERIES) or (isinstance(node, exp.In) and node.args.get("query")):
            report.add("PQL106", span_of(node) or fallback, "subqueries are not supported", _NO_SUBQUERY)
            break
        if isinstance(node, _WINDOWS):
            report.add(
                "PQL213", span_of(node) or fallback, "window functions are not supported", _MANY_ROWS_HINT
            )
            break
        if isinstance(node, exp.Anonymous):
            _check_function(node, node.name, span_of(node) or fallback, report)
        elif isinstance(node, exp.Alias):
            if not (isinstance(node.parent, exp.Anonymous) and node.parent.name.lower() == "struct"):
                text = "a name with AS is not expected inside an expression"
                report.add("PQL101", span_of(node) or fallback, text)
        elif not isinstance(node, _FORMS):
            _refuse(node, span_of(node) or fallback, report)
    return report.error_count == before


def _refuse(node: exp.Expr, span: Span, report: Report) -> None:
    if isinstance(node, exp.Func):
        # CURRENT_TIMESTAMP and the like, which need no parentheses.
        _check_function(node, node.sql_name(), span, report)
    elif isinstance(node, exp.Star):
        if node.parent is not None and node.parent.name.lower() in functions.MANY_ROWS:
            return
        report.add("PQL104", span, "* is not expected inside an expression", "name the columns")
    elif isinstance(node, exp.Placeholder | exp.Parameter | exp.SessionParameter):
        report.add("PQL104", span, "parameters are not supported", "write the value")
    elif isinstance(node, exp.Tuple):
        report.add(
            "PQL104", span, "a list of values in parentheses is not expected here", "compare one by one"
        )
    else:
        report.add(
            "PQL104",
            span,
            f"{node.key.upper()} expressions are not supported",
            "PQL has the operators and functions of Spark SQL; see docs/language.md",
        )


def _check_function(node: exp.Expr, name: str, span: Span, report: Report) -> None:
    key = name.lower()
    place = Span(span.start, min(span.end, span.start + len(name)))
    if key in functions.OUTSIDE:
        report.add(
            "PQL211",
            place,
            f"function {key} reaches outside the query and is not allowed",
            "publish what it would return as a column of the stream",
        )
    elif key in functions.REPLAY or (key == "unix_timestamp" and not node.expressions):
        report.add(
            "PQL212",
            place,
            f"function {key} gives another value when rows are replayed after a failure",
            "use the event time, or publish the value as a column of the stream",
        )
    elif key in functions.MANY_ROWS:
        report.add("PQL213", place, f"function {key} is not a function of one row", _MANY_ROWS_HINT)
    elif key not in functions.signatures():
        hint = (
            report.suggest(key, functions.signatures(), cutoff=0.7)
            or "PQL has the built-in functions of Spark SQL"
        )
        report.add("PQL210", place, f"function {key} does not exist", hint)
    else:
        _check_count(node, key, place, report)


def _check_count(node: exp.Expr, key: str, place: Span, report: Report) -> None:
    count = len(node.expressions)
    found = functions.signatures()[key]
    if not any(signature.accepts(count) for signature in found):
        wanted = " or ".join(dict.fromkeys(signature.counts() for signature in found))
        plural = "argument" if wanted == "1" else "arguments"
        report.add("PQL214", place, f"function {key} takes {wanted} {plural}, not {count}")


def mark_units(tree: exp.Expr) -> exp.Expr:
    """A copy in which bare words such as MINUTE in `timestampadd(MINUTE, 3, t)` are no longer columns."""
    tree = tree.copy()
    for call in tree.find_all(exp.Anonymous):
        found = functions.signatures().get(call.name.lower(), ())
        arguments = call.expressions
        for signature in found:
            if not signature.accepts(len(arguments)):
                continue
            for pattern, argument in zip(signature.patterns(len(arguments)), arguments, strict=True):
                if pattern == "unit" and isinstance(argument, exp.Column) and len(argument.parts) == 1:
                    argument.replace(exp.Var(this=argument.name.upper()))
    return tree
