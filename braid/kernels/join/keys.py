"""Exact equality and grouping of join keys of any type. A hash only finds candidates; this decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.core.errors import SchemaError
from braid.kernels.arrays import Ints, Mask
from braid.kernels.join.predicate import compare


def check_key_type(name: str, kind: pa.DataType) -> None:
    """Refuse key types that have no equality in Arrow, saying what to do instead."""
    if pa.types.is_struct(kind):
        for field in kind:
            check_key_type(f"{name}.{field.name}", field.type)
    elif pa.types.is_nested(kind):
        raise SchemaError(
            f"column {name!r} of type {kind} cannot be a join key",
            hint="join on to_json(column), or on the elements themselves",
        )


def equal_keys(left: pa.Array, right: pa.Array) -> Mask:
    """Element-wise equality as SQL joins see it: NULL equals nothing, NaN equals NaN, structs go by field."""
    equal: Mask = pc.fill_null(_equal(left, right, null_safe=False), False).to_numpy(zero_copy_only=False)
    return equal


def _equal(left: pa.Array, right: pa.Array, *, null_safe: bool) -> pa.Array:
    left, right = _decoded(left), _decoded(right)
    if pa.types.is_struct(left.type):
        result = pc.and_(pc.is_valid(left), pc.is_valid(right))
        for mine, theirs in zip(left.flatten(), right.flatten(), strict=True):
            result = pc.and_(result, _equal(mine, theirs, null_safe=True))
        if null_safe:
            result = pc.or_(result, pc.and_(pc.is_null(left), pc.is_null(right)))
        return result
    return compare("<=>" if null_safe else "=", left, right)


def group_codes(columns: Sequence[pa.Array]) -> Ints:
    """A number per row, equal for equal keys; the columns hold no NULLs at their top level."""
    code: Ints = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        for part in _leaves(_decoded(column)):
            encoded = pc.dictionary_encode(part, null_encoding="encode").indices
            _, code = np.unique(
                np.stack([code, encoded.to_numpy(zero_copy_only=False).astype(np.int64)], axis=1),
                axis=0,
                return_inverse=True,
            )
            code = code.reshape(-1)
    return code


def _leaves(array: pa.Array) -> list[pa.Array]:
    if not pa.types.is_struct(array.type):
        if pa.types.is_floating(array.type):
            return [pc.if_else(pc.equal(array, 0.0), pa.scalar(0.0, array.type), array)]
        return [array]
    return [pc.is_null(array)] + [leaf for child in array.flatten() for leaf in _leaves(_decoded(child))]


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
