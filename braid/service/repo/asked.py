"""The YAML file beside a program: options, resources, and what somebody has agreed to."""

from __future__ import annotations

from enum import StrEnum

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from braid.client.models import Desired
from braid.core.errors import ConfigError
from braid.home.service import Resources

MOST_BYTES = 16_384
_DEEPEST = 8


class Consent(StrEnum):
    """What nobody does without being told to."""

    REPLAY = "replay"
    DISCARD = "discard"
    REMOVE = "remove"


class Asked(BaseModel):
    """What a YAML file asks for.

    Parameters
    ----------
    options, resources
        As with `braid deploy`.
    create
        Whether inputs that are not there are made, empty.
    agree
        What the update that is in the same commit may do.
    desired
        Whether the application should be running.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: dict[str, str] = Field(default_factory=dict)
    resources: Resources = Resources()
    create: bool = False
    agree: frozenset[Consent] = frozenset()
    desired: Desired = Desired.RUNNING

    @field_validator("desired")
    @classmethod
    def _may_be_wanted(cls, value: Desired) -> Desired:
        if value is Desired.DELETED:
            raise ValueError("the folder deletes nothing: braid delete NAME does")
        return value


def read_asked(text: str, path: str) -> Asked:
    """What a file asks for; `ConfigError` says what is wrong with it."""
    try:
        value = _plain(text, path)
        return Asked.model_validate({} if value in (None, "") else value)
    except yaml.YAMLError as error:
        raise ConfigError(f"it is not YAML: {_said(error)}", where=path) from None
    except ValidationError as error:
        raise _wrong(error, path) from None


def _plain(text: str, path: str) -> object:
    """Lists, mappings and texts: what stands there is what is meant, as with `--set`.

    The loader makes nothing else, so that `4`, `1:30` and `no` are not numbers or truth values of YAML's own.
    Its safe_load does; and it takes names that come twice.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise ConfigError("it has anchors or aliases (& and *)", where=path, hint="write it out")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise ConfigError(f"it has a tag, {tag!r}", where=path, hint="write it without tags")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise ConfigError(f"it is nested more than {_DEEPEST} deep", where=path)
        if isinstance(event, yaml.ScalarEvent) and not event.value.replace("\n", "").isprintable():
            raise ConfigError("it has characters that cannot be printed", where=path)
    return yaml.load(text, Loader=_TextLoader)


class _TextLoader(yaml.BaseLoader):
    """Refuses names that come twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        names = [str(getattr(key, "value", key)) for key, _ in node.value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise yaml.constructor.ConstructorError(
                None, None, f"{', '.join(twice)} comes twice", node.start_mark
            )
        return super().construct_mapping(node, deep)


def _said(error: yaml.YAMLError) -> str:
    """What is wrong, and where, in a line."""
    mark, what = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    context = getattr(error, "context", None) or ""
    if what and context.startswith("expected"):
        what = f"{context} {what}"
    where = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
    return f"{what or str(error).splitlines()[0]}{where}"


def _wrong(error: ValidationError, path: str) -> ConfigError:
    first = error.errors()[0]
    loc = first["loc"]
    name = ".".join(map(str, loc)) or "the file"
    fields = Resources.model_fields if loc[:1] == ("resources",) else Asked.model_fields
    if first["type"] == "extra_forbidden":
        return ConfigError(f"unknown name {name!r}", where=path, hint=f"valid names: {', '.join(fields)}")
    text = str(first["msg"]).removeprefix("Value error, ")
    hint = None if loc else f"it has these names, each with a value: {', '.join(fields)}"
    return ConfigError(f"{name}: {text}", where=path, hint=hint)
