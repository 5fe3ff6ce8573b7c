"""A cursor over tokens: what the statement parser is written with."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from braid.lang.dialect import show, token_span
from braid.lang.errors import ClauseError, Report, suggest
from braid.lang.source import SourceText, Span
from braid.lang.syntax.tree import Argument, Name

_NOT_NAMES = frozenset(
    ("SELECT", "FROM", "WHERE", "ON", "JOIN", "AS", "AND", "OR", "NOT", "CREATE", "WITH", "STORAGE", "USING")
) | {"GROUP BY", "ORDER BY", "HAVING", "LIMIT", "UNION", "INTERSECT", "EXCEPT"}
_OPERATORS = frozenset(
    ("AND", "OR", "NOT", "BETWEEN", "IN", "IS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "DIV", "CASE", "WHEN")
) | {"THEN", "ELSE", "INTERVAL", "DISTINCT", "ESCAPE", "FROM", "ON", "WHERE", "SELECT", "AS"}
_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET)
LISTS_FROM = 12
"""Options up to this many are listed in messages."""


class Reader:
    """Reads a slice of the program's tokens from left to right; raises `ClauseError` at what does not fit."""

    def __init__(self, tokens: Sequence[Token], source: SourceText, report: Report) -> None:
        self.tokens = tokens
        self.source = source
        self.report = report
        self.index = 0

    @property
    def done(self) -> bool:
        """Whether all tokens have been read."""
        return self.index >= len(self.tokens)

    def token(self, ahead: int = 0) -> Token | None:
        """The token at or after the cursor."""
        index = self.index + ahead
        return self.tokens[index] if 0 <= index < len(self.tokens) else None

    def word(self, ahead: int = 0) -> str:
        """The upper-case text of an unquoted token, or an empty string."""
        token = self.token(ahead)
        return "" if token is None or token.token_type in _QUOTED else " ".join(token.text.upper().split())

    def span(self) -> Span:
        """The place of the next token, or of the last one at the end."""
        return token_span(self.tokens[min(self.index, len(self.tokens) - 1)])

    def since(self, start: int) -> Span:
        """From token `start` to the last one read."""
        last = max(start, self.index - 1)
        return token_span(self.tokens[start]).to(token_span(self.tokens[min(last, len(self.tokens) - 1)]))

    def accept(self, *words: str) -> bool:
        """Read these words if they come next."""
        if all(self.word(i) == word for i, word in enumerate(words)):
            self.index += len(words)
            return True
        return False

    def expect(self, *words: str, then: str = "") -> None:
        """Read exactly these words."""
        for word in words:
            if not self.accept(word):
                raise self.unexpected([word], then)

    def one_of(self, words: Collection[str], what: str) -> str:
        """Read one of several words."""
        if self.word() in words:
            self.index += 1
            return self.word(-1)
        raise self.unexpected(words, what)

    def name(self, what: str) -> Name:
        """Read an identifier; words such as `left` are names here."""
        token = self.token()
        if token is None or not _is_name(token):
            raise self.unexpected((), what)
        self.index += 1
        return Name(token.text, token_span(token))

    def at_name(self) -> bool:
        """Whether an identifier comes next."""
        token = self.token()
        return token is not None and _is_name(token)

    def unexpected(self, words: Collection[str], what: str = "") -> ClauseError:
        """The problem of finding something else than one of `words`, or than `what`."""
        wanted = what or " or ".join(words)
        token = self.token()
        if token is None:
            last = token_span(self.tokens[-1])
            return ClauseError("PQL101", last, f"the statement ends after this, but {wanted} is expected")
        hint = suggest(token.text, words) if words else None
        if not hint and what and 1 < len(words) <= LISTS_FROM and not any(word in what for word in words):
            hint = f"one of {', '.join(words)}"
        return ClauseError("PQL101", token_span(token), f"{wanted} is expected, not {show(token)}", hint)

    def ends_operand(self, index: int) -> bool:
        """Whether an operand may end with token `index`, so that no further one can follow it."""
        token = self.tokens[index]
        if token.token_type in _QUOTED or token.token_type is TokenType.NUMBER:
            return True
        if token.token_type in _CLOSE:
            return True
        if index and self.tokens[index - 1].token_type is TokenType.DOT:
            return True
        first = token.text[:1]
        return first == "_" or (first.isalnum() and token.text.upper() not in _OPERATORS)

    def take_until(
        self, stops: Collection[str], soft: Collection[str] = (), *, angles: bool = False
    ) -> list[Token]:
        """Read tokens up to one of `stops` outside parentheses.

        A word of `soft` may also be a column's name; it stops where an operand has just ended, or before a
        further word, as two names never follow each other in an expression. With `angles`, < and > are
        parentheses too, as in types.
        """
        start, depth = self.index, 0
        while (token := self.token()) is not None:
            if depth == 0 and self._stops(start, stops, soft):
                break
            depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
            if angles:
                depth += (token.text == "<") - token.text.count(">")
            if depth < 0:
                break
            self.index += 1
        return list(self.tokens[start : self.index])

    def _stops(self, start: int, stops: Collection[str], soft: Collection[str]) -> bool:
        word = self.word()
        if self.index > start and self.tokens[self.index - 1].token_type is TokenType.DOT:
            return False
        if word == "FROM" and self.word(-1) == "DISTINCT" and self.word(-2) in ("IS", "NOT"):
            return False
        if word in stops:
            return True
        if word not in soft:
            return False
        following = self.token(1)
        if following is not None and _is_name(following) and following.text.upper() not in _OPERATORS:
            return True
        return self.index > start and self.ends_operand(self.index - 1)

    def arguments(self) -> tuple[Argument, ...]:
        """Read `(value, name = value, ...)`."""
        if not self.accept("("):
            raise self.unexpected(["("])
        found: list[Argument] = []
        while not self.accept(")"):
            if found and not self.accept(","):
                raise self.unexpected([",", ")"])
            found.append(self._argument())
        return tuple(found)

    def _argument(self) -> Argument:
        start, name = self.index, None
        if self.word(1) in ("=", "=>", "=="):
            name = self.name("the name of an option")
            self.index += 1
        token = self.token()
        if token is None:
            raise self.unexpected((), "a value")
        if name is not None and self.word() == "(":
            names = self._names()
            return Argument(name, "", self.since(start), names)
        sign = "-" if self.accept("-") else ""
        token = self.token()
        if token is None or not _is_value(token, bool(sign)):
            hint = None
            if token is not None and _is_name(token):
                hint = f'write "{token.text}" in quotes'
            problem = self.unexpected((), "a string, a number, TRUE or FALSE")
            raise ClauseError("PQL101", problem.diagnostic.span, problem.diagnostic.message, hint)
        self.index += 1
        text = token.text if token.token_type in _LITERALS else token.text.lower()
        return Argument(name, sign + text, self.since(start))

    def _names(self) -> tuple[Name, ...]:
        """Read `(name, ...)`."""
        self.expect("(")
        names = [self.name("the name of a column")]
        while self.accept(","):
            names.append(self.name("the name of a column"))
        if not self.accept(")"):
            raise self.unexpected([",", ")"])
        return tuple(names)

    def finish(self, expected: Collection[str] = ()) -> None:
        """Require that all tokens have been read."""
        if not self.done:
            raise self.unexpected(expected, "" if expected else "the end of the statement")


_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.RAW_STRING)
_LITERALS = (TokenType.STRING, TokenType.NUMBER, TokenType.RAW_STRING)


def _is_value(token: Token, signed: bool) -> bool:
    if token.token_type is TokenType.NUMBER:
        return True
    return not signed and (token.token_type in _LITERALS or token.text.upper() in ("TRUE", "FALSE"))


def _is_name(token: Token) -> bool:
    if token.token_type is TokenType.IDENTIFIER:
        return bool(token.text)
    if token.token_type in (TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER):
        return False
    return (token.text[:1].isalpha() or token.text[:1] == "_") and token.text.upper() not in _NOT_NAMES
