"""Connectors: what an application can read from and store in, with the options that each one takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class SourceKind(StrEnum):
    """Where input tables are read; the names are those of the language, and of stored plans."""

    SCRIBE = "scribe"
    KAFKA = "kafka"
    FILES = "files"

    @property
    def connector(self) -> SourceConnector:
        """What it takes and does."""
        return SOURCES[self]


class SinkKind(StrEnum):
    """Where tables are stored; the names are those of the language, and of stored plans."""

    SCRIBE = "scribe"
    HIVE = "hive"
    KAFKA = "kafka"
    LASER = "laser"
    CONSOLE = "console"

    @property
    def connector(self) -> SinkConnector:
        """What it takes and does."""
        return SINKS[self]


@dataclass(frozen=True)
class Connector:
    """A source or a sink, and its options.

    Parameters
    ----------
    main
        The argument that names the place, which may come without its name; empty if there is none.
    options
        Other options.
    prefix
        What options begin with that go on to what is behind the connector as they are; none if empty.
    lists
        Options that are lists of columns.
    choices
        Options that take one of some words.
    durations
        Options that take a length of time.
    characters
        Options that take a single character.
    """

    main: str
    options: tuple[str, ...] = ()
    prefix: str = ""
    lists: tuple[str, ...] = ()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    durations: tuple[str, ...] = ()
    characters: tuple[str, ...] = ()

    @property
    def known(self) -> list[str]:
        """All options that have a name here."""
        names = [name for name in (self.main, *self.options) if name]
        return [*names, f"{self.prefix}*"] if self.prefix else names

    def takes(self, option: str) -> bool:
        """Whether there is such an option, in small letters."""
        if self.prefix and option.startswith(self.prefix):
            return True
        return option in (name.lower() for name in (self.main, *self.options) if name)


@dataclass(frozen=True)
class SourceConnector(Connector):
    """A source.

    Parameters
    ----------
    logged
        Whether it is a category of the log, which other stages may write.
    formats
        Whether its records have one of several formats.
    """

    logged: bool = False
    formats: bool = False


@dataclass(frozen=True)
class SinkConnector(Connector):
    """A sink.

    Parameters
    ----------
    logged
        Whether it is a category of the log, which other stages may read.
    keyed
        Whether it keeps one row per key, which other stages may look up.
    filed
        Whether it is a folder of files.
    relayed
        Whether it has no commits: its rows are stored in a category, and passed on from there at least once.
    shared
        Whether several tables may be stored in one place.
    """

    logged: bool = False
    keyed: bool = False
    filed: bool = False
    relayed: bool = False
    shared: bool = False


_TRUTH = ("true", "false")
_READING = (
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "maxFileAge",
    "latestFirst",
    "fileNameOnly",
    "recursiveFileLookup",
    "pathGlobFilter",
    "modifiedAfter",
    "modifiedBefore",
    "cleanSource",
    "sourceArchiveDir",
)
"""Which files Spark reads, and when; see its guide to structured streaming."""
_TOPICS = (
    "brokers",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "failOnDataLoss",
    "minPartitions",
    "groupIdPrefix",
)
"""What Spark's Kafka connector takes beside settings of the consumer itself, which begin with `kafka.`."""

SOURCES: dict[SourceKind, SourceConnector] = {
    SourceKind.SCRIBE: SourceConnector("category", logged=True),
    SourceKind.KAFKA: SourceConnector("topic", _TOPICS, prefix="kafka."),
    SourceKind.FILES: SourceConnector(
        "path",
        ("format", "header", "delimiter", *_READING),
        choices={"format": ("json", "csv", "parquet"), "header": _TRUTH},
        characters=("delimiter",),
        formats=True,
    ),
}
SINKS: dict[SinkKind, SinkConnector] = {
    SinkKind.SCRIBE: SinkConnector("category", logged=True),
    SinkKind.HIVE: SinkConnector("table", ("path", "time"), filed=True),
    SinkKind.KAFKA: SinkConnector("topic", ("brokers",), prefix="kafka.", relayed=True),
    SinkKind.LASER: SinkConnector(
        "table",
        ("key", "value", "ttl"),
        lists=("key", "value"),
        durations=("ttl",),
        keyed=True,
    ),
    SinkKind.CONSOLE: SinkConnector("", relayed=True, shared=True),
}
