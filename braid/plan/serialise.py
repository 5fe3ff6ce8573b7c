"""The JSON form of a plan: stable, versioned, and read back exactly."""

from __future__ import annotations

import json
from collections.abc import Mapping

from braid.errors import SchemaError
from braid.kernels.predicate import Json, predicate_from_json
from braid.kernels.side import Side
from braid.kernels.spec import JoinType, MatchMode, OutputColumn
from braid.plan.stages import (
    SCHEMA_VERSION,
    Column,
    JoinInput,
    JoinStage,
    Plan,
    Projection,
    Sink,
    SlicerStage,
    Source,
    Stage,
)

Pairs = tuple[tuple[str, str], ...]


def plan_to_json(plan: Plan) -> dict[str, Json]:
    """The plan as plain JSON values."""
    return {
        "schema_version": plan.schema_version,
        "application": plan.application,
        "options": _pairs(plan.options),
        "stages": [_stage(stage) for stage in plan.stages],
    }


def plan_from_json(value: Json) -> Plan:
    """Read back what `plan_to_json` wrote."""
    fields = _Fields.of(value, "plan")
    version = fields.integer("schema_version")
    if version != SCHEMA_VERSION:
        raise SchemaError(
            f"the plan has schema version {version}, but this version of Braid reads {SCHEMA_VERSION}",
            hint="compile the application again with `braid explain --format json`",
        )
    return Plan(
        application=fields.text("application"),
        stages=tuple(_read_stage(item) for item in fields.items("stages")),
        options=fields.pairs("options"),
        schema_version=version,
    )


def dumps(plan: Plan) -> str:
    """The plan as JSON text, indented."""
    return json.dumps(plan_to_json(plan), indent=2, ensure_ascii=False)


def loads(text: str) -> Plan:
    """Read back what `dumps` wrote."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"the plan is not JSON: {error}") from None
    return plan_from_json(value)


def _pairs(pairs: Pairs) -> Json:
    return [[name, value] for name, value in pairs]


def _projection(column: Projection) -> Json:
    return {"name": column.name, "sql": column.sql, "type": column.type}


def _sink(sink: Sink) -> Json:
    return {
        "kind": sink.kind,
        "name": sink.name,
        "options": _pairs(sink.options),
        "shard_by": sink.shard_by,
        "internal": sink.internal,
        "time_columns": list(sink.time_columns),
    }


def _source(source: Source) -> Json:
    return {
        "kind": source.kind,
        "name": source.name,
        "columns": [{"name": c.name, "type": c.type} for c in source.columns],
        "format": source.format,
        "time": source.time,
        "time_unit": source.time_unit,
        "options": _pairs(source.options),
        "internal": source.internal,
    }


def _stage(stage: Stage) -> Json:
    if isinstance(stage, SlicerStage):
        join = stage.join_input
        return {
            "stage": "slicer",
            "name": stage.name,
            "source": _source(stage.source),
            "filter": stage.filter,
            "columns": [_projection(c) for c in stage.columns],
            "join_input": None
            if join is None
            else {
                "keys": [_projection(c) for c in join.keys],
                "time": _projection(join.time),
                "live": join.live,
            },
            "sink": _sink(stage.sink),
        }
    return {
        "stage": "join",
        "name": stage.name,
        "left": stage.left,
        "right": stage.right,
        "type": stage.type.value,
        "match": stage.match.value,
        "lower": stage.lower,
        "upper": stage.upper,
        "keys": stage.keys,
        "residual": None if stage.residual is None else stage.residual.to_json(),
        "output": [{"name": c.name, "side": c.side.value, "column": c.column} for c in stage.output],
        "filter": stage.filter,
        "columns": [_projection(c) for c in stage.columns],
        "table": stage.table,
        "sink": _sink(stage.sink),
    }


class _Fields:
    """Typed access to the fields of a JSON object; every mistake names the field."""

    def __init__(self, what: str, values: Mapping[str, Json]) -> None:
        self._what = what
        self._values = values

    @classmethod
    def of(cls, value: Json, what: str) -> _Fields:
        if not isinstance(value, dict):
            raise SchemaError(f"a {what} must be a JSON object, not {value!r}")
        return cls(what, value)

    def get(self, name: str) -> Json:
        if name not in self._values:
            raise SchemaError(f"a {self._what} lacks the field {name!r}")
        return self._values[name]

    def text(self, name: str) -> str:
        value = self.get(name)
        return value if isinstance(value, str) else self._bad(name, value, "text")

    def optional(self, name: str) -> str | None:
        return None if self.get(name) is None else self.text(name)

    def integer(self, name: str) -> int:
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            self._bad(name, value, "an integer")
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        value = self.get(name)
        if not isinstance(value, bool):
            self._bad(name, value, "true or false")
        return bool(value)

    def items(self, name: str) -> list[Json]:
        value = self.get(name)
        if not isinstance(value, list):
            self._bad(name, value, "a list")
        assert isinstance(value, list)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(
            item if isinstance(item, str) else self._bad(name, item, "text") for item in self.items(name)
        )

    def pairs(self, name: str) -> Pairs:
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
        value = self.text(name)
        return value if value in valid else self._bad(name, value, f"one of {', '.join(valid)}")

    def _bad(self, name: str, value: Json, expected: str) -> str:
        raise SchemaError(f"the field {name!r} of a {self._what} is {value!r}, but must be {expected}")


def _read_projection(value: Json) -> Projection:
    fields = _Fields.of(value, "column")
    return Projection(fields.text("name"), fields.text("sql"), fields.text("type"))


def _read_sink(value: Json) -> Sink:
    fields = _Fields.of(value, "sink")
    return Sink(
        kind=fields.text("kind"),
        name=fields.text("name"),
        options=fields.pairs("options"),
        shard_by=fields.optional("shard_by"),
        internal=fields.flag("internal"),
        time_columns=fields.texts("time_columns"),
    )


def _read_source(value: Json) -> Source:
    fields = _Fields.of(value, "source")
    columns = (_Fields.of(item, "column") for item in fields.items("columns"))
    return Source(
        kind=fields.text("kind"),
        name=fields.text("name"),
        columns=tuple(Column(c.text("name"), c.text("type")) for c in columns),
        format=fields.text("format"),
        time=fields.optional("time"),
        time_unit=fields.text("time_unit"),
        options=fields.pairs("options"),
        internal=fields.flag("internal"),
    )


def _read_join_input(value: Json) -> JoinInput | None:
    if value is None:
        return None
    fields = _Fields.of(value, "join input")
    return JoinInput(
        keys=tuple(_read_projection(item) for item in fields.items("keys")),
        time=_read_projection(fields.get("time")),
        live=fields.optional("live"),
    )


def _read_output(value: Json) -> OutputColumn:
    fields = _Fields.of(value, "output column")
    side = fields.one_of("side", tuple(Side))
    return OutputColumn(fields.text("name"), Side(side), fields.text("column"))


def _read_stage(value: Json) -> Stage:
    fields = _Fields.of(value, "stage")
    columns = tuple(_read_projection(item) for item in fields.items("columns"))
    if fields.one_of("stage", ("slicer", "join")) == "slicer":
        return SlicerStage(
            name=fields.text("name"),
            source=_read_source(fields.get("source")),
            columns=columns,
            sink=_read_sink(fields.get("sink")),
            filter=fields.optional("filter"),
            join_input=_read_join_input(fields.get("join_input")),
        )
    residual = fields.get("residual")
    return JoinStage(
        name=fields.text("name"),
        left=fields.text("left"),
        right=fields.text("right"),
        type=JoinType(fields.one_of("type", tuple(JoinType))),
        match=MatchMode(fields.one_of("match", tuple(MatchMode))),
        lower=fields.integer("lower"),
        upper=fields.integer("upper"),
        keys=fields.integer("keys"),
        output=tuple(_read_output(item) for item in fields.items("output")),
        columns=columns,
        sink=_read_sink(fields.get("sink")),
        residual=None if residual is None else predicate_from_json(residual),
        filter=fields.optional("filter"),
        table=fields.optional("table"),
    )
