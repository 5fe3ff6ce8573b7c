"""Operators called in FROM: `NAME(TABLE t PARTITION BY ... ORDER BY ..., argument => INTERVAL '...')`."""

from __future__ import annotations

from sqlglot import exp

from braid.lang.dialect import parse_condition
from braid.lang.errors import ClauseError, suggest
from braid.lang.operators.declaration import Declaration
from braid.lang.operators.registry import OPERATORS
from braid.lang.syntax.clauses import parse_length
from braid.lang.syntax.cursor import Reader
from braid.lang.syntax.tree import CallSyntax, Name, RelationSyntax


def parse_call(reader: Reader) -> RelationSyntax:
    """Read a call, with the alias after it; the cursor is at the operator's name."""
    start = reader.index
    name = reader.name("the name of an operator")
    declaration = OPERATORS.get(name.text.upper())
    if declaration is None:
        raise ClauseError(
            "PQL106",
            name.span,
            f'"{name.text}" is used as a function in FROM',
            suggest(name.text.upper(), tuple(OPERATORS))
            or "declare the stream with CREATE INPUT TABLE name (...) FROM ..., or read a table with LOOKUP",
        )
    reader.expect("(", "TABLE", then=f"TABLE and the name of a table or view after {declaration.name}(")
    table = reader.name("the name of a table or view")
    keys = _expressions(reader, "PARTITION BY", (",", "ORDER BY"))
    times = _expressions(reader, "ORDER BY", (",",))
    if len(times) > 1:
        raise ClauseError("PQL415", reader.since(start), "ORDER BY takes one event time here")
    lengths = _lengths(reader, declaration)
    if not keys:
        raise ClauseError(
            "PQL415",
            reader.since(start),
            f"{declaration.name} does not say which rows belong together",
            f"write {declaration.name}(TABLE {table.text} PARTITION BY key, ...)",
        )
    call = CallSyntax(declaration, keys, times[0] if times else None, lengths, reader.since(start))
    reader.accept("AS")
    alias = reader.name(f"a name after {declaration.name}(...)")
    return RelationSyntax(table, alias, call=call)


def _expressions(reader: Reader, words: str, stops: tuple[str, ...]) -> tuple[exp.Expr, ...]:
    """Read `words expression, ...`; a comma before the name of an argument ends the list."""
    found: list[exp.Expr] = []
    if not reader.accept(words):
        return ()
    while True:
        tokens = reader.take_until(stops)
        if not tokens:
            raise reader.unexpected((), f"an expression after {words}")
        found.append(parse_condition(tokens, reader.source))
        if reader.word() != "," or reader.word(2) == "=>":
            return tuple(found)
        reader.index += 1


def _lengths(reader: Reader, declaration: Declaration) -> tuple[tuple[str, int], ...]:
    """Read `, name => INTERVAL '...'` up to the closing parenthesis; all of them, in the order declared."""
    found: dict[str, int] = {}
    while reader.accept(","):
        name = reader.name("the name of an argument")
        _check_argument(name, found, declaration)
        reader.expect("=>")
        found[name.key] = parse_length(reader, name.text, stops=(",",))
    if not reader.accept(")"):
        raise reader.unexpected([",", ")"])
    missing = [name for name in declaration.lengths if name not in found]
    if missing:
        text = f"{declaration.name} lacks the argument {missing[0]}"
        raise ClauseError(
            "PQL415", reader.since(reader.index - 1), text, f"add {missing[0]} => INTERVAL '...'"
        )
    return tuple((name, found[name]) for name in declaration.lengths)


def _check_argument(name: Name, found: dict[str, int], declaration: Declaration) -> None:
    if name.key not in declaration.lengths:
        hint = (
            suggest(name.text, declaration.lengths) or f"it takes {', '.join(declaration.lengths) or 'none'}"
        )
        raise ClauseError("PQL415", name.span, f"{declaration.name} has no argument {name.text}", hint)
    if name.key in found:
        raise ClauseError("PQL415", name.span, f"the argument {name.text} is given twice", "remove one")
