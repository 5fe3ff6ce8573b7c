"""Columns with their types, as CREATE INPUT TABLE and LOOKUP declare them."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token

from braid.lang import sql_types as types
from braid.lang.dialect import parse_type, token_span
from braid.lang.errors import ClauseError, suggest
from braid.lang.syntax.cursor import Reader
from braid.lang.syntax.tree import ColumnSyntax


def parse_columns(reader: Reader, what: str) -> tuple[ColumnSyntax, ...]:
    """Read `(column [type], ...)`; `what` needs at least one."""
    if not reader.accept("("):
        raise reader.unexpected(["("], "a list of columns in parentheses")
    columns: list[ColumnSyntax] = []
    while not reader.accept(")"):
        if columns and not reader.accept(","):
            raise reader.unexpected([",", ")"])
        columns.append(_column(reader))
    if not columns:
        raise ClauseError("PQL101", reader.since(reader.index - 1), f"{what} needs at least one column")
    return tuple(columns)


def _column(reader: Reader) -> ColumnSyntax:
    start = reader.index
    name = reader.name("the name of a column")
    tokens = reader.take_until((",",), angles=True)
    # `take_until` also stops at the parenthesis that closes the list.
    type_ = _type(tokens, reader) if tokens else None
    return ColumnSyntax(name, type_, reader.since(start))


def _type(tokens: list[Token], reader: Reader) -> str | None:
    span = token_span(tokens[0]).to(token_span(tokens[-1]))
    try:
        found = types.from_sqlglot(parse_type(tokens, reader.source))
    except ClauseError as problem:
        span, found = problem.diagnostic.span, None
        if span.start > tokens[0].start and len(tokens) > 1 and tokens[1].text not in "<([":
            raise ClauseError("PQL101", span, ", or ) is expected after the type of a column") from None
    if found is None:
        text = reader.source.text[span.start : span.end]
        hint = suggest(text, types.NAMES, listing="types are")
        reader.report.add("PQL303", span, f"{text} is not a type", hint)
    return found
