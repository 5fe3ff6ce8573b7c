"""Names inside one SELECT: which column of which relation is meant."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sqlglot import exp

from braid.lang.dialect import SPAN, span_of
from braid.lang.errors import Note, Report
from braid.lang.source import Span
from braid.lang.syntax.tree import Name

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Definition:
    """An input table or view as others see it.

    `columns` are in order; None means that the definition has errors of its own, and that any column may
    be read from it without a further error. With `found` set, any column may be read that is qualified: it
    is noted there, under its name in lower case.
    """

    name: Name
    columns: tuple[Name, ...] | None
    found: dict[str, Name] | None = None

    def column(self, name: str) -> Name | None:
        """A column by name, in any case."""
        if self.found is not None:
            return self.found.get(name.lower())
        return next((c for c in self.columns or () if c.key == name.lower()), None)


@dataclass
class Scope:
    """The relations of a FROM clause, by alias in lower case."""

    report: Report
    relations: dict[str, tuple[Name, Definition]] = field(default_factory=dict)
    outputs: dict[str, Span] = field(default_factory=dict)
    """Output names of the same SELECT, only to explain why they cannot be used."""

    def add(self, alias: Name, definition: Definition) -> None:
        """Bring a relation into scope."""
        if alias.key in self.relations:
            first = self.relations[alias.key][0]
            self.report.add(
                "PQL208",
                alias.span,
                f'"{alias.text}" names two tables in this FROM clause',
                "give one of them another name with AS",
                [Note(first.span, "the first one is here")],
            )
            return
        self.relations[alias.key] = (alias, definition)

    def resolve(self, tree: exp.Expr, fallback: Span) -> exp.Expr:
        """The same expression with every column qualified by its relation and spelled as declared."""
        root = tree
        for column in list(tree.find_all(exp.Column)):
            if isinstance(column.this, exp.Star):
                continue
            resolved = self._column(column, span_of(column) or fallback)
            if column is root:
                root = resolved
            else:
                column.replace(resolved)
        return root

    def _column(self, column: exp.Column, span: Span) -> exp.Expr:
        parts = list(column.parts)
        if len(parts) > 1 and parts[0].name.lower() in self.relations:
            alias, definition = self.relations[parts[0].name.lower()]
            found = self._member(alias, definition, parts[1])
            rest = parts[2:]
        else:
            found = self._bare(parts, span)
            rest = parts[1:]
        for part in rest:
            found = exp.Dot(this=found, expression=exp.to_identifier(part.name, quoted=True))
        found.meta[SPAN] = tuple(span)
        return found

    def _member(self, alias: Name, definition: Definition, part: exp.Expr) -> exp.Expr:
        if definition.found is not None:
            place = span_of(part) or alias.span
            definition.found.setdefault(part.name.lower(), Name(part.name, place))
        name = definition.column(part.name)
        if name is None:
            if definition.columns is not None:
                known = [column.text for column in definition.columns]
                what = f'"{definition.name.text}"'
                self.report.add(
                    "PQL202",
                    span_of(part) or alias.span,
                    f'{what} has no column "{part.name}"',
                    self.report.suggest(part.name, known, listing=f"columns of {definition.name.text}"),
                )
            return _unknown(part.name)
        return _qualified(name.text, alias.text)

    def _bare(self, parts: list[exp.Expr], span: Span) -> exp.Expr:
        name = parts[0].name
        place = span_of(parts[0]) or span
        owners = [
            (alias, found)
            for alias, definition in self.relations.values()
            if definition.found is None and (found := definition.column(name)) is not None
        ]
        if len(owners) == 1 and all(d.columns is not None for _, d in self.relations.values()):
            return _qualified(owners[0][1].text, owners[0][0].text)
        if len(owners) > 1:
            choices = " or ".join(f"{alias.text}.{found.text}" for alias, found in owners)
            tables = " and ".join(f'"{alias.text}"' for alias, _ in owners)
            self.report.add(
                "PQL203", place, f'"{name}" is ambiguous: {tables} have such a column', f"write {choices}"
            )
        elif not owners and all(d.columns is not None for _, d in self.relations.values()):
            self._unknown_bare(name, len(parts) > 1, place)
        return _unknown(name)

    def _unknown_bare(self, name: str, qualified: bool, place: Span) -> None:
        if qualified:
            aliases = [alias.text for alias, _ in self.relations.values()]
            hidden = [a.text for a, d in self.relations.values() if d.name.key == name.lower()]
            self.report.add(
                "PQL201",
                place,
                f'there is no table or column "{name}" in this FROM clause',
                f"it is called {hidden[0]} here"
                if hidden
                else self.report.suggest(name, aliases, listing="tables here"),
            )
            return
        if name.lower() in self.outputs:
            self.report.add(
                "PQL202",
                place,
                f'"{name}" is an output name, which cannot be used in the same SELECT',
                "repeat its expression, or compute it in a view of its own",
                [Note(self.outputs[name.lower()], "it is defined here")],
            )
            return
        known = [column.text for _, d in self.relations.values() for column in d.columns or ()]
        self.report.add(
            "PQL202",
            place,
            f'there is no column "{name}"',
            self.report.suggest(name, known, listing="columns here"),
        )


def _qualified(name: str, alias: str) -> exp.Column:
    return exp.Column(this=identifier(name), table=identifier(alias))


def identifier(name: str) -> exp.Identifier:
    """An identifier, quoted where it must be."""
    return exp.Identifier(this=name, quoted=not _PLAIN.fullmatch(name))


def _unknown(name: str) -> exp.Column:
    """Stands for a column that has been reported; has no relation."""
    return exp.Column(this=identifier(name))


def relations_of(tree: exp.Expr) -> frozenset[str]:
    """Aliases of all relations that an expression refers to."""
    return frozenset(column.table for column in tree.find_all(exp.Column) if column.table)
