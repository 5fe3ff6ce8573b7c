"""What a category is made of, how it is stored, and how it may change: by name, never by position."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NotRequired, TypedDict

import pyarrow as pa

from braid.core.columns import HASH, RAW_COLUMN
from braid.core.errors import LogError, SchemaError
from braid.core.owner import NOBODY, Owner
from braid.log.layout import shard_boundaries
from braid.log.sealed import FORMAT, check_format, seal, unseal
from braid.log.segments import SegmentEntry, SegmentRecord, segment_of

WITH_SEGMENTS = 2
"""Format of the settings of a category with segments: older versions would not find the commits in them."""

RAW_SCHEMA = pa.schema([pa.field(RAW_COLUMN, pa.string())])


@dataclass(frozen=True)
class Settings:
    """The content of `category.json`.

    `first` is the oldest commit that retention has left, and `removed_max_time` the latest event time
    among the removed rows, per time column. Time columns may be named before the schema has them.
    `segments` hold the oldest commits, in order and from `first` on without gaps; those before `first` are
    retired, and listed until their files go. `owner` is the application that writes it; None for an input
    that is open to all.
    """

    schema: pa.Schema
    shards: int
    time_columns: tuple[str, ...]
    raw: bool
    first: int = 0
    removed_max_time: Mapping[str, int] = field(default_factory=dict)
    segments: tuple[SegmentEntry, ...] = ()
    owner: Owner | None = None

    @property
    def covered(self) -> int:
        """The last commit that has no record of its own any more: removed, or in a segment."""
        return max(self.first - 1, self.segments[-1].last if self.segments else -1)

    @property
    def live_segments(self) -> tuple[SegmentEntry, ...]:
        """The segments that are not retired."""
        return tuple(entry for entry in self.segments if entry.first >= self.first)

    def segment_of(self, commit: int) -> SegmentEntry | None:
        """The segment that holds a commit, if one does."""
        return segment_of(self.segments, commit)

    def seal(self) -> bytes:
        """The settings as they are stored."""
        record: _SettingsRecord = {
            "format": WITH_SEGMENTS if self.segments else FORMAT,
            "columns": {column.name: str(column.type) for column in self.schema},
            "arrow_schema": base64.b64encode(self.schema.serialize()).decode(),
            "shards": self.shards,
            "time_columns": list(self.time_columns),
            "raw": self.raw,
            "first": self.first,
            "removed_max_time": dict(self.removed_max_time),
        }
        if self.segments:
            record["segments"] = [entry.pack() for entry in self.segments]
        if self.owner is not None:
            record["owner"] = (self.owner.application, self.owner.stage)
        return seal(record)

    @classmethod
    def unseal(cls, data: bytes, where: str) -> Settings:
        """The settings of a stored record."""
        record: _SettingsRecord = json.loads(unseal(data, where))
        check_format(record["format"], where, FORMAT, WITH_SEGMENTS)
        return cls(
            pa.ipc.read_schema(pa.py_buffer(base64.b64decode(record["arrow_schema"]))),
            record["shards"],
            tuple(record["time_columns"]),
            record["raw"],
            record["first"],
            record["removed_max_time"],
            tuple(SegmentEntry.unpack(entry) for entry in record.get("segments", [])),
            Owner(*record["owner"]) if "owner" in record else None,
        )


class _SettingsRecord(TypedDict):
    format: int
    columns: dict[str, str]
    arrow_schema: str
    shards: int
    time_columns: list[str]
    raw: bool
    first: int
    removed_max_time: dict[str, int]
    segments: NotRequired[list[SegmentRecord]]
    owner: NotRequired[tuple[str, str]]


def declare(
    category: str,
    schema: pa.Schema | None,
    shards: int,
    time_columns: Sequence[str],
    raw: bool,
    owner: Owner | None = None,
) -> Settings:
    """Settings of a new category, checked; dictionary columns become plain ones."""
    if raw:
        if schema is not None and plain(category, schema) != RAW_SCHEMA:
            raise SchemaError(
                f"a raw category has one string column {RAW_COLUMN!r}, not {', '.join(schema.names)}",
                where=f"category {category}",
                hint="leave the schema out, or create a typed category",
            )
        return Settings(RAW_SCHEMA, 1, (), True, owner=owner)
    if schema is None or not len(schema):
        raise SchemaError(
            "a typed category needs columns", where=f"category {category}", hint="pass a schema, or raw=True"
        )
    shard_boundaries(shards)
    schema = plain(category, schema)
    for column in schema:
        if column.name == HASH and column.type != pa.int64():
            raise _wrong_type(category, column, "the hash must be int64")
        if column.name in time_columns and not is_time(column.type):
            raise _wrong_type(
                category, column, "a time column must be int64 microseconds, a timestamp or a date"
            )
    shards = shards if HASH in schema.names else 1
    return Settings(schema, shards, tuple(time_columns), False, owner=owner)


def evolve(category: str, old: Settings, new: Settings) -> Settings:
    """Settings with the columns of both; a column that both have must have one type, and one writer."""
    if new.owner and old.owner not in (None, NOBODY) and old.owner.application != new.owner.application:
        raise LogError(
            f"{old.owner.text} writes it, so {new.owner.text} cannot",
            where=f"category {category}",
            hint=f"choose another category, or: braid release {old.owner.application}",
        )
    if old.raw != new.raw:
        now, then = ("raw", "typed") if old.raw else ("typed", "raw")
        raise SchemaError(
            f"the category is {now} and cannot become {then}",
            where=f"category {category}",
            hint="write to a category of another name, or drop this one: one that was made as an empty input "
            "is raw, so start what writes it first",
        )
    for column in new.schema:
        stored = old.schema.get_field_index(column.name)
        if stored >= 0:
            check_type(category, column.name, old.schema.field(stored).type, column.type)
        elif column.name == HASH:
            raise SchemaError(
                f"the category has rows without {HASH}, which cannot be sorted by it any more",
                where=f"category {category}",
                hint="write to a category of another name, or drop this one",
            )
    added = [column for column in new.schema if column.name not in old.schema.names]
    return replace(
        old,
        schema=pa.schema([*old.schema, *added]),
        shards=new.shards if HASH in new.schema.names else old.shards,
        time_columns=tuple(dict.fromkeys((*old.time_columns, *new.time_columns))),
        owner=new.owner or old.owner,
    )


def check_type(category: str, column: str, stored: pa.DataType, given: pa.DataType) -> None:
    """Raise `SchemaError` unless a column's new type is the one it is stored with."""
    if stored != given:
        raise SchemaError(
            f"column {column!r} is stored as {stored} and cannot change to {given}",
            where=f"category {category}",
            hint=f"cast it to {stored}, or write it under another name",
        )


def is_time(kind: pa.DataType) -> bool:
    """Whether a column of this type can be a time column."""
    return bool(pa.types.is_int64(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def plain(category: str, schema: pa.Schema) -> pa.Schema:
    """Columns by name and type only: nullable, without metadata, and dictionaries as what they stand for."""
    columns: dict[str, pa.Field] = {}
    for column in schema:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if column.name in columns:
            raise SchemaError(
                f"column {column.name!r} occurs twice",
                where=f"category {category}",
                hint="rename one of them",
            )
        if _holds_dictionary(kind):
            raise _wrong_type(category, column, "dictionaries inside nested types cannot be stored")
        columns[column.name] = pa.field(column.name, kind)
    return pa.schema(list(columns.values()))


def _holds_dictionary(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or any(
        _holds_dictionary(kind.field(i).type) for i in range(kind.num_fields)
    )


def _wrong_type(category: str, column: pa.Field, rule: str) -> SchemaError:
    return SchemaError(
        f"column {column.name!r} has type {column.type}: {rule}",
        where=f"category {category}",
        hint="cast the column, or name it differently",
    )
