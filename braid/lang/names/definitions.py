"""What a program defines: names that are valid and unique, and definitions that something uses."""

from __future__ import annotations

import re

from braid.lang.errors import Note, Report
from braid.lang.names.scope import Definition
from braid.lang.syntax.tree import InputSyntax, Name, Program

_STATEMENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_MAX_NAME = 128


def check_definitions(program: Program, report: Report) -> None:
    """Report names of tables and views that are not valid or not unique."""
    seen: dict[str, Name] = {}
    names = [table.name for table in program.inputs]
    names += [view.name for view in program.views] + [table.name for table in program.tables]
    for name in names:
        check_name(name, report)
        if name.key in seen:
            report.add(
                "PQL204",
                name.span,
                f'"{name.text}" is already defined',
                "choose another name",
                [Note(seen[name.key].span, "the first definition is here")],
            )
        seen.setdefault(name.key, name)


def check_name(name: Name, report: Report) -> None:
    """Names of applications, tables and views also name folders and topics, so they are plain words."""
    if not _STATEMENT_NAME.fullmatch(name.text) or len(name.text) > _MAX_NAME:
        report.add(
            "PQL215",
            name.span,
            f'"{name.text[:_MAX_NAME]}" is not a valid name',
            "use letters, digits and underscores, starting with a letter, at most 128 in all",
        )


def check_columns(names: list[Name], report: Report) -> None:
    """Report column names of one table or view that are not valid or not unique."""
    seen: dict[str, Name] = {}
    for name in names:
        if name.text.startswith("__") or not name.text.isprintable() or len(name.text) > _MAX_NAME:
            report.add(
                "PQL215",
                name.span,
                f'"{name.text[:_MAX_NAME]}" is not a valid column name',
                "names with two leading underscores are reserved" if name.text.startswith("__") else None,
            )
        if name.key in seen:
            first = seen[name.key]
            star = first.span == name.span
            report.add(
                "PQL205",
                name.span,
                f'there are two columns "{name.text}"',
                "name the columns, or use alias.* EXCEPT (...)" if star else "give one of them another name",
                [] if star else [Note(first.span, "the first one is here")],
            )
        seen.setdefault(name.key, name)


def input_definition(table: InputSyntax, report: Report) -> Definition:
    """An input table as others see it."""
    names = [column.name for column in table.columns]
    check_columns(names, report)
    if table.time is not None and all(name.key != table.time.key for name in names):
        hint = report.suggest(table.time.text, [n.text for n in names], listing="columns of the table")
        report.add("PQL202", table.time.span, f'there is no column "{table.time.text}"', hint)
    return Definition(table.name, tuple(names))


def warn_unused(program: Program, report: Report) -> None:
    """Warn of input tables and views that nothing reads."""
    selects = [view.select for view in program.views] + [table.select for table in program.tables]
    read = {relation.table.key for select in selects for relation in select.relations if not relation.lookup}
    if program.broken:
        return
    for table in program.inputs:
        if table.name.key not in read:
            report.add(
                "PQL901", table.name.span, f'nothing reads input table "{table.name.text}"', "remove it"
            )
    for view in program.views:
        if view.name.key not in read:
            report.add(
                "PQL902",
                view.name.span,
                f'nothing reads view "{view.name.text}"',
                "store it with CREATE TABLE",
            )
