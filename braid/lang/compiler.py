"""PQL text to a typed query."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from braid.lang.errors import Note, Report
from braid.lang.infer import Types, infer_types
from braid.lang.names.connectors import read_options, read_record, read_source, read_storage
from braid.lang.names.definitions import check_name
from braid.lang.names.event_times import event_times, time_column
from braid.lang.names.lookups import check_stored
from braid.lang.names.on_clauses import build_joins, condition, relation
from braid.lang.names.operator_calls import build_call
from braid.lang.names.resolve import Names, ResolvedSelect, resolve_names
from braid.lang.names.scope import relations_of
from braid.lang.names.series import refuse_neighbours
from braid.lang.query import (
    AnySelect,
    Application,
    Column,
    InputTable,
    JoinSelect,
    OutputColumn,
    Query,
    Select,
    Storage,
    Table,
    View,
    stored_twice,
)
from braid.lang.source import SourceText, Span
from braid.lang.sql_types import comparable
from braid.lang.syntax.statements import parse_program
from braid.lang.syntax.tree import InputSyntax, Name, Program, TableSyntax


def compile_text(text: str, filename: str = "<pql>") -> Query:
    """Compile a program.

    Parameters
    ----------
    text
        The program.
    filename
        What to call it in messages.

    Raises
    ------
    PqlError
        With every error of the program. Warnings are in `Query.warnings`.
    """
    source = SourceText(text.removeprefix("\ufeff"), filename)
    report = Report(source)
    program = parse_program(source, report)
    application = _application(program, report)
    names = resolve_names(program, report)
    types = infer_types(names, report)
    builder = _Builder(names, types, report)
    views = tuple(view for view in map(builder.view, range(len(names.views))) if view is not None)
    tables = tuple(table for table in map(builder.table, range(len(names.tables))) if table is not None)
    _check_outputs(tables, names, report)
    selects = [select for _, select in names.views] + [select for _, select, _ in names.tables]
    check_stored(selects, tables, report)
    times = event_times(names.inputs, views, tables)
    inputs = tuple(builder.input(table, times.get(table.name.text, ())) for table in names.inputs)
    if not program.tables and not program.broken:
        report.add(
            "PQL903", application.span, "the program stores nothing", "add CREATE TABLE ... STORAGE ..."
        )
    report.check()
    warnings = tuple(warning.render(source) for warning in report.warnings)
    return Query(
        application,
        tuple(i for i in inputs if i is not None),
        views,
        tables,
        source=source,
        warnings=warnings,
    )


def _check_outputs(tables: tuple[Table, ...], names: Names, report: Report) -> None:
    """The log has one writer per category, and other storages are better off with one too."""
    places = {syntax.name.text: syntax.storage.span for syntax, _, _ in names.tables}
    for first, table in stored_twice(tables):
        report.add(
            "PQL505",
            places[table.name],
            f'table "{first.name}" already writes to {table.storage.name}',
            "choose another name",
            [Note(places[first.name], "the first one is here")],
        )


def _application(program: Program, report: Report) -> Application:
    found = program.applications
    for other in found[1:]:
        report.add(
            "PQL105",
            other.name.span,
            "there is a second CREATE APPLICATION",
            "a file holds one application",
            [Note(found[0].name.span, "the first one is here")],
        )
    if not found:
        if not _application_is_broken(report):
            report.add(
                "PQL105", Span(0, 1), "there is no CREATE APPLICATION", "start with CREATE APPLICATION name;"
            )
        return Application("", Span(0, 0))
    for statement in found:
        check_name(statement.name, report)
        read_options(statement.name, statement.options, report)
    first = found[0]
    return Application(first.name.text, first.name.span, read_options(first.name, first.options, report))


def _application_is_broken(report: Report) -> bool:
    """Whether errors in reading the text may have hidden the statement."""
    return any(error.code in ("PQL100", "PQL101", "PQL102", "PQL103") for error in report.errors)


class _Builder:
    """Builds the records of the typed query; None where an error has been reported."""

    def __init__(self, names: Names, types: Types, report: Report) -> None:
        self._names = names
        self._types = types
        self._report = report
        self._times = {
            table.name.text: column.name.text
            for table in names.inputs
            for column in table.columns
            if table.time is not None and column.name.key == table.time.key
        }

    def input(self, table: InputSyntax, times: tuple[str, ...]) -> InputTable | None:
        """An input table; `times` are the columns that joins use as event time."""
        source = read_source(table.source, self._report)
        if source is None:
            return None
        columns = tuple(
            Column(
                column.name.text,
                self._types.columns.get((table.name.text, column.name.text)) or "string",
                column.span,
                column.type is not None,
            )
            for column in table.columns
        )
        declared = [c.name for c in columns if table.time is not None and c.name.lower() == table.time.key]
        used = tuple(dict.fromkeys((*declared, *times)))
        time = used[0] if used else None
        return InputTable(
            table.name.text, columns, source, table.name.span, time, table.unit, used, table.disorder
        )

    def view(self, number: int) -> View | None:
        """The view of that number."""
        syntax, select = self._names.views[number]
        built = self._select(syntax.name, select)
        if built is None:
            return None
        time = time_column(built, self._times)
        if time is not None:
            self._times[syntax.name.text] = time
        return View(syntax.name.text, built, syntax.name.span)

    def table(self, number: int) -> Table | None:
        """The table of that number."""
        syntax, select, shard_by = self._names.tables[number]
        if shard_by is not None:
            refuse_neighbours(shard_by, syntax.storage.span, self._report)
        storage = self._storage(syntax, select, shard_by)
        built = self._select(syntax.name, select)
        if built is None or storage is None:
            return None
        return Table(syntax.name.text, built, storage, syntax.name.span)

    def _storage(
        self, syntax: TableSyntax, select: ResolvedSelect, shard_by: exp.Expr | None
    ) -> Storage | None:
        found = read_storage(syntax.storage, self._report)
        if found is None:
            return None
        kind, name, options = found
        if not kind.connector.keyed:
            return Storage(kind, name, options, shard_by)
        lists = read_record(syntax.storage, [item.name for item in select.items], self._report)
        if lists is None or not self._holdable(syntax, select, *lists):
            return None
        return Storage(kind, name, options, shard_by, *lists)

    def _holdable(
        self, syntax: TableSyntax, select: ResolvedSelect, keys: Sequence[str], values: Sequence[str]
    ) -> bool:
        """Whether a lookup table can hold the columns."""
        before = self._report.error_count
        for item in select.items:
            type_ = self._types.columns.get((syntax.name.text, item.name.text)) or "string"
            if comparable(type_) or item.name.text not in (*keys, *values):
                continue
            role, code = ("key", "PQL416") if item.name.text in keys else ("value", "PQL302")
            text = f'"{item.name.text}" is {type_}, which cannot be the {role} of a lookup table'
            self._report.add(
                code, item.span, text, "store a plain value: an element, a field, or TO_JSON(...)"
            )
        return self._report.error_count == before

    def _select(self, name: Name, select: ResolvedSelect) -> AnySelect | None:
        if not select.sound or name.text in self._types.faulty:
            return None
        columns = tuple(
            OutputColumn(
                item.name.text,
                item.expression,
                self._types.columns.get((name.text, item.name.text)) or "string",
                relations_of(item.expression),
                item.span,
            )
            for item in select.items
        )
        source = relation(select.syntax.source, select.tables)
        where = tuple(condition(part) for part in select.where)
        if select.call is not None:
            return build_call(select, select.call, columns, where, self._times.get, self._report)
        built = build_joins(select, self._times.get, self._report)
        if built is None:
            return None
        joins, lookups = built
        if not joins:
            return Select(source, columns, select.syntax.span, where, lookups)
        return JoinSelect(source, joins, columns, select.syntax.span, where, lookups)
