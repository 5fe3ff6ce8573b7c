"""What the records of a home have in common: JSON is read into types where it enters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError

from braid.core.counters import Counters, from_json, to_json
from braid.core.errors import RunError
from braid.home.files import read_json, write_json


def _counters(value: object) -> Counters:
    return value if isinstance(value, Counters) else from_json(value)


CountersField = Annotated[
    Counters, BeforeValidator(_counters), PlainSerializer(to_json, return_type=dict[str, object])
]
"""Counters within a record, by their own codec."""


class Record(BaseModel):
    """A record in a JSON file; names that it does not know, of another version, are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def write(self, path: Path, *, durable: bool = True) -> None:
        """Write the file so that readers see the old or the new one, never a part."""
        write_json(path, self.model_dump(mode="json"), durable=durable)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The record in a file; None if there is no such file, `RunError` if it holds something else."""
        value = read_json(path)
        return None if value is None else cls.of_json(value, where=str(path))

    @classmethod
    def of_json(cls, value: object, where: str) -> Self:
        """The record that a JSON value is; `where` tells a reader of errors where it comes from."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"])) or "the value"
            raise RunError(
                f"{name} is {first['input']!r}: {first['msg']}", where=where, hint="remove the damaged file"
            ) from None
