"""Join state as versioned bytes: block ranges and packed bits, never rows."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from braid.core.errors import StateError
from braid.core.positions import Position, positions_in, ranges_of
from braid.core.side import Side
from braid.kernels.join.buffer import Flags
from braid.kernels.join.runs import Ints

MAGIC = b"BRJ1"


@dataclass(frozen=True)
class SideState:
    """Blocks a side still needs, flags of their rows, its floor, and the last block admitted."""

    blocks: tuple[Position, ...] = ()
    flags: Flags = field(default_factory=lambda: np.zeros(0, np.uint8))
    floor: int = 0
    last: Position | None = None


@dataclass(frozen=True)
class JoinState:
    """Everything that a join needs besides the log to go on where it stopped."""

    sides: Mapping[str, SideState]
    times: Mapping[str, int]
    wall_time: int = 0
    choices: dict[str, Ints] = field(default_factory=dict)


def encode(state: JoinState) -> bytes:
    """Bytes with a version and a checksum."""
    payload: list[bytes] = []
    header = {
        **{f"{side}_time": state.times[side] for side in Side},
        "wall_time": state.wall_time,
        **{side.value: _encode_side(state.sides[side], payload) for side in Side},
        "choices": {name: _push(values.tobytes(), payload) for name, values in state.choices.items()},
    }
    head = json.dumps(header, separators=(",", ":")).encode()
    body = len(head).to_bytes(4, "little") + head + b"".join(payload)
    return MAGIC + zlib.crc32(body).to_bytes(4, "little") + body


def decode(data: bytes) -> JoinState:
    """Read back what `encode` wrote."""
    if data[:4] != MAGIC:
        raise StateError(
            f"join state starts with {data[:4]!r}, but this version writes and reads {MAGIC!r}",
            hint="run it with the version that wrote it, or replay from the log",
        )
    body = data[8:]
    if zlib.crc32(body) != int.from_bytes(data[4:8], "little"):
        raise StateError("join state is damaged: its checksum does not fit", hint="replay from the log")
    size = int.from_bytes(body[:4], "little")
    header = json.loads(body[4 : 4 + size])
    rest = memoryview(body)[4 + size :]
    return JoinState(
        {side: _decode_side(header[side], rest) for side in Side},
        {side: header[f"{side}_time"] for side in Side},
        wall_time=header["wall_time"],
        choices={
            name: np.frombuffer(_pull(where, rest), np.int64).copy()
            for name, where in header["choices"].items()
        },
    )


def _encode_side(side: SideState, payload: list[bytes]) -> dict[str, object]:
    planes = {
        str(bit): _push(np.packbits((side.flags >> bit) & 1).tobytes(), payload)
        for bit in range(4)
        if np.any((side.flags >> bit) & 1)
    }
    return {
        "ranges": ranges_of(side.blocks),
        "rows": len(side.flags),
        "bits": planes,
        "floor": side.floor,
        "last": side.last,
    }


def _decode_side(header: dict[str, object], rest: memoryview) -> SideState:
    rows = header["rows"]
    ranges, bits, floor, last = header["ranges"], header["bits"], header["floor"], header["last"]
    assert isinstance(rows, int)
    assert isinstance(floor, int)
    assert isinstance(bits, dict)
    assert isinstance(ranges, list)
    flags = np.zeros(rows, np.uint8)
    for bit, where in bits.items():
        plane = np.unpackbits(np.frombuffer(_pull(where, rest), np.uint8), count=rows)
        flags |= plane << int(bit)
    return SideState(
        tuple(positions_in(ranges)), flags, floor, Position(*last) if isinstance(last, list) else None
    )


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
