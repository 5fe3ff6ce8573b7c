"""Hashes of keys, bit for bit those of Spark's `xxhash64`, so that blocks from anywhere fit together.

Columns are chained: the hash of one is the seed of the next, and NULL leaves the seed as it is. Everything
runs over whole columns; texts are read in words of 8 bytes, all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braid.core.errors import SchemaError

_U64 = npt.NDArray[np.uint64]
_I64 = npt.NDArray[np.int64]
_BYTES = npt.NDArray[np.uint8]
_T = TypeVar("_T", bound=np.generic)
_F = TypeVar("_F", np.float32, np.float64)

_SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def hash_rows(columns: Sequence[pa.Array]) -> _I64:
    """Hash each row of a composite key, as Spark's `xxhash64(column, ...)` does.

    Parameters
    ----------
    columns
        Equally long arrays of booleans, numbers, decimals, dates, times, texts, bytes, dictionaries, NULLs
        or structs of these. Integers of up to 32 bits hash alike, as do timestamps of any unit.
    """
    if not columns:
        raise SchemaError("a hash needs at least one column", hint="pass the key columns")
    hashes: _U64 = np.full(len(columns[0]), _SEED, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            hashes = _chain(column, hashes)
    return hashes.view(np.int64)


def _chain(column: pa.Array, seeds: _U64) -> _U64:
    """Hash a column on top of the hashes so far."""
    kind = column.type
    if pa.types.is_null(kind):
        return seeds
    if pa.types.is_dictionary(kind):
        return _chain(column.dictionary_decode(), seeds)
    if pa.types.is_struct(kind):
        hashes = seeds
        for index in range(kind.num_fields):
            hashes = _chain(column.field(index), hashes)
    else:
        hashes = _hasher(kind)(column, seeds)
    if column.null_count:
        return np.where(column.is_valid().to_numpy(zero_copy_only=False), hashes, seeds)
    return hashes


def _hasher(kind: pa.DataType) -> Callable[[pa.Array, _U64], _U64]:
    t = pa.types
    if t.is_boolean(kind) or (t.is_integer(kind) and kind.bit_width < 32) or t.is_int32(kind):
        return lambda column, seeds: _hash_ints(_values(column.cast(pa.int32()), np.int32), seeds)
    if t.is_date(kind):
        return lambda column, seeds: _hash_ints(_values(column.cast(pa.date32()), np.int32), seeds)
    if t.is_integer(kind) or t.is_timestamp(kind) or t.is_duration(kind) or t.is_time(kind):
        return lambda column, seeds: _hash_longs(_longs(column), seeds)
    if t.is_float16(kind) or t.is_float32(kind):
        return lambda column, seeds: _hash_ints(
            _one_zero(_values(column.cast(pa.float32()), np.float32)).view(np.int32), seeds
        )
    if t.is_float64(kind):
        return lambda column, seeds: _hash_longs(_one_zero(_values(column, np.float64)).view(np.int64), seeds)
    if t.is_decimal(kind) and kind.precision <= 38:
        return _hash_decimals
    if t.is_string(kind) or t.is_binary(kind) or t.is_large_string(kind) or t.is_large_binary(kind):
        return _hash_binary
    if t.is_string_view(kind) or t.is_binary_view(kind) or t.is_fixed_size_binary(kind):
        return lambda column, seeds: _hash_binary(column.cast(pa.large_binary()), seeds)
    raise SchemaError(
        f"values of type {kind} cannot be a key", hint="use columns of scalar types, or structs of them"
    )


def _values(column: pa.Array, kind: type[_T]) -> npt.NDArray[_T]:
    """The values of a fixed-width array as they lie in memory; those of NULLs are arbitrary."""
    found: npt.NDArray[_T] = np.frombuffer(column.buffers()[1] or b"", dtype=kind)
    return found[column.offset : column.offset + len(column)]


def _longs(column: pa.Array) -> _I64:
    """Integers and times as Spark keeps them: microseconds, and nanoseconds for the time of a day."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    elif pa.types.is_duration(kind):
        column = column.cast(pa.duration("us"), safe=False)
    elif pa.types.is_time(kind):
        column = column.cast(pa.time64("ns"))
    elif not pa.types.is_uint64(kind):
        column = column.cast(pa.int64())
    return _values(column, np.int64)


def _one_zero(values: npt.NDArray[_F]) -> npt.NDArray[_F]:
    """Floats with one zero and one NaN: others are equal to them and must hash alike."""
    found = np.where(values == 0, values.dtype.type(0), values)
    found[np.isnan(found)] = np.nan
    return found


def _hash_ints(values: npt.NDArray[np.int32], seeds: _U64) -> _U64:
    words = values.view(np.uint32).astype(np.uint64)
    return _finish(_mix_half(seeds + _P5 + np.uint64(4), words))


def _hash_longs(values: _I64, seeds: _U64) -> _U64:
    return _finish(_mix_word(seeds + _P5 + np.uint64(8), values.view(np.uint64)))


def _hash_decimals(column: pa.Array, seeds: _U64) -> _U64:
    """Unscaled values: as a long if the type's precision fits one, else as the fewest big-endian bytes."""
    precision, scale = column.type.precision, column.type.scale
    if column.type.bit_width != 128:
        column = column.cast(pa.decimal128(precision, scale))
    raw = np.frombuffer(column.buffers()[1] or b"", dtype=np.uint8).reshape(-1, 16)
    raw = raw[column.offset : column.offset + len(column)]
    if precision <= 18:
        return _hash_longs(np.ascontiguousarray(raw[:, :8]).view(np.int64)[:, 0], seeds)
    big_endian = np.ascontiguousarray(raw[:, ::-1])
    sign = (big_endian[:, :1].view(np.int8) >> 7).view(np.uint8)
    # As Java's BigInteger: drop leading bytes that only extend the sign.
    same = (big_endian[:, :-1] == sign) & ((big_endian[:, 1:].view(np.int8) >> 7).view(np.uint8) == sign)
    spare: _I64 = np.logical_and.accumulate(same, axis=1).sum(axis=1)
    starts = np.arange(len(column), dtype=np.int64) * 16 + spare
    return _hash_bytes(big_endian.ravel(), starts, 16 - spare, seeds)


def _hash_binary(column: pa.Array, seeds: _U64) -> _U64:
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offset_buffer, data = column.buffers()
    if not len(column):
        return seeds
    bounds = np.frombuffer(offset_buffer, dtype=np.int64 if large else np.int32)
    offsets: _I64 = bounds[column.offset : column.offset + len(column) + 1].astype(np.int64)
    content = np.frombuffer(data if data is not None else b"", dtype=np.uint8)
    return _hash_bytes(content, offsets[:-1], np.diff(offsets), seeds)


def _hash_bytes(content: _BYTES, starts: _I64, lengths: _I64, seeds: _U64) -> _U64:
    """XXH64 of many byte ranges at once: one step per word position, over all rows that reach it."""
    if len(content) < 8:
        content = np.concatenate([content, np.zeros(8, dtype=np.uint8)])
    # Overlapping views: a word starts at every byte, so that one gather reads a word of each row.
    words = np.ndarray((len(content) - 7,), dtype="<u8", buffer=content, strides=(1,))
    halves = np.ndarray((len(content) - 3,), dtype="<u4", buffer=content, strides=(1,))
    hashes = seeds + _P5
    long = np.flatnonzero(lengths >= 32)
    if len(long):
        hashes[long] = _hash_stripes(words, starts[long], lengths[long] // 32, seeds[long])
    hashes += lengths.astype(np.uint64)
    position = starts + lengths // 32 * 32
    ends = starts + lengths
    for width, view, mix in ((8, words, _mix_word), (4, halves, _mix_half), (1, content, _mix_byte)):
        while len(rows := np.flatnonzero(position + width <= ends)):
            found = view[position[rows]].astype(np.uint64)
            hashes[rows] = mix(hashes[rows], found)
            position[rows] += width
    return _finish(hashes)


def _hash_stripes(words: _U64, starts: _I64, stripes: _I64, seeds: _U64) -> _U64:
    """The part of XXH64 that reads 32 bytes at a time into four lanes."""
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    for stripe in range(int(stripes.max())):
        rows = np.flatnonzero(stripes > stripe)
        at = starts[rows] + stripe * 32
        for index, lane in enumerate(lanes):
            lane[rows] = _round(lane[rows], words[at + 8 * index])
    hashes = _rotate(lanes[0], 1) + _rotate(lanes[1], 7) + _rotate(lanes[2], 12) + _rotate(lanes[3], 18)
    for lane in lanes:
        hashes = (hashes ^ _round(np.uint64(0), lane)) * _P1 + _P4
    return hashes


def _rotate(values: _U64, by: int) -> _U64:
    return (values << np.uint64(by)) | (values >> np.uint64(64 - by))


def _round(lane: _U64 | np.uint64, words: _U64) -> _U64:
    return _rotate(lane + words * _P2, 31) * _P1


def _mix_word(hashes: _U64, words: _U64) -> _U64:
    return _rotate(hashes ^ _round(np.uint64(0), words), 27) * _P1 + _P4


def _mix_half(hashes: _U64, words: _U64) -> _U64:
    return _rotate(hashes ^ (words * _P1), 23) * _P2 + _P3


def _mix_byte(hashes: _U64, words: _U64) -> _U64:
    return _rotate(hashes ^ (words * _P5), 11) * _P1


def _finish(hashes: _U64) -> _U64:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))
