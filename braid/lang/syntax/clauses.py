"""Clauses of a SELECT: the words that end them, and what they hold."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from braid.lang.dialect import parse_condition, token_span
from braid.lang.errors import ClauseError
from braid.lang.syntax.cursor import Reader
from braid.lang.types.intervals import interval_length

UNSUPPORTED = {
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
"""Clauses of SQL that streams do not have, and what to do instead."""

JOIN_WORDS = (
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
"""Words that come before JOIN."""

_HARD = ("WHERE", "JOIN", "ON", "SELECT", *UNSUPPORTED)
_SOFT = ("MATCH", "CONSUME", "WITHIN", "EMIT", "STORAGE", *JOIN_WORDS)
_INTERVALS = "write for example INTERVAL '10 seconds' or INTERVAL '1 hour 30 minutes'"


def take_condition(reader: Reader, what: str) -> list[Token]:
    """Read the tokens of ON or WHERE."""
    tokens = reader.take_until(_HARD, _SOFT)
    if not tokens:
        raise reader.unexpected((), f"a condition after {what}")
    return tokens


def parse_clause(reader: Reader, tokens: list[Token]) -> exp.Expr | None:
    """The condition of ON or WHERE; reports what cannot be read."""
    try:
        return parse_condition(tokens, reader.source)
    except ClauseError as problem:
        reader.report.record(problem.diagnostic)
        return None


def parse_length(reader: Reader, what: str, stops: Collection[str] = ()) -> int:
    """Read `INTERVAL '...'`, a constant length of time, up to one of `stops`; gives microseconds."""
    if reader.word() != "INTERVAL":
        raise reader.unexpected(["INTERVAL"], f"INTERVAL '...' after {what}")
    tokens = reader.take_until((*_HARD, "IN", *stops), _SOFT)
    span = token_span(tokens[0]).to(token_span(tokens[-1]))
    tree = parse_condition(tokens, reader.source)
    length = interval_length(tree) if isinstance(tree, exp.Interval) else None
    if length is None:
        raise ClauseError("PQL407", span, "this interval cannot be read as a length of time", _INTERVALS)
    if length.months:
        raise ClauseError(
            "PQL404",
            span,
            "months and years have no constant length",
            "write it in days, for example INTERVAL '30 days'",
        )
    if length.micros < 0:
        raise ClauseError("PQL405", span, f"{what} takes a length of time that is not negative", _INTERVALS)
    return length.micros
