"""The JSON form of a plan: stable, versioned, and read back exactly."""

from __future__ import annotations

import json
from collections.abc import Mapping

from braid.core.errors import SchemaError
from braid.core.json_values import Json
from braid.core.side import Side
from braid.kernels.join.predicate import predicate_from_json
from braid.kernels.join.spec import JoinType, MatchMode, Neighbour, OutputColumn, SeriesMode
from braid.plan.stages import (
    SCHEMA_VERSION,
    Column,
    JoinInput,
    JoinStage,
    LookupColumn,
    LookupJoin,
    Plan,
    Projection,
    Sink,
    SlicerStage,
    Source,
    Stage,
    TimeColumn,
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
    """Read back what `plan_to_json` wrote, now or in an earlier version; the plan has the current one."""
    fields = _Fields.of(value, "plan")
    version = fields.integer("schema_version")
    if not 1 <= version <= SCHEMA_VERSION:
        raise SchemaError(
            f"the plan has schema version {version}, but this version of Braid reads up to {SCHEMA_VERSION}",
            hint="compile the application again with `braid explain --format json`",
        )
    return Plan(
        application=fields.text("application"),
        stages=tuple(_read_stage(item) for item in fields.items("stages")),
        options=fields.pairs("options"),
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
        "keys": list(sink.keys),
        "values": list(sink.values),
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
        "disorder": source.disorder,
    }


def _lookup(lookup: LookupJoin) -> Json:
    return {
        "table": lookup.table,
        "type": lookup.type.value,
        "keys": [_projection(c) for c in lookup.keys],
        "columns": [{"name": c.name, "column": c.column, "type": c.type} for c in lookup.columns],
    }


def _output(column: OutputColumn) -> Json:
    neighbour = None if column.neighbour is None else column.neighbour.value
    return {"name": column.name, "side": column.side.value, "column": column.column, "neighbour": neighbour}


def _time_column(time: TimeColumn) -> Json:
    return {"column": time.column, "side": time.side.value, "input": time.input, "lag": time.lag}


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
            "lookups": [_lookup(lookup) for lookup in stage.lookups],
            "watermarks": _pairs(stage.watermarks),
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
        "output": [_output(c) for c in stage.output],
        "filter": stage.filter,
        "columns": [_projection(c) for c in stage.columns],
        "table": stage.table,
        "sink": _sink(stage.sink),
        "series": None if stage.series is None else stage.series.value,
        "within": stage.within,
        "inclusive": stage.inclusive,
        "consume": stage.consume,
        "pad_after": stage.pad_after,
        "lookups": [_lookup(lookup) for lookup in stage.lookups],
        "broadcast": None if stage.broadcast is None else stage.broadcast.value,
        "single_shard": stage.single_shard,
        "watermarks": [_time_column(time) for time in stage.watermarks],
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

    def has(self, name: str) -> bool:
        """Whether a field is there, with a value: those of later versions may be missing."""
        return self._values.get(name) is not None

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

    def side(self, name: str) -> Side:
        return Side(self.one_of(name, tuple(Side)))

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
        keys=fields.texts("keys") if fields.has("keys") else (),
        values=fields.texts("values") if fields.has("values") else (),
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
        disorder=fields.integer("disorder") if fields.has("disorder") else None,
    )


def _read_lookups(fields: _Fields) -> tuple[LookupJoin, ...]:
    if not fields.has("lookups"):
        return ()
    return tuple(_read_lookup(_Fields.of(item, "lookup")) for item in fields.items("lookups"))


def _read_lookup(fields: _Fields) -> LookupJoin:
    columns = (_Fields.of(item, "column of a lookup") for item in fields.items("columns"))
    return LookupJoin(
        table=fields.text("table"),
        type=JoinType(fields.one_of("type", (JoinType.INNER, JoinType.LEFT))),
        keys=tuple(_read_projection(item) for item in fields.items("keys")),
        columns=tuple(LookupColumn(c.text("name"), c.text("column"), c.text("type")) for c in columns),
    )


def _read_time_column(value: Json) -> TimeColumn:
    fields = _Fields.of(value, "time column")
    side, lag = fields.side("side"), fields.integer("lag")
    return TimeColumn(fields.text("column"), side, fields.text("input"), lag)


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
    neighbour = Neighbour(fields.one_of("neighbour", tuple(Neighbour))) if fields.has("neighbour") else None
    return OutputColumn(fields.text("name"), fields.side("side"), fields.text("column"), neighbour)


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
            lookups=_read_lookups(fields),
            watermarks=fields.pairs("watermarks") if fields.has("watermarks") else (),
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
        series=SeriesMode(fields.one_of("series", tuple(SeriesMode))) if fields.has("series") else None,
        within=fields.integer("within") if fields.has("within") else None,
        inclusive=not fields.has("inclusive") or fields.flag("inclusive"),
        consume=fields.has("consume") and fields.flag("consume"),
        pad_after=fields.integer("pad_after") if fields.has("pad_after") else None,
        lookups=_read_lookups(fields),
        broadcast=fields.side("broadcast") if fields.has("broadcast") else None,
        single_shard=fields.has("single_shard") and fields.flag("single_shard"),
        watermarks=tuple(_read_time_column(item) for item in fields.items("watermarks"))
        if fields.has("watermarks")
        else (),
    )
