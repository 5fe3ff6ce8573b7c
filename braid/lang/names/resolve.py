"""Names across statements: definitions, what reads what, and every SELECT with its columns resolved."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from sqlglot import exp

from braid.lang.dialect import span_of
from braid.lang.errors import Note, Report
from braid.lang.names.accepted import check_expression, mark_units
from braid.lang.names.definitions import check_columns, check_definitions, input_definition, warn_unused
from braid.lang.names.scope import Definition, Scope, identifier
from braid.lang.source import Span
from braid.lang.syntax.tree import (
    CallSyntax,
    InputSyntax,
    ItemSyntax,
    JoinSyntax,
    Name,
    Program,
    RelationSyntax,
    SelectSyntax,
    TableSyntax,
    ViewSyntax,
)


@dataclass(frozen=True)
class Item:
    """One output column with its expression resolved."""

    name: Name
    expression: exp.Expr
    span: Span


@dataclass(frozen=True)
class Part:
    """One conjunct of ON or WHERE, resolved."""

    expression: exp.Expr
    span: Span


@dataclass(frozen=True)
class ResolvedJoin:
    """A join with its ON clause, and the condition of an ASOF join, split at AND."""

    syntax: JoinSyntax
    on: tuple[Part, ...]
    condition: tuple[Part, ...] = ()


@dataclass(frozen=True)
class ResolvedCall:
    """An operator called in FROM, with its keys and its event time, if it says one."""

    syntax: CallSyntax
    keys: tuple[exp.Expr, ...]
    time: exp.Expr | None


@dataclass(frozen=True)
class ResolvedSelect:
    """A SELECT in which every column names its relation.

    `sound` is False when anything in it has been reported, so that later steps need not report again.
    """

    syntax: SelectSyntax
    tables: dict[str, str]
    """Alias to the declared name of the table or view; of a lookup, to what `lookup_key` gives."""
    items: tuple[Item, ...]
    joins: tuple[ResolvedJoin, ...]
    where: tuple[Part, ...]
    sound: bool
    call: ResolvedCall | None = None


@dataclass(frozen=True)
class Names:
    """The whole program with names resolved; views in dependency order."""

    inputs: tuple[InputSyntax, ...]
    views: tuple[tuple[ViewSyntax, ResolvedSelect], ...]
    tables: tuple[tuple[TableSyntax, ResolvedSelect, exp.Expr | None], ...]
    lookups: tuple[LookupTable, ...] = ()


@dataclass
class LookupTable:
    """A lookup table as the whole program sees it: the columns that any of its uses names."""

    name: str
    columns: dict[str, Name] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    """Declared types, by the column's name in lower case."""

    @property
    def key(self) -> str:
        """Under which its columns are known; no table or view is called so."""
        return f'LOOKUP("{self.name}")'


def resolve_names(program: Program, report: Report) -> Names:
    """Resolve every name of a program, reporting those that cannot be."""
    check_definitions(program, report)
    definitions = {table.name.key: input_definition(table, report) for table in reversed(program.inputs)}
    for name in program.broken:
        definitions.setdefault(name, Definition(Name(name, Span(0, 0)), None))
    resolver = _Resolver(program, definitions, report)
    views = []
    for view in _in_order(program, definitions, report):
        select = resolver.select(view.select)
        views.append((view, select))
        columns = tuple(item.name for item in select.items) if view.select.complete and select.sound else None
        definitions.setdefault(view.name.key, Definition(view.name, columns))
    tables = [
        (table, select := resolver.select(table.select), resolver.shard_by(table, select))
        for table in program.tables
    ]
    warn_unused(program, report)
    return Names(tuple(program.inputs), tuple(views), tuple(tables), tuple(resolver.lookups.values()))


def _in_order(program: Program, definitions: dict[str, Definition], report: Report) -> list[ViewSyntax]:
    """Views such that each comes after those it reads; those on a cycle are reported and left out."""
    views = {view.name.key: view for view in reversed(program.views)}
    graph = {
        key: [r.table.key for r in view.select.relations if not r.lookup and r.table.key in views]
        for key, view in views.items()
    }
    while True:
        try:
            return [
                views[key]
                for key in _sorted(graph, {view.name.key: i for i, view in enumerate(program.views)})
            ]
        except CycleError as error:
            cycle: list[str] = error.args[1][::-1]
            first = views[min(cycle, key=lambda key: views[key].name.span)]
            start = cycle.index(first.name.key)
            path = [views[key].name.text for key in [*cycle[start:-1], *cycle[:start], first.name.key]]
            report.add(
                "PQL206",
                first.name.span,
                f'view "{first.name.text}" reads itself: {" reads ".join(path)}',
                "a view can only read input tables and other views in one direction",
            )
            for key in set(cycle):
                graph.pop(key, None)
                definitions.setdefault(key, Definition(views[key].name, None))
            graph = {key: [k for k in reads if k in graph] for key, reads in graph.items()}


def _sorted(graph: dict[str, list[str]], position: dict[str, int]) -> list[str]:
    """Dependencies first, otherwise in the order of the program."""
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    ready: list[tuple[int, str]] = []
    order: list[str] = []
    while sorter.is_active():
        for key in sorter.get_ready():
            heapq.heappush(ready, (position[key], key))
        _, key = heapq.heappop(ready)
        order.append(key)
        sorter.done(key)
    return order


class _Resolver:
    """Resolves SELECTs against the definitions known so far."""

    def __init__(self, program: Program, definitions: dict[str, Definition], report: Report) -> None:
        self._definitions = definitions
        self._outputs = {table.name.key: table.name for table in program.tables}
        self._report = report
        self.lookups: dict[str, LookupTable] = {}

    def select(self, syntax: SelectSyntax) -> ResolvedSelect:
        """Resolve one SELECT."""
        before = self._report.error_count
        scope = Scope(self._report)
        for relation in syntax.relations:
            scope.add(relation.alias, self._definition(relation))
        items = self._items(syntax, scope)
        check_columns([item.name for item in items], self._report)
        scope.outputs = {item.name.key: item.name.span for item in items}
        joins = tuple(
            ResolvedJoin(
                join,
                self._parts(join.on, join.on_span, scope),
                self._parts(join.condition, join.span, scope),
            )
            for join in syntax.joins
        )
        where = self._parts(syntax.where, syntax.span, scope)
        call = self._call(syntax.source)
        tables = {alias.text: definition.name.text for alias, definition in scope.relations.values()}
        open_ = any(definition.columns is None for _, definition in scope.relations.values())
        sound = syntax.complete and not open_ and self._report.error_count == before
        return ResolvedSelect(syntax, tables, tuple(items), joins, where, sound, call)

    def _call(self, relation: RelationSyntax) -> ResolvedCall | None:
        """An operator's keys and time; inside the call its table goes by its own name, not by the alias."""
        call = relation.call
        if call is None:
            return None
        scope = Scope(self._report)
        scope.add(relation.table, self._definitions.get(relation.table.key, Definition(relation.table, None)))

        def resolved(tree: exp.Expr) -> exp.Expr:
            if check_expression(tree, call.span, self._report):
                tree = scope.resolve(mark_units(tree), call.span)
            for column in tree.find_all(exp.Column):
                if column.table:
                    column.set("table", identifier(relation.alias.text))
            return tree

        return ResolvedCall(call, tuple(map(resolved, call.keys)), resolved(call.time) if call.time else None)

    def shard_by(self, table: TableSyntax, select: ResolvedSelect) -> exp.Expr | None:
        """The sharding expression of a table, over its output columns."""
        if table.shard_by is None or not check_expression(table.shard_by, table.storage.span, self._report):
            return None
        columns = tuple(item.name for item in select.items) if table.select.complete else None
        scope = Scope(self._report)
        scope.add(table.name, Definition(table.name, columns))
        tree = scope.resolve(mark_units(table.shard_by), table.storage.span)
        for column in tree.find_all(exp.Column):
            column.set("table", None)
        return tree

    def _lookup(self, relation: RelationSyntax) -> Definition:
        """A lookup table: with the columns that it declares here, or with whatever is read from it."""
        table = self.lookups.setdefault(relation.table.text, LookupTable(relation.table.text))
        name = Name(table.key, relation.table.span)
        if not relation.columns:
            return Definition(name, (), table.columns)
        check_columns([column.name for column in relation.columns], self._report)
        for column in relation.columns:
            known = table.columns.setdefault(column.name.key, column.name)
            type_ = column.type or table.types.get(known.key)
            if type_ is None:
                continue
            first = table.types.setdefault(known.key, type_)
            if first != type_:
                self._report.add(
                    "PQL301",
                    column.span,
                    f'column "{known.text}" of {table.key} is {type_} here, but {first} elsewhere',
                    "declare it with one type",
                    [Note(known.span, "the first use is here")],
                )
        return Definition(name, tuple(table.columns[column.name.key] for column in relation.columns))

    def _definition(self, relation: RelationSyntax) -> Definition:
        if relation.lookup:
            return self._lookup(relation)
        name = relation.table
        found = self._definitions.get(name.key)
        if found is not None:
            return found
        if name.key in self._outputs:
            self._report.add(
                "PQL207",
                name.span,
                f'"{name.text}" is a table that is stored, and cannot be read from here',
                "read the view behind it, or declare its storage as CREATE INPUT TABLE",
                [Note(self._outputs[name.key].span, "it is defined here")],
            )
        else:
            known = [definition.name.text for definition in self._definitions.values()]
            hint = self._report.suggest(name.text, sorted(known), listing="tables and views")
            self._report.add("PQL201", name.span, f'there is no table or view "{name.text}"', hint)
        return Definition(name, None)

    def _items(self, syntax: SelectSyntax, scope: Scope) -> list[Item]:
        items: list[Item] = []
        for item in syntax.items:
            star = _star(item.expression)
            if star is not None:
                items += self._expand(item, star, scope)
                continue
            if not check_expression(item.expression, item.span, self._report):
                continue
            name = item.alias or _implied_name(item)
            if name is None:
                self._report.add("PQL209", item.span, "this expression needs a name", "add AS name after it")
                continue
            items.append(Item(name, scope.resolve(mark_units(item.expression), item.span), item.span))
            scope.outputs[name.key] = name.span
        return items

    def _expand(self, item: ItemSyntax, star: exp.Expr, scope: Scope) -> list[Item]:
        """The columns that `*` or `alias.*` stands for, less those of EXCEPT."""
        chosen = list(scope.relations.values())
        if isinstance(item.expression, exp.Column):
            qualifier = item.expression.args["table"]
            if qualifier.name.lower() not in scope.relations:
                hint = self._report.suggest(
                    qualifier.name, [a.text for a, _ in chosen], listing="tables here"
                )
                place = span_of(qualifier) or item.span
                self._report.add("PQL201", place, f'there is no table "{qualifier.name}" here', hint)
                return []
            chosen = [scope.relations[qualifier.name.lower()]]
        if item.alias is not None or any(star.args.get(arg) for arg in ("replace", "rename")):
            self._report.add("PQL104", item.span, "* cannot be renamed or replaced", "name the columns")
            return []
        for alias, definition in chosen:
            if definition.found is not None:
                self._report.add(
                    "PQL104",
                    item.span,
                    f'the columns of lookup table "{alias.text}" are not known, so * cannot list them',
                    f"declare them after its name: {definition.name.text} AS {alias.text} (column type, ...)",
                )
                return []
        left_out = {part.name.lower(): part for part in star.args.get("except_") or ()}
        found = [
            Item(
                Name(column.text, item.span),
                exp.Column(this=identifier(column.text), table=identifier(alias.text)),
                item.span,
            )
            for alias, definition in chosen
            for column in definition.columns or ()
        ]
        known = {i.name.key for i in found}
        for key, part in left_out.items():
            if key not in known and all(d.columns is not None for _, d in chosen):
                hint = self._report.suggest(part.name, [i.name.text for i in found], listing="columns here")
                self._report.add(
                    "PQL202", span_of(part) or item.span, f'there is no column "{part.name}"', hint
                )
        return [i for i in found if i.name.key not in left_out]

    def _parts(self, tree: exp.Expr | None, fallback: Span, scope: Scope) -> tuple[Part, ...]:
        if tree is None or not check_expression(tree, fallback, self._report):
            return ()
        return tuple(
            Part(scope.resolve(mark_units(part), fallback), span_of(part) or fallback)
            for part in conjuncts(tree)
        )


def conjuncts(tree: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition that AND connects, without parentheses around them, each on its own."""
    found: list[exp.Expr] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Paren):
            stack.append(node.this)
        elif isinstance(node, exp.And):
            stack += [node.expression, node.this]
        else:
            found.append(node.copy())
    return found


def _star(tree: exp.Expr) -> exp.Expr | None:
    if isinstance(tree, exp.Star):
        return tree
    if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star) and len(tree.parts) == 2:
        return tree.this
    return None


def _implied_name(item: ItemSyntax) -> Name | None:
    tree = item.expression
    if isinstance(tree, exp.Column | exp.Dot) and isinstance(tree.parts[-1], exp.Identifier):
        last = tree.parts[-1]
        return Name(last.name, span_of(last) or item.span)
    return None
