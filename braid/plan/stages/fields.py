"""JSON of what stages have in common, and typed access to the fields of JSON objects."""

from __future__ import annotations

from collections.abc import Mapping

from braid.core.connectors import SinkKind, SourceKind
from braid.core.errors import SchemaError
from braid.core.json_values import Json
from braid.core.side import Side
from braid.kernels.join.spec import JoinType
from braid.plan.stages.base import Column, LookupColumn, LookupJoin, Projection, Sink, Source
from braid.plan.stages.event_times import TimeColumn

Pairs = tuple[tuple[str, str], ...]


class Fields:
    """Typed access to the fields of a JSON object; every mistake names the field."""

    def __init__(self, what: str, values: Mapping[str, Json]) -> None:
        self._what = what
        self._values = values

    @classmethod
    def of(cls, value: Json, what: str) -> Fields:
        """The fields of a JSON object; `what` names it in errors."""
        if not isinstance(value, dict):
            raise SchemaError(f"a {what} must be a JSON object, not {value!r}")
        return cls(what, value)

    def has(self, name: str) -> bool:
        """Whether a field is there, with a value: those of later versions may be missing."""
        return self._values.get(name) is not None

    def get(self, name: str) -> Json:
        """A field that must be there."""
        if name not in self._values:
            raise SchemaError(f"a {self._what} lacks the field {name!r}")
        return self._values[name]

    def text(self, name: str) -> str:
        """A text."""
        value = self.get(name)
        return value if isinstance(value, str) else self._bad(name, value, "text")

    def optional(self, name: str) -> str | None:
        """A text, or None for null."""
        return None if self.get(name) is None else self.text(name)

    def integer(self, name: str) -> int:
        """An integer."""
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            self._bad(name, value, "an integer")
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.get(name)
        if not isinstance(value, bool):
            self._bad(name, value, "true or false")
        return bool(value)

    def items(self, name: str) -> list[Json]:
        """A list."""
        value = self.get(name)
        if not isinstance(value, list):
            self._bad(name, value, "a list")
        assert isinstance(value, list)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(
            item if isinstance(item, str) else self._bad(name, item, "text") for item in self.items(name)
        )

    def integers(self, name: str) -> tuple[tuple[str, int], ...]:
        """An object of integers."""
        inner = Fields.of(self.get(name), name)
        return tuple((key, inner.integer(key)) for key in inner._values)

    def pairs(self, name: str) -> Pairs:
        """A list of pairs of texts."""
        pairs = []
        for item in self.items(name):
            if not (
                isinstance(item, list) and len(item) == 2 and all(isinstance(part, str) for part in item)
            ):
                self._bad(name, item, "a pair of texts")
            assert isinstance(item, list)
            pairs.append((str(item[0]), str(item[1])))
        return tuple(pairs)

    def one_of(self, name: str, valid: tuple[str, ...]) -> str:
        """One of some texts."""
        value = self.text(name)
        return value if value in valid else self._bad(name, value, f"one of {', '.join(valid)}")

    def side(self, name: str) -> Side:
        """A side of a join."""
        return Side(self.one_of(name, tuple(Side)))

    def _bad(self, name: str, value: Json, expected: str) -> str:
        raise SchemaError(f"the field {name!r} of a {self._what} is {value!r}, but must be {expected}")


def write_pairs(pairs: Pairs) -> Json:
    """Pairs as lists."""
    return [[name, value] for name, value in pairs]


def projection_json(column: Projection) -> Json:
    """A computed column."""
    return {"name": column.name, "sql": column.sql, "type": column.type}


def sink_json(sink: Sink) -> Json:
    """A sink."""
    return {
        "kind": sink.kind,
        "name": sink.name,
        "options": write_pairs(sink.options),
        "shard_by": sink.shard_by,
        "internal": sink.internal,
        "time_columns": list(sink.time_columns),
        "keys": list(sink.keys),
        "values": list(sink.values),
    }


def source_json(source: Source) -> Json:
    """A source."""
    return {
        "kind": source.kind,
        "name": source.name,
        "columns": [{"name": c.name, "type": c.type} for c in source.columns],
        "format": source.format,
        "time": source.time,
        "time_unit": source.time_unit,
        "options": write_pairs(source.options),
        "internal": source.internal,
        "disorder": source.disorder,
    }


def lookup_json(lookup: LookupJoin) -> Json:
    """A lookup join."""
    return {
        "table": lookup.table,
        "type": lookup.type.value,
        "keys": [projection_json(c) for c in lookup.keys],
        "columns": [{"name": c.name, "column": c.column, "type": c.type} for c in lookup.columns],
    }


def read_projection(value: Json) -> Projection:
    """Read a computed column."""
    fields = Fields.of(value, "column")
    return Projection(fields.text("name"), fields.text("sql"), fields.text("type"))


def read_sink(value: Json) -> Sink:
    """Read a sink."""
    fields = Fields.of(value, "sink")
    return Sink(
        kind=SinkKind(fields.one_of("kind", tuple(SinkKind))),
        name=fields.text("name"),
        options=fields.pairs("options"),
        shard_by=fields.optional("shard_by"),
        internal=fields.flag("internal"),
        time_columns=fields.texts("time_columns"),
        keys=fields.texts("keys") if fields.has("keys") else (),
        values=fields.texts("values") if fields.has("values") else (),
    )


def read_source(value: Json) -> Source:
    """Read a source."""
    fields = Fields.of(value, "source")
    columns = (Fields.of(item, "column") for item in fields.items("columns"))
    return Source(
        kind=SourceKind(fields.one_of("kind", tuple(SourceKind))),
        name=fields.text("name"),
        columns=tuple(Column(c.text("name"), c.text("type")) for c in columns),
        format=fields.text("format"),
        time=fields.optional("time"),
        time_unit=fields.text("time_unit"),
        options=fields.pairs("options"),
        internal=fields.flag("internal"),
        disorder=fields.integer("disorder") if fields.has("disorder") else None,
    )


def time_column_json(time: TimeColumn) -> Json:
    """An event time in an operator's output."""
    return {"column": time.column, "side": str(time.side), "input": time.input, "lag": time.lag}


def read_time_column(value: Json) -> TimeColumn:
    """Read an event time in an operator's output."""
    fields = Fields.of(value, "time column")
    return TimeColumn(fields.text("column"), fields.text("side"), fields.text("input"), fields.integer("lag"))


def read_lookups(fields: Fields) -> tuple[LookupJoin, ...]:
    """Read the lookups of a stage; plans of version 1 have none."""
    if not fields.has("lookups"):
        return ()
    return tuple(_read_lookup(Fields.of(item, "lookup")) for item in fields.items("lookups"))


def _read_lookup(fields: Fields) -> LookupJoin:
    columns = (Fields.of(item, "column of a lookup") for item in fields.items("columns"))
    return LookupJoin(
        table=fields.text("table"),
        type=JoinType(fields.one_of("type", (JoinType.INNER, JoinType.LEFT))),
        keys=tuple(read_projection(item) for item in fields.items("keys")),
        columns=tuple(LookupColumn(c.text("name"), c.text("column"), c.text("type")) for c in columns),
    )
