"""What operators and sinks count: every figure declared once, with its meaning, its kind and how it merges.

A kernel fills a `Counters` record per step and shard. The same type travels to the sink, which merges those
of all shards and tasks, and on to metrics and status. `to_json` and `from_json` are its only codec.
To add a counter, add a field here, and count where it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum
from itertools import zip_longest
from operator import add, sub
from typing import NamedTuple, TypeVar

from braid.core.errors import StateError


class Kind(StrEnum):
    """What a figure of one micro-batch means for a whole run."""

    COUNTER = "counter"
    """Adds up over micro-batches."""
    GAUGE = "gauge"
    """How things stand after the micro-batch."""
    TIMING = "timing"
    """How long a part of the micro-batch took, in milliseconds."""


class Merge(StrEnum):
    """How the figures of several shards or tasks become one."""

    SUM = "sum"
    LAST = "last"
    LEAST = "least"
    ELEMENTWISE = "sum of elements"
    CONCATENATION = "concatenation"
    SUM_BY_KEY = "sum by key"
    LEAST_BY_KEY = "least by key"
    BY_INPUT = "by input"


class Declared(NamedTuple):
    """A figure as it is declared."""

    name: str
    meaning: str
    kind: Kind
    merge: Merge
    of_input: bool


# ruff: noqa: RUF009  what the functions below return is a `field`, not a default


def _number(meaning: str, kind: Kind = Kind.COUNTER) -> int:
    return field(default=0, metadata=_metadata(meaning, kind, Merge.SUM))


def _last(meaning: str) -> int | None:
    return field(default=None, metadata=_metadata(meaning, Kind.GAUGE, Merge.LAST))


def _least(meaning: str) -> int | None:
    return field(default=None, metadata=_metadata(meaning, Kind.GAUGE, Merge.LEAST))


def _milliseconds(meaning: str) -> float:
    return field(default=0.0, metadata=_metadata(meaning, Kind.TIMING, Merge.SUM))


def _numbers(meaning: str, kind: Kind = Kind.COUNTER, merge: Merge = Merge.ELEMENTWISE) -> list[int]:
    return field(default_factory=list, metadata=_metadata(meaning, kind, merge))


def _by_key(meaning: str, kind: Kind = Kind.COUNTER, merge: Merge = Merge.SUM_BY_KEY) -> dict[str, int]:
    return field(default_factory=dict, metadata=_metadata(meaning, kind, merge))


def _by_input(meaning: str) -> dict[str, InputCounters]:
    return field(default_factory=dict, metadata=_metadata(meaning, Kind.COUNTER, Merge.BY_INPUT))


def _metadata(meaning: str, kind: Kind, merge: Merge) -> dict[str, str]:
    return {"meaning": meaning, "kind": kind, "merge": merge}


@dataclass(slots=True)
class InputCounters:
    """What a stateful operator counts of one of its inputs."""

    rows: int = _number("Rows taken in.")
    behind: int = _number("Rows taken in behind the stream time of their own input.")
    late: int = _number("Rows taken in when a part of their window had left memory.")
    inert: int = _number("Rows that cannot match anything, such as those with a NULL key.")
    invalid: int = _number("Rows without a valid event time.")
    decided: int = _number("Rows that are done with: no further match can come. Each row once.")
    matched: int = _number("Rows decided that had a match; only of inputs of which that is known.")
    unmatched: int = _number("Rows decided without a match; only of inputs of which that is known.")
    padded_early: int = _number("Rows padded after a wait by the wall clock.")
    lost: dict[str, int] = _by_key("Rows that lost a possible match or could not take part, by reason.")
    pending: int = _number("Rows held.", Kind.GAUGE)
    blocks: int = _number("Blocks in which the rows held are.", Kind.GAUGE)
    oldest: int | None = _least("Oldest commit of which a block is held.")
    stream_time: int | None = _last("Stream time in microseconds, the same in all shards.")
    held: dict[str, int] = _by_key(
        "Least value of each carried time column among the rows held, in microseconds.",
        Kind.GAUGE,
        Merge.LEAST_BY_KEY,
    )

    def hold(self, blocks: int, oldest: int | None) -> None:
        """Say in how many blocks the rows held are, and which is the oldest commit of these."""
        self.blocks, self.oldest = blocks, oldest

    @property
    def match_rate(self) -> float | None:
        """Share of the rows decided that had a match; None if there are none, or it is not known of them."""
        known = self.matched + self.unmatched
        return self.matched / known if known > 0 else None


@dataclass(slots=True)
class Counters:
    """What a step, a task, a micro-batch or a run of a stage has counted."""

    rows_in: int = _number("Rows read, of all inputs, bad records among them.")
    filtered: int = _number("Rows read by a slicer that its filter, or an inner lookup, has left out.")
    refused: int = _number("Bad records among the rows that a slicer has read.")
    files_in: int = _number("Files read, by a slicer that reads them itself.")
    rows_out: int = _number("Rows written.")
    bytes_out: int = _number("Bytes written to a category.")
    files_out: int = _number("Files added to a table.")
    shard_rows: list[int] = _numbers("Rows written to a category, by shard.")
    dead: dict[str, int] = _by_key("Dead letters, by reason.")
    matches: int = _number("Pairs found.")
    rescued: int = _number("Matches of late rows that were found in the log.")
    lost_matches: int = _number("Matches of late rows that are known and were not emitted.")
    matches_after_padding: int = _number("Matches not emitted, since a row of theirs had come out padded.")
    keys_written: int = _number("Keys written to a lookup table.")
    superseded: int = _number("Rows not written to a lookup table, since it has a newer one of their key.")
    null_keys: int = _number("Rows not written to a lookup table, since they have no key.")
    distances_lower: list[int] = _numbers("Matches by log2 of their distance to the lower bound.")
    distances_upper: list[int] = _numbers("Matches by log2 of their distance to the upper bound.")
    epoch: int | None = _last("How many times a drained operator has begun anew.")
    state_bytes: int = _number("Bytes of checkpointed state.", Kind.GAUGE)
    rebuilt: int = _number(
        "Shards built from state and log, since their worker did not have them.", Kind.GAUGE
    )
    open_ms: float = _milliseconds("Opening shards, added up.")
    join_ms: float = _milliseconds("Steps of kernels, added up.")
    save_ms: float = _milliseconds("Saving the state of shards, added up.")
    store_ms: float = _milliseconds("Writing results of shards to files of their own, added up.")
    task_ms: list[int] = _numbers("Each task of the sink.", Kind.TIMING, Merge.CONCATENATION)
    inputs: dict[str, InputCounters] = _by_input("What is counted of each input, by its name.")

    @classmethod
    def over(cls, names: Iterable[str]) -> Counters:
        """Nothing yet, of inputs with these names."""
        return cls(inputs={str(name): InputCounters() for name in names})

    @property
    def pending(self) -> int:
        """Rows held, of all inputs."""
        return sum(counted.pending for counted in self.inputs.values())

    def input(self, name: str) -> InputCounters:
        """What is counted of an input; nothing if it is not known."""
        return self.inputs.get(name, InputCounters())

    def cumulative(self) -> Counters:
        """Only what adds up over micro-batches."""
        kept = _cumulative(self)
        kept.inputs = {name: _cumulative(counted) for name, counted in self.inputs.items()}
        return kept


def merge(parts: Iterable[Counters]) -> Counters:
    """One record of several, each figure merged as it is declared."""
    total = Counters()
    for part in parts:
        total = _merged(total, part)
    return total


def difference(later: Counters, earlier: Counters) -> Counters:
    """What has been counted between two moments, given what adds up until each of them."""
    return _difference(later, earlier)


def declared() -> list[Declared]:
    """All figures, those of an operator and then those of each of its inputs."""
    return [
        Declared(one.name, one.metadata["meaning"], one.metadata["kind"], one.metadata["merge"], of_input)
        for record, of_input in ((Counters, False), (InputCounters, True))
        for one in fields(record)
    ]


# -- JSON ---------------------------------------------------------------------------------------------


def to_json(counters: Counters) -> dict[str, object]:
    """Counters as JSON; figures that are zero or empty are left out."""
    value = _written(counters)
    if counters.inputs:
        value["inputs"] = {name: _written(counted) for name, counted in counters.inputs.items()}
    return value


def from_json(value: object) -> Counters:
    """Read back what `to_json` gave, or the flat names of earlier versions; unknown names are left out."""
    if not isinstance(value, Mapping):
        raise _bad("counters", value)
    counters = _read(Counters, {name: part for name, part in value.items() if name != "inputs"})
    inputs = value["inputs"] if "inputs" in value else _flat_inputs(value)
    if not isinstance(inputs, Mapping):
        raise _bad("inputs", inputs)
    counters.inputs = {str(name): _read(InputCounters, counted) for name, counted in inputs.items()}
    return counters


def _flat_inputs(value: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Per-input counters of the first version: `rows_left`, `left_time`, `lost_late_left`, `held`."""
    found: dict[str, dict[str, object]] = {}
    names = {one.name for one in fields(InputCounters)}
    for side in ("left", "right"):
        plain = {
            name.removesuffix(f"_{side}"): part for name, part in value.items() if name.endswith(f"_{side}")
        }
        counted = {name: part for name, part in plain.items() if name in names}
        lost = {name.removeprefix("lost_"): part for name, part in plain.items() if name.startswith("lost_")}
        held = value.get("held")
        carried = held.items() if isinstance(held, Mapping) else ()
        more = {
            "stream_time": value.get(f"{side}_time"),
            "lost": lost,
            "held": {str(k).removeprefix(f"{side}."): v for k, v in carried if str(k).startswith(f"{side}.")},
        }
        counted |= {name: part for name, part in more.items() if part not in (None, {})}
        if counted:
            found[side] = counted
    return found


# -- by declaration -----------------------------------------------------------------------------------

_Record = TypeVar("_Record", Counters, InputCounters)


def _last_known(one: object, two: object) -> object:
    return one if two is None else two


def _least_known(one: int | None, two: int | None) -> int | None:
    return min((each for each in (one, two) if each is not None), default=None)


def _elementwise(one: list[int], two: list[int]) -> list[int]:
    # An application may go on with more shards, or fewer, than it had before.
    return [a + b for a, b in zip_longest(one, two, fillvalue=0)]


def _sum_by_key(one: dict[str, int], two: dict[str, int]) -> dict[str, int]:
    return {key: one.get(key, 0) + two.get(key, 0) for key in {**one, **two}}


def _least_by_key(one: dict[str, int], two: dict[str, int]) -> dict[str, int]:
    return {key: min(part[key] for part in (one, two) if key in part) for key in {**one, **two}}


def _by_input_name(one: dict[str, InputCounters], two: dict[str, InputCounters]) -> dict[str, InputCounters]:
    nothing = InputCounters()
    return {name: _merged(one.get(name, nothing), two.get(name, nothing)) for name in {**one, **two}}


_MERGES: dict[Merge, Callable[..., object]] = {
    Merge.SUM: add,
    Merge.LAST: _last_known,
    Merge.LEAST: _least_known,
    Merge.ELEMENTWISE: _elementwise,
    Merge.CONCATENATION: add,
    Merge.SUM_BY_KEY: _sum_by_key,
    Merge.LEAST_BY_KEY: _least_by_key,
    Merge.BY_INPUT: _by_input_name,
}


def _elementwise_less(later: list[int], earlier: list[int]) -> list[int]:
    return [a - b for a, b in zip_longest(later, earlier, fillvalue=0)]


def _less_by_key(later: dict[str, int], earlier: dict[str, int]) -> dict[str, int]:
    return {key: count - earlier.get(key, 0) for key, count in later.items()}


def _less_by_input(
    later: dict[str, InputCounters], earlier: dict[str, InputCounters]
) -> dict[str, InputCounters]:
    nothing = InputCounters()
    return {name: _difference(counted, earlier.get(name, nothing)) for name, counted in later.items()}


_DIFFERENCES: dict[Merge, Callable[..., object]] = {
    Merge.SUM: sub,
    Merge.ELEMENTWISE: _elementwise_less,
    Merge.SUM_BY_KEY: _less_by_key,
    Merge.BY_INPUT: _less_by_input,
}
"""Inverses of the merges of what adds up over micro-batches."""


def _difference(later: _Record, earlier: _Record) -> _Record:
    left = type(later)()
    for each in fields(later):
        if each.metadata["kind"] == Kind.COUNTER:
            how = _DIFFERENCES[each.metadata["merge"]]
            setattr(left, each.name, how(getattr(later, each.name), getattr(earlier, each.name)))
    return left


def _merged(one: _Record, two: _Record) -> _Record:
    both = type(one)()
    for each in fields(one):
        how = _MERGES[each.metadata["merge"]]
        setattr(both, each.name, how(getattr(one, each.name), getattr(two, each.name)))
    return both


def _cumulative(record: _Record) -> _Record:
    kept = [each.name for each in fields(record) if each.metadata["kind"] == Kind.COUNTER]
    return type(record)(**{name: getattr(record, name) for name in kept})


def _written(record: Counters | InputCounters) -> dict[str, object]:
    return {
        each.name: getattr(record, each.name)
        for each in fields(record)
        if each.name != "inputs" and getattr(record, each.name) != _default(each)
    }


def _default(each: Field[object]) -> object:
    return each.default_factory() if each.default_factory is not MISSING else each.default


def _read(record: type[_Record], value: object) -> _Record:
    if not isinstance(value, Mapping):
        raise _bad(record.__name__, value)
    known = {each.name: value[each.name] for each in fields(record) if each.name in value}
    for each in fields(record):
        if each.name in known and not _fits(known[each.name], each.metadata["merge"]):
            raise _bad(each.name, known[each.name])
    return record(**known)


def _fits(value: object, merge: Merge) -> bool:
    match merge:
        case Merge.SUM:
            return _is_number(value)
        case Merge.LAST | Merge.LEAST:
            return value is None or _is_number(value)
        case Merge.ELEMENTWISE | Merge.CONCATENATION:
            return isinstance(value, list) and all(map(_is_number, value))
        case _:
            return isinstance(value, dict) and all(map(_is_number, value.values()))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bad(name: str, value: object) -> StateError:
    return StateError(
        f"counter {name!r} is {value!r}",
        where="counters of a micro-batch",
        hint="the file was written by another version, or damaged: remove it",
    )
