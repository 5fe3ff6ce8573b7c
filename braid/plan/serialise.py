"""The JSON form of a plan: stable, versioned, and read back exactly."""

from __future__ import annotations

import json

from braid.core.errors import SchemaError
from braid.core.json_values import Json
from braid.plan.kinds.registry import KINDS
from braid.plan.stages.base import SCHEMA_VERSION, Plan, Stage
from braid.plan.stages.fields import Fields, write_pairs


def plan_to_json(plan: Plan) -> dict[str, Json]:
    """The plan as plain JSON values."""
    return {
        "schema_version": plan.schema_version,
        "application": plan.application,
        "options": write_pairs(plan.options),
        "stages": [{"stage": stage.kind, **stage.to_json()} for stage in plan.stages],
    }


def plan_from_json(value: Json) -> Plan:
    """Read back what `plan_to_json` wrote, now or in an earlier version; the plan has the current one."""
    fields = Fields.of(value, "plan")
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


def loads(text: str | bytes) -> Plan:
    """Read back what `dumps` wrote."""
    try:
        value = json.loads(text)
    except ValueError as error:  # not JSON, or bytes that are not even text
        raise SchemaError(f"the plan is not JSON: {error}") from None
    return plan_from_json(value)


def _read_stage(value: Json) -> Stage:
    fields = Fields.of(value, "stage")
    return KINDS[fields.one_of("stage", tuple(KINDS))].from_json(fields)
