"""Small tools over typed expressions: build, substitute, split, print. Nothing here changes its argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sqlglot import exp

from braid.lang.query import Condition, OutputColumn
from braid.lang.source import Span
from braid.plan.names import column_name, quote

Replace = Callable[[exp.Column], exp.Expr | None]
"""What to put in the place of a column; None leaves it as it is."""

_OPERATORS = (exp.Binary, exp.Unary, exp.Between, exp.In, exp.Interval, exp.Lambda)
_CLOSED = (exp.Paren, exp.Dot)


def data_type(name: str) -> exp.DataType:
    """The sqlglot form of a Spark SQL type name."""
    return exp.DataType.build(name, dialect="spark")


def column(name: str, relation: str, type_: str) -> exp.Column:
    """A reference to a column of a relation."""
    node = exp.Column(this=exp.to_identifier(name), table=exp.to_identifier(relation))
    node.type = data_type(type_)
    return node


def cast(expression: exp.Expr, type_: str) -> exp.Expr:
    """The expression as another type."""
    node = exp.Cast(this=expression.copy(), to=data_type(type_))
    node.type = data_type(type_)
    return node


def columns_of(expression: exp.Expr) -> Iterator[exp.Column]:
    """All columns of relations in the expression; variables of lambdas are not among them."""
    return (node for node in expression.find_all(exp.Column) if node.table)


def relations_of(expression: exp.Expr) -> frozenset[str]:
    """The aliases of the relations that the expression refers to."""
    return frozenset(node.table for node in columns_of(expression))


def substitute(expression: exp.Expr, replace: Replace) -> exp.Expr:
    """Put other expressions in the place of columns, with parentheses where they are needed."""
    root = expression.copy()
    for node in list(columns_of(root)):
        new = replace(node)
        if new is None:
            continue
        new = new.copy()
        if node is root:
            return new
        if _is_open(new) and isinstance(node.parent, (*_OPERATORS, exp.Bracket, exp.Dot, exp.Is)):
            wrapped = exp.Paren(this=new)
            wrapped.type = new.type
            new = wrapped
        node.replace(new)
    return root


def _is_open(expression: exp.Expr) -> bool:
    return isinstance(expression, _OPERATORS) and not isinstance(expression, _CLOSED)


def rename_relations(expression: exp.Expr, names: dict[str, str]) -> exp.Expr:
    """Refer to relations by other aliases."""

    def renamed(node: exp.Column) -> exp.Expr | None:
        if node.table not in names:
            return None
        new = exp.Column(this=node.this.copy(), table=exp.to_identifier(names[node.table]))
        new.type = node.type
        return new

    return substitute(expression, renamed)


def conjuncts(expression: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a conjunction, without parentheses around them."""
    expression = expression.unnest()
    if isinstance(expression, exp.And):
        yield from conjuncts(expression.left)
        yield from conjuncts(expression.right)
    else:
        yield expression


def conjunction(parts: Iterable[exp.Expr]) -> exp.Expr | None:
    """The AND of the parts; None when there is none."""
    result: exp.Expr | None = None
    for part in parts:
        part = part.copy()
        if isinstance(part, exp.Or):
            part = exp.Paren(this=part)
        result = part if result is None else exp.And(this=result, expression=part)
    if result is not None:
        result = result.unnest()
        result.type = data_type("boolean")
    return result


def condition(expression: exp.Expr, span: Span) -> Condition:
    """A conjunct with the relations that it refers to."""
    return Condition(expression, relations_of(expression), span)


def output(name: str, expression: exp.Expr, type_: str, span: Span) -> OutputColumn:
    """A column of a SELECT list with the relations that it refers to."""
    return OutputColumn(name, expression, type_, relations_of(expression), span)


def sql(expression: exp.Expr, *, qualified: bool = False) -> str:
    """Spark SQL text of an expression; columns without their relation unless `qualified`."""
    expression = expression.copy()
    for node in list(columns_of(expression)):
        if not qualified:
            node.set("table", None)
    for identifier in expression.find_all(exp.Identifier):
        name = str(identifier.this)
        identifier.set("quoted", quote(name) != name)
    return expression.sql(dialect="spark", normalize_functions="upper", comments=False)


def same_column(node: exp.Expr, name: str) -> bool:
    """Whether an expression is nothing but the column of that name."""
    return isinstance(node, exp.Column) and column_name(node) == name
