"""What a lookup table is, in a checksummed record that is replaced whole after every change."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

import pyarrow as pa

from braid.core.errors import ConfigError, SchemaError, StoreError
from braid.log.hashing import hash_rows
from braid.log.sealed import FORMAT, check_format, seal, unseal
from braid.log.storage import Storage
from braid.stores.lookup.rows import check_columns
from braid.stores.lookup.values import MAX_COLUMNS

FILE = "table.json"
"""The settings, in the table's folder. A table without it does not exist."""
LOCK = ".lock"
DATA_PREFIX = "data-"
"""Folders with RocksDB files; the settings say which one counts."""


@dataclass(frozen=True)
class Settings:
    """The content of `table.json`.

    Parameters
    ----------
    key, value
        Columns by name and type.
    ttl
        Microseconds after which a row that was not written again is gone; None keeps it.
    generation
        Which folder holds the rows; loading with replacement makes a new one.
    version
        Counts changes. What the folder holds may be newer, if a writer was stopped before it said so,
        but if it is older, then files are lost.
    """

    key: pa.Schema
    value: pa.Schema
    ttl: int | None = None
    generation: int = 0
    version: int = 0

    @property
    def data(self) -> str:
        """Name of the folder with the rows."""
        return f"{DATA_PREFIX}{self.generation}"

    def save(self, folder: Path) -> None:
        """Replace what is stored, durably; whoever looks sees the old or the new settings."""
        record: _Record = {
            "format": FORMAT,
            "key": {column.name: str(column.type) for column in self.key},
            "value": {column.name: str(column.type) for column in self.value},
            "arrow_key": _packed(self.key),
            "arrow_value": _packed(self.value),
            "ttl": self.ttl,
            "generation": self.generation,
            "version": self.version,
        }
        Storage.open(folder).replace(FILE, seal(record))

    @classmethod
    def load(cls, folder: Path) -> Settings:
        """The settings of a table's folder."""
        return cls.unseal(read_record(folder), str(folder / FILE))

    @classmethod
    def unseal(cls, data: bytes, where: str) -> Settings:
        """The settings of a stored record."""
        record: _Record = json.loads(unseal(data, where))
        check_format(record["format"], where)
        return cls(
            _unpacked(record["arrow_key"]),
            _unpacked(record["arrow_value"]),
            record["ttl"],
            record["generation"],
            record["version"],
        )


def read_record(folder: Path) -> bytes:
    """The stored settings of a table, as they are; raise `StoreError` if there are none."""
    try:
        return (folder / FILE).read_bytes()
    except OSError as error:
        raise StoreError(
            f"the lookup table cannot be read: {error.strerror}",
            where=str(folder),
            hint="check that it exists: braid lookup tables",
        ) from error


class _Record(TypedDict):
    format: int
    key: dict[str, str]
    value: dict[str, str]
    arrow_key: str
    arrow_value: str
    ttl: int | None
    generation: int
    version: int


def declare(table: str, key: pa.Schema, value: pa.Schema, ttl: int | None) -> Settings:
    """Settings of a new table, checked."""
    where = f"lookup table {table}"
    if not len(key):
        raise SchemaError("a lookup table needs a key", where=where, hint="name at least one key column")
    check_columns(pa.schema([*key, *value]), where)
    if len(value) > MAX_COLUMNS:
        raise SchemaError(f"{len(value)} columns are too many", where=where, hint=f"at most {MAX_COLUMNS}")
    if ttl is not None and ttl <= 0:
        raise ConfigError(f"a ttl of {ttl} microseconds keeps nothing", where=where, hint="use a longer one")
    key, value = check_columns(key, where), check_columns(value, where)
    hash_rows([pa.array([], column.type) for column in key])  # refuses types that cannot be keys
    return Settings(key, value, ttl)


def evolve(table: str, old: Settings, new: Settings) -> Settings:
    """Settings of an existing table with a new declaration's columns and ttl."""
    where = f"lookup table {table}"
    if dict(zip(new.key.names, new.key.types, strict=True)) != dict(
        zip(old.key.names, old.key.types, strict=True)
    ):
        raise SchemaError(
            f"the key is ({_listed(old.key)}) and cannot become ({_listed(new.key)})",
            where=where,
            hint="write to a table of another name, or load it again with --replace",
        )
    for column in new.value:
        index = old.value.get_field_index(column.name)
        if index >= 0 and old.value.field(index).type != column.type:
            raise SchemaError(
                f"column {column.name!r} is stored as {old.value.field(index).type} and cannot become "
                f"{column.type}",
                where=where,
                hint="write it under another name, or load the table again with --replace",
            )
    added = [column for column in new.value if column.name not in old.value.names]
    return replace(old, value=pa.schema([*old.value, *added]), ttl=new.ttl)


def _listed(columns: Sequence[pa.Field] | pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns)


def _packed(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def _unpacked(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
