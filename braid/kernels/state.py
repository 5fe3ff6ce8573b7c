"""State of a shard as versioned bytes: block ranges and packed bits, never rows."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from braid.core.errors import StateError
from braid.core.positions import Position, positions_in
from braid.core.times import MIN_TIME
from braid.kernels.arrays import Flags, Ints
from braid.kernels.choices import ADDRESS, CHOOSER, pack, unpack

MAGIC = b"BRS4"
_PLAIN_CHOICES = b"BRS3"
"""What states began with that had choices as they are in memory, with event times. They are still read."""
_RANGES = b"BRS2"
"""Those that besides had the blocks of an input as ranges in the header."""
_JOINS_ONLY = b"BRJ1"
"""And those that knew two inputs only, `left` and `right`."""
BITS = 4
"""Flags of a row that are saved: the lowest so many bits."""


@dataclass(frozen=True)
class InputState:
    """What an operator knows of an input.

    Parameters
    ----------
    positions, flags
        Commit and chunk of each block that it still needs, ascending, and flags of their rows.
    floor
        The event time below which rows are decided.
    last
        The last block admitted.
    drained
        The last block that was admitted before the last drain: up to there all is decided, whatever its time.
    newest
        The greatest event time of all rows that were admitted since then.
    whole
        The event time up to which rows may have been decided by an earlier program, before the floor.
    foreign
        The last block of which rows may have come out, for good, by the rules of an earlier program.
    """

    positions: Ints = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    flags: Flags = field(default_factory=lambda: np.zeros(0, np.uint8))
    floor: int = 0
    last: Position | None = None
    drained: Position | None = None
    newest: int = MIN_TIME
    whole: int = MIN_TIME
    foreign: Position | None = None

    @property
    def blocks(self) -> tuple[Position, ...]:
        """The positions one by one."""
        return tuple(Position(*block) for block in self.positions.tolist())


@dataclass(frozen=True)
class OperatorState:
    """Everything that an operator needs besides the log to go on where it stopped.

    Parameters
    ----------
    inputs, times
        What it knows of each input, and their stream times.
    choices
        What rows of the left input have chosen so far: see `braid.kernels.choices`.
    noted
        Whether flags tell of all inputs which rows have had a match. Earlier versions took note of that
        where it mattered to the program that ran.
    """

    inputs: Mapping[str, InputState]
    times: Mapping[str, int]
    choices: dict[str, Ints] = field(default_factory=dict)
    noted: bool = True


def encode(state: OperatorState) -> bytes:
    """Bytes with a version and a checksum."""
    payload: list[bytes] = []
    choices = pack(state.choices, state.inputs[CHOOSER].flags) if state.choices else {}
    header = {
        "inputs": {name: _encode_input(one, payload) for name, one in state.inputs.items()},
        "times": dict(state.times),
        "wall_time": 0,  # earlier versions expect it
        "choices": {name: _push(values, payload) for name, values in choices.items()},
        "noted": state.noted,
    }
    head = json.dumps(header, separators=(",", ":")).encode()
    body = len(head).to_bytes(4, "little") + head + b"".join(payload)
    return MAGIC + zlib.crc32(body).to_bytes(4, "little") + body


def decode(data: bytes) -> OperatorState:
    """Read back what `encode` wrote."""
    if data[:4] not in (MAGIC, _PLAIN_CHOICES, _RANGES, _JOINS_ONLY):
        raise StateError(
            f"operator state starts with {data[:4]!r}, but this version writes and reads {MAGIC!r}",
            hint="run it with the version that wrote it, or replay from the log",
        )
    body = data[8:]
    if zlib.crc32(body) != int.from_bytes(data[4:8], "little"):
        raise StateError("operator state is damaged: its checksum does not fit", hint="replay from the log")
    size = int.from_bytes(body[:4], "little")
    header = json.loads(body[4 : 4 + size])
    rest = memoryview(body)[4 + size :]
    if data[:4] == _JOINS_ONLY:
        names = ("left", "right")
        header["inputs"] = {name: header[name] for name in names}
        header["times"] = {name: header[f"{name}_time"] for name in names}
    inputs = {name: _decode_input(one, rest) for name, one in header["inputs"].items()}
    packed = {name: _pull(where, rest) for name, where in header["choices"].items()}
    choices: dict[str, Ints] = {}
    if packed and data[:4] == MAGIC:
        choices = unpack(packed, inputs[CHOOSER].flags)
    elif packed:
        choices = {name: np.frombuffer(packed[name], np.int64).copy() for name in (CHOOSER, *ADDRESS)}
    return OperatorState(inputs, header["times"], choices, header.get("noted", False))


def after_drain(data: bytes) -> bytes:
    """The state to go on with after a drain, given what it has left: nothing waits, and all is decided."""
    inputs = {
        name: InputState(floor=MIN_TIME, last=one.last, drained=one.last, foreign=one.foreign)
        for name, one in decode(data).inputs.items()
    }
    return encode(OperatorState(inputs, dict.fromkeys(inputs, MIN_TIME)))


def _encode_input(one: InputState, payload: list[bytes]) -> dict[str, object]:
    some = int(np.bitwise_or.reduce(one.flags))
    planes = {
        str(bit): _push(np.packbits(one.flags & (1 << bit)).tobytes(), payload)
        for bit in range(BITS)
        if some & (1 << bit)
    }
    return {
        "positions": _push(_encode_positions(one.positions).tobytes(), payload),
        "rows": len(one.flags),
        "bits": planes,
        "floor": one.floor,
        "last": one.last,
        "drained": one.drained,
        "newest": one.newest,
        "whole": one.whole,
        "foreign": one.foreign,
    }


def _decode_input(header: dict[str, object], rest: memoryview) -> InputState:
    rows, bits, floor = header["rows"], header["bits"], header["floor"]
    assert isinstance(rows, int)
    assert isinstance(floor, int)
    assert isinstance(bits, dict)
    flags = np.zeros(rows, np.uint8)
    for bit, where in bits.items():
        plane = np.unpackbits(np.frombuffer(_pull(where, rest), np.uint8), count=rows)
        flags |= plane << int(bit)
    # States of earlier versions do not have all of them.
    last, drained, foreign = (
        Position(*at) if isinstance(at, list) else None
        for at in (header["last"], header.get("drained"), header.get("foreign"))
    )
    newest, whole = (header.get(name, MIN_TIME) for name in ("newest", "whole"))
    assert isinstance(newest, int)
    assert isinstance(whole, int)
    return InputState(_decode_positions(header, rest), flags, floor, last, drained, newest, whole, foreign)


def _encode_positions(positions: Ints) -> Ints:
    """Steps from block to block, in commits and chunks, and how many times in a row each is taken."""
    steps = np.diff(positions, axis=0, prepend=np.zeros((1, 2), np.int64))
    first = np.flatnonzero(np.append(True, np.any(steps[1:] != steps[:-1], axis=1))[: len(steps)])
    return np.column_stack([steps[first], np.diff(np.append(first, len(steps)))])


def _decode_positions(header: dict[str, object], rest: memoryview) -> Ints:
    if "positions" in header:
        where = header["positions"]
        assert isinstance(where, list)
        steps = np.frombuffer(_pull(where, rest), np.int64).reshape(-1, 3)
        return np.cumsum(np.repeat(steps[:, :2], steps[:, 2], axis=0), axis=0)
    ranges = header["ranges"]
    assert isinstance(ranges, list)
    return np.array(positions_in(ranges), np.int64).reshape(-1, 2)


def _push(data: bytes, payload: list[bytes]) -> list[int]:
    """Compress and append; where it starts, its length, and its length before compression."""
    packed = pa.compress(data, codec="zstd", asbytes=True)
    start = sum(map(len, payload))
    payload.append(packed)
    return [start, len(packed), len(data)]


def _pull(where: list[int], rest: memoryview) -> bytes:
    start, length, size = where
    if not size:
        return b""
    return bytes(pa.decompress(rest[start : start + length], size, codec="zstd", asbytes=True))
