"""Types of all columns: declared, or inferred from use, across views; then the types of all expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from braid.lang.errors import Note, Report
from braid.lang.names.lookups import stored_in
from braid.lang.names.resolve import LookupTable, Names, ResolvedSelect
from braid.lang.syntax.tree import InputSyntax, Name, TableSyntax
from braid.lang.types.expressions import Typer
from braid.lang.types.type_variables import Evidence, Strength, Term, Variable
from braid.lang.types.walk import article

_ROUNDS = 6
"""Inference repeats until nothing changes; each round carries types through one more operation."""

LAST_RESORT = "string"

Key = tuple[str, str]
"""Declared table or view name, and declared column name."""


@dataclass
class Types:
    """Types of the columns of input tables, views and tables; None where an error has been reported."""

    columns: dict[Key, str | None] = field(default_factory=dict)
    origins: dict[Key, Note] = field(default_factory=dict)
    """Why a column whose type is inferred has that type."""
    faulty: set[str] = field(default_factory=set)
    """Views and tables with type errors."""


def infer_types(names: Names, report: Report) -> Types:
    """Infer, then check, every type of the program; sets `.type` on columns and output expressions."""
    terms = {key: term for table in names.inputs for key, term in _input_terms(table, report).items()}
    terms |= {key: term for table in names.lookups for key, term in _lookup_terms(table).items()}
    variables = [term for term in terms.values() if isinstance(term, Variable)]
    for _ in range(_ROUNDS):
        for variable in variables:
            variable.evidence.clear()
        _walk(names, terms, None)
        guesses = {id(variable): variable.root().decide()[0] for variable in variables}
        if all(variable.root().guess == guesses[id(variable)] for variable in variables):
            break
        for variable in variables:
            variable.root().guess = guesses[id(variable)]
    roots = dict.fromkeys(variable.root() for variable in variables)
    conflicts = {variable for variable in roots if variable.report_conflict(report)}
    result = Types()
    for key, term in terms.items():
        if isinstance(term, Variable):
            found, evidence = term.root().decide()
            result.columns[key] = None if term.root() in conflicts else found or LAST_RESORT
            if evidence is not None:
                result.origins[key] = Note(evidence.span, f'"{term.label}" is {evidence.why} here')
        elif not _is_view_column(key, names):
            result.columns[key] = term
    _walk(names, dict(result.columns), report, result)
    return result


def _is_view_column(key: Key, names: Names) -> bool:
    return any(view.name.text == key[0] for view, _ in names.views)


def _input_terms(table: InputSyntax, report: Report) -> dict[Key, Term]:
    terms: dict[Key, Term] = {}
    for column in table.columns:
        term: Term = column.type or Variable(f"{table.name.text}.{column.name.text}")
        if table.time is not None and column.name.key == table.time.key:
            if column.type not in (None, "timestamp"):
                report.add(
                    "PQL301",
                    table.time.span,
                    f'TIME makes "{column.name.text}" a timestamp, but it is declared as {column.type}',
                    f"declare it without a type; IN {table.unit.upper()} says how its numbers are read",
                    [Note(column.span, "the declaration is here")],
                )
            term = "timestamp"
        terms[table.name.text, column.name.text] = term
    return terms


def _lookup_terms(table: LookupTable) -> dict[Key, Term]:
    return {
        (table.key, name.text): table.types.get(key) or Variable(f"{table.name}.{name.text}")
        for key, name in table.columns.items()
    }


def _walk(names: Names, terms: dict[Key, Term], report: Report | None, result: Types | None = None) -> None:
    """Give a type to every expression in dependency order; view columns are added to `terms`."""
    for view, select in names.views:
        terms.update(_select(view.name, select, terms, report, result))
    for table, select, shard_by in names.tables:
        outputs = _select(table.name, select, terms, report, result)
        if shard_by is not None:
            own = _lookup({"": table.name.text}, outputs)
            Typer(own, table.storage.span, report).of(shard_by)
        if report is None:
            _store(table, outputs, terms)


def _store(table: TableSyntax, outputs: dict[Key, Term], terms: dict[Key, Term]) -> None:
    """What a lookup table of the same program stores says what its columns are."""
    place = stored_in(table.storage)
    if place is None:
        return
    for (_, name), stored in outputs.items():
        read = next(
            (t for (owner, c), t in terms.items() if owner == place and c.lower() == name.lower()), None
        )
        if not isinstance(read, Variable):
            continue
        if isinstance(stored, Variable):
            read.unite(stored)
        elif stored is not None:
            why = f"stored as {article(stored)} by table {table.name.text}"
            read.add(Evidence(Strength.CERTAIN, stored, table.name.span, why))


def _select(
    name: Name,
    select: ResolvedSelect,
    terms: dict[Key, Term],
    report: Report | None,
    result: Types | None,
) -> dict[Key, Term]:
    if report is not None and not select.sound:
        report = None
    start = report.error_count if report is not None else 0
    typer = Typer(_lookup(select.tables, terms), select.syntax.span, report, _origins(select, result))
    for join in select.joins:
        for part in join.on:
            typer.expect(part.expression, "boolean", "ON")
        for part in join.condition:
            typer.expect(part.expression, "boolean", "MATCH_CONDITION")
            for side in (part.expression.args.get("this"), part.expression.args.get("expression")):
                if isinstance(side, exp.Column):
                    typer.expect(side, "timestamp", "MATCH_CONDITION")
    if select.call is not None:
        for key in select.call.keys:
            typer.of(key)
        if select.call.time is not None:
            typer.expect(select.call.time, "timestamp", "ORDER BY")
    for part in select.where:
        typer.expect(part.expression, "boolean", "WHERE")
    outputs: dict[Key, Term] = {}
    for item in select.items:
        before = report.error_count if report is not None else 0
        term = typer.of(item.expression)
        outputs[name.text, item.name.text] = term
        if report is None or result is None:
            continue
        assert not isinstance(term, Variable)
        result.columns[name.text, item.name.text] = term
        if term is None and report.error_count == before and not _in_conflict(item.expression, terms, select):
            null = isinstance(item.expression, exp.Null)
            report.add(
                "PQL304",
                item.span,
                f'the type of "{item.name.text}" cannot be inferred',
                "write CAST(NULL AS STRING), or another type" if null else "write CAST(... AS type)",
            )
    if result is not None and report is not None and report.error_count > start:
        result.faulty.add(name.text)
    return outputs


def _in_conflict(tree: exp.Expr, terms: dict[Key, Term], select: ResolvedSelect) -> bool:
    """Whether a column in the expression has no type because of an error elsewhere."""
    find = _lookup(select.tables, terms)
    return any(find(column) is None for column in tree.find_all(exp.Column))


def _lookup(tables: dict[str, str], terms: dict[Key, Term]) -> Callable[[exp.Column], Term]:
    def find(column: exp.Column) -> Term:
        return terms.get((tables.get(column.table, ""), column.name))

    return find


def _origins(select: ResolvedSelect, result: Types | None) -> Callable[[exp.Column], Note | None]:
    def find(column: exp.Column) -> Note | None:
        if result is None:
            return None
        return result.origins.get((select.tables.get(column.table, ""), column.name))

    return find
