"""SELECT as written. The clauses are read here, by tokens; expressions are left to sqlglot.

Reading the skeleton ourselves is what lets `left` and `right` be table names, gives every clause its own
error, and leaves room for clauses that SQL does not have.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from braid.kernels.spec import JoinType, MatchMode
from braid.lang.dialect import parse_condition, parse_expression, span_of, token_span
from braid.lang.errors import ClauseError
from braid.lang.reader import Reader
from braid.lang.syntax import ItemSyntax, JoinSyntax, Name, RelationSyntax, SelectSyntax

_UNSUPPORTED = {
    "GROUP BY": "aggregates over streams are not supported yet: store the rows and aggregate them there",
    "HAVING": "aggregates over streams are not supported yet: filter rows with WHERE",
    "ORDER BY": "a stream has no end at which it could be sorted: sort when reading the stored rows",
    "SORT BY": "a stream has no end at which it could be sorted: sort when reading the stored rows",
    "CLUSTER BY": "use SHARD BY after STORAGE",
    "DISTRIBUTE BY": "use SHARD BY after STORAGE",
    "LIMIT": "a stream has no end: filter rows with WHERE",
    "OFFSET": "a stream has no end: filter rows with WHERE",
    "QUALIFY": "window functions over streams are not supported: use MATCH to pick one match of a join",
    "UNION": "write one table per part",
    "INTERSECT": "write it as a join with a time window",
    "EXCEPT": "write LEFT JOIN, and WHERE ... IS NULL on a column of the right side",
    "MINUS": "write LEFT JOIN, and WHERE ... IS NULL on a column of the right side",
    "LATERAL": "row-generating functions are not supported: expand the rows before they are published",
    "PIVOT": "write one column per value with CASE",
    "TABLESAMPLE": "filter by a hash of the key, such as WHERE pmod(hash(key), 100) < 10",
}
_JOIN_WORDS = (
    "INNER",
    "LEFT",
    "RIGHT",
    "FULL",
    "OUTER",
    "CROSS",
    "NATURAL",
    "SEMI",
    "ANTI",
    "ASOF",
    "TIMESERIES",
)
_REFUSED_JOINS = {
    "CROSS": "a streaming join needs a time window: write JOIN ... ON with time bounds",
    "NATURAL": "write the equalities and the time bounds in ON",
    "SEMI": "write INNER JOIN ... ON ... MATCH FIRST and select columns of the left side only",
    "ANTI": "write LEFT JOIN, and WHERE ... IS NULL on a column of the right side",
    "ASOF": "write JOIN ... ON with time bounds and MATCH LATEST",
    "TIMESERIES": "write JOIN ... ON with time bounds and MATCH NEAREST",
}
_JOIN_TYPES = {
    "": JoinType.INNER,
    "INNER": JoinType.INNER,
    "LEFT": JoinType.LEFT,
    "LEFT OUTER": JoinType.LEFT,
    "RIGHT": JoinType.RIGHT,
    "RIGHT OUTER": JoinType.RIGHT,
    "FULL": JoinType.FULL,
    "FULL OUTER": JoinType.FULL,
}
_MODES = tuple(mode.name for mode in MatchMode)
_HARD = ("WHERE", "JOIN", "ON", "SELECT", *_UNSUPPORTED)
_SOFT = ("MATCH", "STORAGE", *_JOIN_WORDS)


def parse_select(reader: Reader) -> SelectSyntax:
    """Read a SELECT up to STORAGE or the end; raises `ClauseError` when nothing can be made of it."""
    start = reader.index
    if reader.word() in ("(", "WITH", "VALUES"):
        raise _no_subquery(reader)
    reader.expect("SELECT")
    if reader.word() == "DISTINCT":
        raise _unsupported(
            reader, "DISTINCT", "a stream would have to be remembered forever to find duplicates"
        )
    reader.accept("ALL")
    items, complete = _items(reader)
    if not reader.accept("FROM"):
        raise reader.unexpected(["FROM"], "FROM" if reader.done else ", or FROM")
    source = _relation(reader)
    joins: list[JoinSyntax] = []
    while not reader.done and (join := _join(reader)) is not None:
        joins.append(join)
        complete = complete and join.on is not None
    where = None
    if reader.accept("WHERE"):
        where = _clause(reader, "WHERE")
        complete = complete and where is not None
    if reader.word() in _UNSUPPORTED:
        raise _unsupported(reader, reader.word(), _UNSUPPORTED[reader.word()])
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


def _clause(reader: Reader, what: str) -> exp.Expr | None:
    """Read the condition of ON or WHERE; reports what cannot be read and goes on after it."""
    tokens = reader.take_until(_HARD, _SOFT)
    if not tokens:
        raise reader.unexpected((), f"a condition after {what}")
    try:
        return parse_condition(tokens, reader.source)
    except ClauseError as problem:
        reader.report.record(problem.diagnostic)
        return None


def _relation(reader: Reader) -> RelationSyntax:
    if reader.word() == "(" or reader.word() == "SELECT":
        raise _no_subquery(reader)
    table = reader.name("the name of a table or view")
    if reader.word() == ".":
        raise ClauseError(
            "PQL201",
            reader.since(reader.index - 1).to(token_span(reader.token(1) or reader.tokens[-1])),
            "names of tables and views have one part",
            "declare the stream with CREATE INPUT TABLE",
        )
    if reader.word() == "(":
        raise ClauseError(
            "PQL106",
            reader.since(reader.index - 1),
            f'"{table.text}" is used as a function in FROM',
            "declare the stream with CREATE INPUT TABLE name (...) FROM ...",
        )
    if reader.accept("AS"):
        return RelationSyntax(table, reader.name("an alias"))
    if reader.at_name() and not _follows_relation(reader):
        return RelationSyntax(table, reader.name("an alias"))
    return RelationSyntax(table, table)


def _follows_relation(reader: Reader) -> bool:
    """Whether the next word continues the FROM clause rather than being an alias."""
    word = reader.word()
    if word in _JOIN_WORDS:
        # `FROM t left JOIN u` is a left join; `FROM t left ON ...` makes `left` an alias.
        return reader.word(1) not in ("ON", "WHERE", "STORAGE", "") or reader.word(1) in _JOIN_WORDS
    return (
        word in _UNSUPPORTED or word in ("STORAGE", "USING") or (word == "MATCH" and reader.word(1) in _MODES)
    )


def _join(reader: Reader) -> JoinSyntax | None:
    start = reader.index
    if reader.word() == ",":
        raise ClauseError(
            "PQL408",
            reader.span(),
            "a comma between tables is not supported",
            "write JOIN ... ON with time bounds",
        )
    words: list[str] = []
    while reader.word() in _JOIN_WORDS and reader.word() != "JOIN":
        words.append(reader.word())
        reader.index += 1
    if not reader.accept("JOIN"):
        if words:
            raise reader.unexpected(("OUTER", "JOIN"), "JOIN")
        return None
    kind = " ".join(words)
    refused = next((word for word in words if word in _REFUSED_JOINS), None)
    if refused is not None:
        raise ClauseError(
            "PQL408", reader.since(start), f"{refused} JOIN is not supported", _REFUSED_JOINS[refused]
        )
    if kind not in _JOIN_TYPES:
        names = ", ".join(f"{name} JOIN" for name in ("INNER", "LEFT", "RIGHT", "FULL"))
        raise ClauseError("PQL408", reader.since(start), f"{kind} JOIN does not exist", f"there are {names}")
    relation = _relation(reader)
    if reader.word() == "USING":
        raise ClauseError(
            "PQL408",
            reader.span(),
            "USING is not supported",
            "write the equalities and the time bounds in ON",
        )
    if not reader.accept("ON"):
        raise reader.unexpected(["ON"], "ON with the join's equalities and time bounds")
    on_start = reader.index
    on = _clause(reader, "ON")
    on_span = reader.since(on_start)
    match = _match(reader)
    return JoinSyntax(_JOIN_TYPES[kind], relation, on, on_span, match, reader.since(start))


def _match(reader: Reader) -> MatchMode:
    if not reader.accept("MATCH"):
        return MatchMode.ALL
    if reader.word() not in _MODES:
        problem = reader.unexpected(_MODES, "a match mode").diagnostic
        raise ClauseError("PQL409", problem.span, problem.message, problem.hint)
    reader.index += 1
    return MatchMode[reader.word(-1)]


def _no_subquery(reader: Reader) -> ClauseError:
    return ClauseError(
        "PQL106",
        reader.span(),
        "subqueries are not supported",
        "give the inner query a name with CREATE VIEW and read from that",
    )


def _unsupported(reader: Reader, word: str, why: str) -> ClauseError:
    return ClauseError("PQL106", reader.span(), f"{word} is not supported in a streaming query", why)
