"""The sqlglot dialect of PQL expressions: Spark's, with functions kept exactly as written.

sqlglot turns many functions into its own neutral forms so that it can translate them between databases.
PQL runs on Spark only, so every function call stays an `exp.Anonymous` and is printed as it was read; what
exists and what it returns is in `braid.lang.types.functions`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from braid.lang.errors import ClauseError, suggest
from braid.lang.source import SourceText, Span
from braid.lang.sql_types import NAMES

SPAN = "pql_span"
"""Key in an expression's `meta` under which its place in the program is kept."""

MAX_CHARS = 1_000_000
MAX_NESTING = 24
MAX_DEPTH = 120
"""Limits that keep every later walk over an expression far from Python's recursion limit."""

KEYWORDS = (
    *("CREATE", "APPLICATION", "INPUT", "TABLE", "VIEW", "WITH", "FROM", "SELECT", "WHERE", "JOIN", "INNER"),
    *("LEFT", "RIGHT", "FULL", "OUTER", "ON", "MATCH", "STORAGE", "SHARD", "TIME", "IN", "AS", "AND", "OR"),
    *("TIMESERIES", "SPARSE", "ASOF", "WITHIN", "LOOKUP", "CONSUME", "EMIT", "UNMATCHED", "ORDERED"),
    *("NOT", "BETWEEN", "INTERVAL", "CASE", "WHEN", "THEN", "ELSE", "END", "LIKE", "NULL", "IS", "CAST"),
)
"""Words offered when a misspelt one is met."""

_NAMES_HERE = {TokenType.INNER, TokenType.CROSS, TokenType.OUTER, TokenType.NATURAL, TokenType.ASOF}
"""Words that join tables, and so are names wherever an expression is read."""
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}


class _LocatedError(ParseError):
    """A parse error that knows its token."""

    def __init__(self, message: str, token: Token) -> None:
        super().__init__(message, errors=[{"description": message}])
        self.token = token


class PqlParser(SparkParser):
    """Spark's expression parser that keeps functions as written and remembers places."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
        name: SparkParser.FUNCTION_PARSERS[name]
        for name in ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR", "TRIM")
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
        name: SparkParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("CASE", "IF")
    }

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Stop at the first error of an expression, with its token."""
        raise _LocatedError(message, token or self._curr or self._prev)

    def _warn_unsupported(self) -> None:
        # sqlglot would keep the rest of the text as an opaque command.
        self.raise_error("unsupported syntax")

    def _parse_unary(self) -> exp.Expr | None:
        start = self._curr
        node: exp.Expr | None = super()._parse_unary()
        if node is not None and start and SPAN not in node.meta:
            node.meta[SPAN] = (start.start, self._prev.end + 1)
        return node


class Pql(Spark):
    """PQL's expressions: Spark SQL."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens; no word turns the rest of a statement into an opaque command."""

        COMMANDS: ClassVar[set[TokenType]] = set()

    Parser = PqlParser


DIALECT = Pql()


def span_of(node: exp.Expr) -> Span | None:
    """Where an expression was written, as far as it is known."""
    start, end, stack = -1, -1, [node]
    while stack:
        part = stack.pop()
        found = part.meta.get(SPAN)
        if found is None and "start" in part.meta:
            found = (part.meta["start"], part.meta["end"] + 1)
        if found is None:
            stack.extend(part.iter_expressions())
        else:
            start = found[0] if start < 0 else min(start, found[0])
            end = max(end, found[1])
    return Span(start, end) if start >= 0 else None


def token_span(token: Token) -> Span:
    """Where a token was written."""
    return Span(token.start, token.end + 1)


def tokenize(source: SourceText) -> list[Token]:
    """Split a program into tokens, or raise a `ClauseError`."""
    if len(source.text) > MAX_CHARS:
        raise ClauseError(
            "PQL103",
            Span(0, 1),
            f"the program has {len(source.text):,} characters, but at most {MAX_CHARS:,} are accepted",
            "split it into several applications that read each other's categories",
        )
    with _quiet_tokenizer(source):
        tokens = list(DIALECT.tokenize(source.text))
    _check_nesting(tokens)
    return tokens


@contextlib.contextmanager
def _quiet_tokenizer(source: SourceText) -> Iterator[None]:
    try:
        yield
    except TokenError as error:
        cause = error.__cause__ or error
        match = re.search(r"Missing (\S+) from \d+:(\d+)", str(cause))
        if match is None:
            start = max(0, source.text.rfind("/*"))
            if source.text.startswith("/*", start):
                raise ClauseError(
                    "PQL100",
                    Span(start, start + 2),
                    "the comment that starts here has no end",
                    "close it with */",
                ) from None
            raise ClauseError(
                "PQL100", Span(start, start + 1), "the text cannot be split into tokens"
            ) from None
        start = min(int(match[2]), max(len(source.text) - 1, 0))
        quote = "quoted name" if match[1] == "`" else "comment" if match[1] == "*/" else "string"
        raise ClauseError(
            "PQL100",
            Span(start, start + 1),
            f"the {quote} that starts here has no end",
            f"close it with {match[1]}",
        ) from None


def _check_nesting(tokens: list[Token]) -> None:
    depth = 0
    for token in tokens:
        if token.token_type in _OPENING:
            depth += 1
            if depth > MAX_NESTING:
                raise ClauseError(
                    "PQL103",
                    token_span(token),
                    f"parentheses are nested more than {MAX_NESTING} deep",
                    "compute parts of the expression in a view of their own",
                )
        elif token.token_type in _CLOSING:
            depth = max(0, depth - 1)
        elif token.token_type is TokenType.SEMICOLON:
            depth = 0


def parse_expression(tokens: list[Token], source: SourceText) -> exp.Expr:
    """One expression, with `AS name` allowed after it; raises a `ClauseError`."""
    return _parse(tokens, source, Parser._parse_expression)


def parse_condition(tokens: list[Token], source: SourceText) -> exp.Expr:
    """One expression without alias; raises a `ClauseError`."""
    return _parse(tokens, source, Parser._parse_disjunction)


def parse_type(tokens: list[Token], source: SourceText) -> exp.Expr:
    """One data type; raises a `ClauseError`."""
    return _parse(tokens, source, Parser._parse_types)


def type_from_text(text: str) -> exp.Expr | None:
    """A data type written as text, or None when it is none."""
    source = SourceText(text)
    try:
        tokens = tokenize(source)
        return parse_type(tokens, source) if tokens else None
    except ClauseError:
        return None


def _parse(tokens: list[Token], source: SourceText, method: Callable[[Parser], exp.Expr | None]) -> exp.Expr:
    whole = token_span(tokens[0]).to(token_span(tokens[-1]))
    tokens = [_as_name(token) if token.token_type in _NAMES_HERE else token for token in tokens]
    parser = PqlParser(error_level=ErrorLevel.IMMEDIATE, dialect=DIALECT)
    try:
        [tree] = parser._parse(method, tokens, source.text)
    except _LocatedError as error:
        raise _syntax_problem(error, tokens, whole) from None
    except RecursionError:
        raise _too_deep(whole) from None
    except (ParseError, ValueError, AttributeError, TypeError, IndexError, KeyError, AssertionError):
        # sqlglot assumes well-formed input in places; the program is wrong all the same.
        raise ClauseError("PQL101", whole, "this expression cannot be read") from None
    if tree is None:
        raise ClauseError("PQL101", whole, "an expression is expected here")
    if _depth(tree) > MAX_DEPTH:
        raise _too_deep(whole)
    return tree


def _as_name(token: Token) -> Token:
    return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end, token.comments)


def _syntax_problem(error: _LocatedError, tokens: list[Token], whole: Span) -> ClauseError:
    message = str(error)
    token = error.token
    if not token or token.start < whole.start or token.end >= whole.end:
        token = tokens[-1]
    if "Expecting )" in message:
        return ClauseError("PQL101", token_span(token), f'")" is missing at or before {show(token)}')
    if "Expected END" in message:
        return ClauseError("PQL101", whole, "this CASE has no END", "write CASE WHEN ... THEN ... END")
    if token is tokens[-1] and ("Expected" in message or "Expecting" in message or "Required" in message):
        return ClauseError("PQL101", token_span(token), f"the expression ends too early, after {show(token)}")
    hint = suggest(token.text, KEYWORDS) if token.text.upper() not in KEYWORDS else None
    before = tokens.index(token) - 1
    if before >= 0 and tokens[before].token_type is TokenType.ALIAS:
        hint = suggest(token.text, NAMES, listing="types are")
        return ClauseError("PQL303", token_span(token), f"{token.text} is not a type", hint)
    return ClauseError("PQL101", token_span(token), f"{show(token)} is not expected here", hint)


def _too_deep(span: Span) -> ClauseError:
    return ClauseError(
        "PQL103",
        span,
        "the expression is nested too deeply",
        "compute parts of it in a view of their own",
    )


def _depth(tree: exp.Expr) -> int:
    """Depth of the tree, found without recursion; a chain of AND or OR counts once: no walk descends it."""
    deepest, stack = 0, [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        if depth > MAX_DEPTH:
            break
        for child in node.iter_expressions():
            same = isinstance(node, exp.Connector) and type(child) is type(node)
            stack.append((child, depth if same else depth + 1))
    return deepest


def show(token: Token) -> str:
    """A token as messages quote it."""
    text = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    return f'"{text}"' if token.token_type is not TokenType.STRING else f"the string '{text}'"
