"""Tables in FROM, with their aliases; LOOKUP tables with the columns that they declare."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from braid.kernels.join.spec import MatchMode
from braid.lang.dialect import token_span
from braid.lang.errors import ClauseError
from braid.lang.syntax.clauses import JOIN_WORDS, UNSUPPORTED
from braid.lang.syntax.columns import parse_columns
from braid.lang.syntax.cursor import Reader
from braid.lang.syntax.operator_calls import parse_call
from braid.lang.syntax.tree import Name, RelationSyntax

MODES = tuple(mode.name for mode in MatchMode)
"""Words that may follow MATCH."""
_FOLLOWERS = {"MATCH_CONDITION": ("(",), "WITHIN": ("INTERVAL",), "EMIT": ("UNMATCHED",), "MATCH": MODES}
"""Words that continue a join before another one, and are aliases otherwise."""


def parse_relation(reader: Reader) -> RelationSyntax:
    """Read `table [[AS] alias]`, `LOOKUP("table") AS alias [(column [type], ...)]`, or an operator's call."""
    if reader.word() == "(" or reader.word() == "SELECT":
        raise no_subquery(reader)
    if reader.word() == "LOOKUP" and reader.word(1) == "(":
        return _lookup(reader)
    if reader.at_name() and reader.word(1) == "(":
        return parse_call(reader)
    table = reader.name("the name of a table or view")
    if reader.word() == ".":
        raise ClauseError(
            "PQL201",
            reader.since(reader.index - 1).to(token_span(reader.token(1) or reader.tokens[-1])),
            "names of tables and views have one part",
            "declare the stream with CREATE INPUT TABLE",
        )
    if reader.accept("AS"):
        return RelationSyntax(table, reader.name("an alias"))
    if reader.at_name() and not _follows_relation(reader):
        return RelationSyntax(table, reader.name("an alias"))
    return RelationSyntax(table, table)


def no_subquery(reader: Reader) -> ClauseError:
    """The problem of a SELECT inside another one."""
    return ClauseError(
        "PQL106",
        reader.span(),
        "subqueries are not supported",
        "give the inner query a name with CREATE VIEW and read from that",
    )


def _lookup(reader: Reader) -> RelationSyntax:
    start = reader.index
    reader.expect("LOOKUP", "(")
    token = reader.token()
    if token is None or token.token_type is not TokenType.STRING or not token.text.strip():
        raise reader.unexpected((), "the name of a lookup table in quotes")
    reader.index += 1
    if not reader.accept(")"):
        raise reader.unexpected([")"])
    table = Name(token.text, reader.since(start))
    if not reader.accept("AS") and (not reader.at_name() or _follows_relation(reader)):
        raise ClauseError(
            "PQL101", table.span, "a lookup table needs a name here", f'write LOOKUP("{token.text}") AS name'
        )
    alias = reader.name("an alias")
    columns = parse_columns(reader, "a lookup table") if reader.word() == "(" else ()
    return RelationSyntax(table, alias, lookup=True, columns=columns)


def _follows_relation(reader: Reader) -> bool:
    """Whether the next word continues the FROM clause rather than being an alias."""
    word = reader.word()
    if word in JOIN_WORDS:
        # `FROM t left JOIN u` is a left join; `FROM t left ON ...` makes `left` an alias.
        return reader.word(1) not in ("ON", "WHERE", "STORAGE", "") or reader.word(1) in JOIN_WORDS
    return word in UNSUPPORTED or word in ("STORAGE", "USING") or reader.word(1) in _FOLLOWERS.get(word, ())
