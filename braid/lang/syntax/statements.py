"""Program text to statements as written. Errors in one statement do not hide those in the next."""

from __future__ import annotations

from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from braid.lang.dialect import KEYWORDS, parse_condition, show, token_span, tokenize
from braid.lang.errors import ClauseError, Report, suggest
from braid.lang.source import SourceText
from braid.lang.syntax.clauses import parse_length
from braid.lang.syntax.columns import parse_columns
from braid.lang.syntax.cursor import Reader
from braid.lang.syntax.selects import parse_select
from braid.lang.syntax.tree import (
    ApplicationSyntax,
    Call,
    InputSyntax,
    Name,
    Program,
    TableSyntax,
    ViewSyntax,
)

UNITS = ("SECONDS", "MILLISECONDS", "MICROSECONDS")
_CLAUSES = (
    *("WHERE", "JOIN", "MATCH", "WITHIN", "EMIT", "STORAGE", "LEFT", "RIGHT", "INNER", "FULL", "ASOF"),
    "TIMESERIES",
)
_STATEMENTS = ("APPLICATION", "INPUT", "VIEW", "TABLE")


def parse_program(source: SourceText, report: Report) -> Program:
    """Read all statements; what cannot be read is reported and left out."""
    program = Program()
    try:
        tokens = tokenize(source)
    except ClauseError as problem:
        report.record(problem.diagnostic)
        return program
    for statement in _split(tokens, report):
        reader = Reader(statement, source, report)
        try:
            _statement(reader, program)
        except ClauseError as problem:
            report.record(problem.diagnostic)
            name = _defined_name(statement)
            if name is not None:
                program.broken.add(name)
    return program


def _split(tokens: list[Token], report: Report) -> list[list[Token]]:
    """Cut at semicolons, and where one is evidently missing before CREATE."""
    statements: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            statements.append([])
            continue
        current = statements[-1]
        if token.token_type is TokenType.CREATE and current and current[-1].token_type is not TokenType.DOT:
            report.add(
                "PQL101",
                token_span(token),
                f"a semicolon is missing before {show(token)}",
                f'end the statement before it with ";", after {show(current[-1])}',
            )
            statements.append([])
        statements[-1].append(token)
    return [statement for statement in statements if statement]


def _defined_name(statement: list[Token]) -> str | None:
    """The name that a broken statement was about to define, as far as one can tell."""
    for previous, token in pairwise(statement[:5]):
        if previous.text.upper() in _STATEMENTS and token.text.upper() not in _STATEMENTS:
            return token.text.lower()
    return None


def _statement(reader: Reader, program: Program) -> None:
    if not reader.accept("CREATE"):
        token = reader.tokens[0]
        hint = suggest(token.text, ["CREATE"]) or (
            "PQL has CREATE APPLICATION, CREATE INPUT TABLE, CREATE VIEW and CREATE TABLE"
        )
        raise ClauseError("PQL102", token_span(token), f"a statement cannot start with {show(token)}", hint)
    if reader.accept("APPLICATION"):
        program.applications.append(_application(reader))
    elif reader.accept("INPUT"):
        reader.expect("TABLE")
        program.inputs.append(_input(reader))
    elif reader.accept("VIEW"):
        program.views.append(_view(reader))
    elif reader.accept("TABLE"):
        program.tables.append(_table(reader))
    else:
        raise reader.unexpected(_STATEMENTS, "APPLICATION, INPUT TABLE, VIEW or TABLE")


def _application(reader: Reader) -> ApplicationSyntax:
    name = reader.name("the name of the application")
    options = reader.arguments() if reader.accept("WITH") else ()
    reader.finish() if options else reader.finish(["WITH"])
    return ApplicationSyntax(name, options)


def _input(reader: Reader) -> InputSyntax:
    name = reader.name("the name of the input table")
    columns = parse_columns(reader, "an input table")
    reader.expect("FROM")
    source = _call(reader, 'a source such as SCRIBE("category")')
    time, unit, disorder, rest = None, UNITS[0], None, ["TIME"]
    if reader.accept("TIME"):
        time, rest = reader.name("the event-time column"), ["IN", "ORDERED"]
        if reader.accept("IN"):
            unit, rest = reader.one_of(UNITS, "a unit of time"), ["ORDERED"]
        if reader.accept("ORDERED"):
            disorder, rest = 0, ["WITHIN"]
            if reader.accept("WITHIN"):
                disorder, rest = parse_length(reader, "WITHIN"), []
            if reader.word() == "IN":
                hint = f"write TIME {time.text} IN ... ORDERED"
                raise ClauseError("PQL101", reader.span(), "the unit comes before ORDERED", hint)
    reader.finish(rest)
    return InputSyntax(name, columns, source, time, unit.lower(), disorder)


def _call(reader: Reader, what: str) -> Call:
    start = reader.index
    kind = reader.name(what)
    arguments = reader.arguments() if reader.word() == "(" else ()
    return Call(Name(kind.text.lower(), kind.span), arguments, reader.since(start))


def _view(reader: Reader) -> ViewSyntax:
    name = reader.name("the name of the view")
    reader.expect("AS")
    select = parse_select(reader)
    if reader.word() == "STORAGE":
        raise ClauseError(
            "PQL101", reader.span(), "a view is not stored", "use CREATE TABLE to store its rows"
        )
    _finish_select(reader, "the end of the statement")
    return ViewSyntax(name, select)


def _table(reader: Reader) -> TableSyntax:
    name = reader.name("the name of the table")
    if reader.word() == "(":
        raise ClauseError(
            "PQL101",
            reader.span(),
            "a table is defined AS SELECT, not by a list of columns",
            "use CREATE INPUT TABLE to declare a stream that is read",
        )
    reader.expect("AS")
    select = parse_select(reader)
    if reader.done:
        raise ClauseError(
            "PQL504",
            name.span,
            f'table "{name.text}" has no STORAGE',
            'end it with STORAGE SCRIBE(category = "..."), or use CREATE VIEW',
        )
    if not reader.accept("STORAGE"):
        _finish_select(reader, "STORAGE")
    storage = _call(reader, 'a storage such as SCRIBE(category = "...")')
    shard_by = None
    if reader.accept("SHARD"):
        reader.expect("BY")
        if reader.done:
            raise reader.unexpected((), "an expression to shard by")
        shard_by = parse_condition(reader.take_until(()), reader.source)
    reader.finish(["SHARD"])
    return TableSyntax(name, select, storage, shard_by)


def _finish_select(reader: Reader, last: str) -> None:
    """Require the end of a SELECT; `last` says what else may follow it."""
    if reader.done:
        return
    # A misspelt keyword has been read as an alias: `FROM clicks WERE cost > 1`.
    before, hint = reader.token(-1), None
    if before is not None and reader.word(-1) not in KEYWORDS:
        hint = suggest(before.text, _CLAUSES)
    if before is not None and hint is not None:
        raise ClauseError("PQL101", token_span(before), f"{show(before)} is not expected here", hint)
    raise reader.unexpected(_CLAUSES, f"JOIN, WHERE or {last}")
