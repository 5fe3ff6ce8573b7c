"""Sources, storages and options: which exist, and what they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from braid.core.config import AppConfig, parse_duration, parse_options
from braid.core.connectors import Connector, SinkKind, SourceKind
from braid.core.errors import ConfigError
from braid.lang.errors import Note, Report
from braid.lang.query import InputSource, Options
from braid.lang.syntax.tree import Argument, Call, Name

_Kind = TypeVar("_Kind", bound=StrEnum)


def read_source(call: Call, report: Report) -> InputSource | None:
    """The source of an input table, or None when it has been reported."""
    kind = _kind(call, SourceKind, "source", report)
    found = None if kind is None else _read(call, kind.connector, report)
    if kind is None or found is None:
        return None
    name, options = found
    format_ = "json"
    if kind.connector.formats:
        format_ = dict(options).get("format", format_).lower()
        options = tuple((key, value) for key, value in options if key != "format")
    return InputSource(kind, name, format_, options)


def read_storage(call: Call, report: Report) -> tuple[SinkKind, str, Options] | None:
    """Kind, name and options of a table's storage, or None when it has been reported."""
    kind = _kind(call, SinkKind, "storage", report)
    found = None if kind is None else _read(call, kind.connector, report)
    return None if kind is None or found is None else (kind, *found)


def _kind(call: Call, kinds: type[_Kind], what: str, report: Report) -> _Kind | None:
    """The source or storage that is called, or None when it has been reported."""
    text = call.kind.text
    if text in list(kinds):
        return kinds(text)
    hint = report.suggest(text, [kind.upper() for kind in kinds], listing=f"each {what} is one of")
    report.add("PQL503", call.kind.span, f'there is no {what} "{text.upper()}"', hint)
    return None


def read_record(
    call: Call, columns: Sequence[Name], report: Report
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Keys and values of a LASER table among its columns; values are all others unless they are listed."""
    before = report.error_count
    given = {argument.name.key: argument for argument in call.arguments if argument.name is not None}
    known = {name.key: name.text for name in columns}
    lists: dict[str, tuple[str, ...]] = {}
    for option in ("key", "value"):
        names = given[option].names if option in given else ()
        for name in names:
            if name.key not in known:
                hint = report.suggest(name.text, known.values(), listing="columns are")
                report.add("PQL202", name.span, f'there is no column "{name.text}"', hint)
        lists[option] = tuple(dict.fromkeys(known.get(name.key, name.text) for name in names))
        if len(lists[option]) < len(names):
            report.add("PQL205", given[option].span, f"a column is listed twice in {option}", "remove one")
    if "key" not in given:
        report.add(
            "PQL504", call.span, "LASER needs a key", 'write LASER(table = "...", key = (column, ...))'
        )
    both = [name for name in lists["value"] if name in lists["key"]]
    if both:
        report.add("PQL502", given["value"].span, f'"{both[0]}" is a key already', "list it once")
    if report.error_count > before:
        return None
    if "value" not in given:
        lists["value"] = tuple(name.text for name in columns if name.text not in lists["key"])
    return lists["key"], lists["value"]


def _read(call: Call, kind: Connector, report: Report) -> tuple[str, Options] | None:
    """The place and the other options, checked by what the connector declares."""
    named = _options(call.arguments, report)
    unnamed = [argument for argument in call.arguments if argument.name is None]
    for extra in unnamed[1:] if kind.main else unnamed:
        report.add("PQL502", extra.span, f'"{extra.value}" has no name', "write name = value")
    before = report.error_count
    for key, argument in named.items():
        if not kind.takes(key):
            hint = report.suggest(key, kind.known, listing=f"{call.kind.text.upper()} takes")
            report.add("PQL501", argument.span, f'there is no option "{key}"', hint)
    _check_lists(call, kind, report)
    named = {key: argument for key, argument in named.items() if key not in kind.lists}
    _check_values(named, kind, report)
    if not kind.main:
        return "", tuple((key, argument.value) for key, argument in named.items())
    main = named.pop(kind.main, None)
    if main is None and unnamed:
        main = unnamed[0]
    elif main is not None and unnamed:
        report.add("PQL501", main.span, f"the {kind.main} is given twice")
    if main is None and report.error_count > before:
        return None
    if main is None or not main.value.strip():
        upper = call.kind.text.upper()
        report.add(
            "PQL504",
            call.span if main is None else main.span,
            f"{upper} needs a {kind.main}",
            f'write {upper}({kind.main} = "...")',
        )
        return None
    return main.value, tuple((key, argument.value) for key, argument in named.items())


def _check_lists(call: Call, kind: Connector, report: Report) -> None:
    """Columns are listed where columns are asked for, and nowhere else."""
    for argument in call.arguments:
        key = argument.name.key if argument.name is not None else ""
        if argument.names and key not in kind.lists:
            text = f"{key or 'this'} takes a value, not a list of columns"
            report.add("PQL502", argument.span, text, "write a string or a number")
        elif key in kind.lists and not argument.names:
            text = f"{key} takes a list of columns"
            report.add("PQL502", argument.span, text, f"write {key} = (column, ...)")


def _check_values(named: Mapping[str, Argument], kind: Connector, report: Report) -> None:
    """Words are among the choices, characters are single, and lengths of time can be read."""
    for key, argument in named.items():
        if key in kind.choices and argument.value.lower() not in kind.choices[key]:
            hint = report.suggest(argument.value.lower(), kind.choices[key], listing=f"{key} is one of")
            report.add("PQL502", argument.span, f'"{argument.value}" is not a value of {key}', hint)
        elif key in kind.characters and len(argument.value) != 1:
            text = f'"{argument.value}" is not one character'
            report.add("PQL502", argument.span, text, f"write for example {key} = ';'")
        elif key in kind.durations:
            try:
                parse_duration(argument.value)
            except ValueError as error:
                report.add("PQL502", argument.span, str(error), f"write for example {key} = '1 day'")


def _options(arguments: Sequence[Argument], report: Report) -> dict[str, Argument]:
    """Named arguments by lower-case name; reports those given twice."""
    found: dict[str, Argument] = {}
    for argument in arguments:
        if argument.name is None:
            continue
        key = argument.name.key
        if key in found:
            note = Note(found[key].span, "the first value is here")
            report.add("PQL501", argument.span, f'option "{key}" is given twice', "remove one", [note])
        found.setdefault(key, argument)
    return found


def read_options(name: Name, arguments: Sequence[Argument], report: Report) -> Options:
    """Options of the application, each checked against `braid.core.config`."""
    for argument in arguments:
        if argument.name is None:
            report.add("PQL501", argument.span, f'"{argument.value}" has no name', "write name = value")
        if argument.names:
            report.add("PQL502", argument.span, "options take a value, not a list", "write one value")
    named = _options(arguments, report)
    for key, argument in named.items():
        if key not in AppConfig.model_fields:
            hint = report.suggest(key, sorted(AppConfig.model_fields), listing="options are")
            report.add("PQL501", argument.span, f'there is no option "{key}"', hint)
            continue
        try:
            parse_options({key: argument.value})
        except ConfigError as error:
            report.add("PQL502", argument.span, error.what.replace("Value error, ", ""), error.hint)
    return tuple((key, argument.value) for key, argument in named.items())
