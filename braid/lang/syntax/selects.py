"""SELECT as written. The clauses are read here, by tokens; expressions are left to sqlglot.

Reading the skeleton ourselves is what lets `left` and `right` be table names, gives every clause its own
error, and leaves room for clauses that SQL does not have.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from braid.lang.dialect import parse_expression, span_of, token_span
from braid.lang.errors import ClauseError
from braid.lang.syntax.clauses import UNSUPPORTED, parse_clause, take_condition
from braid.lang.syntax.cursor import Reader
from braid.lang.syntax.join_clauses import parse_join
from braid.lang.syntax.relations import no_subquery, parse_relation
from braid.lang.syntax.tree import ItemSyntax, JoinSyntax, Name, SelectSyntax


def parse_select(reader: Reader) -> SelectSyntax:
    """Read a SELECT up to STORAGE or the end; raises `ClauseError` when nothing can be made of it."""
    start = reader.index
    if reader.word() in ("(", "WITH", "VALUES"):
        raise no_subquery(reader)
    reader.expect("SELECT")
    if reader.word() == "DISTINCT":
        raise _unsupported(
            reader,
            "DISTINCT",
            "a stream would have to be remembered forever: write FROM DEDUPLICATE(TABLE ..., within => ...)",
        )
    reader.accept("ALL")
    items, complete = _items(reader)
    if not reader.accept("FROM"):
        raise reader.unexpected(["FROM"], "FROM" if reader.done else ", or FROM")
    source = parse_relation(reader)
    if source.lookup:
        text = "a lookup table gives no rows of its own"
        hint = "name a stream after FROM, and write JOIN LOOKUP(...) after it"
        raise ClauseError("PQL408", source.span, text, hint)
    joins: list[JoinSyntax] = []
    while not reader.done and (join := parse_join(reader)) is not None:
        called = next((one.call for one in (source, join.relation) if one.call is not None), None)
        if called is not None:
            text = f"{called.operator.name} stands alone in FROM"
            hint = "give it a view of its own with CREATE VIEW, and join that"
            raise ClauseError("PQL415", called.span, text, hint)
        joins.append(join)
        complete = complete and join.complete
    where = None
    if reader.accept("WHERE"):
        where = parse_clause(reader, take_condition(reader, "WHERE"))
        complete = complete and where is not None
    if reader.word() in UNSUPPORTED:
        raise _unsupported(reader, reader.word(), UNSUPPORTED[reader.word()])
    return SelectSyntax(tuple(items), source, reader.since(start), tuple(joins), where, complete)


def _items(reader: Reader) -> tuple[list[ItemSyntax], bool]:
    items: list[ItemSyntax] = []
    complete = True
    while True:
        start = reader.index
        tokens = reader.take_until((",", "FROM", "STORAGE", "WHERE", "JOIN"))
        if not tokens:
            raise reader.unexpected((), "an output column")
        try:
            items.append(_item(reader, tokens, start))
        except ClauseError as problem:
            if reader.done:
                # An open parenthesis has swallowed the rest of the statement.
                raise
            reader.report.record(problem.diagnostic)
            complete = False
        if not reader.accept(","):
            return items, complete
        if reader.word() == "FROM":
            raise ClauseError(
                "PQL101",
                token_span(reader.tokens[reader.index - 1]),
                "there is a comma before FROM",
                "remove it",
            )


def _item(reader: Reader, tokens: list[Token], start: int) -> ItemSyntax:
    tree = parse_expression(tokens, reader.source)
    span = reader.since(start)
    if not isinstance(tree, exp.Alias):
        return ItemSyntax(tree, None, span)
    alias = tree.args["alias"]
    place = token_span(tokens[-1])
    if not isinstance(alias, exp.Identifier):
        raise ClauseError("PQL101", place, "a name is expected after AS")
    return ItemSyntax(tree.this, Name(alias.name, span_of(alias) or place), span)


def _unsupported(reader: Reader, word: str, why: str) -> ClauseError:
    return ClauseError("PQL106", reader.span(), f"{word} is not supported in a streaming query", why)
