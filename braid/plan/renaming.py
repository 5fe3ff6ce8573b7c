"""A plan under another name: the categories that are its own are named after the application."""

from __future__ import annotations

from braid.core.json_values import Json
from braid.plan.serialise import plan_from_json, plan_to_json
from braid.plan.stages.base import Plan


def renamed(plan: Plan, application: str) -> Plan:
    """The same stages as another application."""
    own = f"{plan.application}."
    categories = [stage.sink.name for stage in plan.stages if stage.sink.internal]
    names = {name: f"{application}.{name.removeprefix(own)}" for name in categories}
    stages = _moved(plan_to_json(plan)["stages"], names)
    return plan_from_json({**plan_to_json(plan), "application": application, "stages": stages})


def _moved(value: Json, names: dict[str, str]) -> Json:
    """A JSON value with other names in the place of those of categories."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_moved(each, names) for each in value]
    if isinstance(value, dict):
        return {names.get(key, key): _moved(each, names) for key, each in value.items()}
    return value
