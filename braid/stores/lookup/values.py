"""What is stored under a key: when it was written, its event time, and the value columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from braid.core.errors import CorruptError
from braid.stores.lookup.rows import Ints, RowCodec

NEVER = int(np.iinfo(np.int64).min)
"""The time at which a row was written that is not there, and the event time of a row without one."""

_WRITTEN = "\0written"
_TIME = "\0time"
_HEADER = (pa.field(_WRITTEN, pa.int64()), pa.field(_TIME, pa.int64()))
_COUNT = np.dtype("<u2")
MAX_COLUMNS = int(np.iinfo(_COUNT).max)


class ValueCodec:
    """Encodes and decodes stored rows.

    Columns are only ever added at the end, and a row starts with how many there were when it was written;
    those that were added later are NULL.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._codecs: dict[int, RowCodec] = {}

    def encode(self, columns: Sequence[pa.Array], times: Ints, now_us: int) -> pa.LargeBinaryArray:
        """Rows written now; an event time of `NEVER` is none."""
        written = pa.array(np.full(len(times), now_us, np.int64))
        return self._codec(len(columns)).encode([written, pa.array(times), *columns])

    def decode(
        self, rows: pa.LargeBinaryArray, names: Sequence[str], where: str
    ) -> tuple[Ints, list[pa.Array]]:
        """When rows were written, and columns of them; a NULL row was never written and has NULLs."""
        header = [(_WRITTEN, pa.int64())]
        written, *columns = self._decode(
            rows, header + [(name, self.schema.field(name).type) for name in names], where
        )
        return _numbers(written), columns

    def times(self, rows: pa.LargeBinaryArray, where: str) -> tuple[Ints, Ints]:
        """When rows were written, and their event times."""
        written, times = self._decode(rows, [(_WRITTEN, pa.int64()), (_TIME, pa.int64())], where)
        return _numbers(written), _numbers(times)

    def _codec(self, count: int) -> RowCodec:
        if count not in self._codecs:
            schema = pa.schema([*_HEADER, *(self.schema.field(i) for i in range(count))])
            self._codecs[count] = RowCodec(schema, np.array(count, _COUNT).tobytes())
        return self._codecs[count]

    def _decode(
        self, rows: pa.LargeBinaryArray, wanted: Sequence[tuple[str, pa.DataType]], where: str
    ) -> list[pa.Array]:
        present = rows.drop_null() if rows.null_count else rows
        counts = _counts(present, where)
        parts: list[list[pa.Array]] = []
        places: list[Ints] = []
        for count in np.unique(counts):
            if count > len(self.schema):
                raise CorruptError(
                    f"a row has {count} columns, but the table has {len(self.schema)}",
                    where=where,
                    hint="load the table again with --replace",
                )
            place = np.flatnonzero(counts == count)
            some = present if len(place) == len(present) else present.take(pa.array(place))
            codec = self._codec(int(count))
            known = [name for name, _ in wanted if codec.schema.get_field_index(name) >= 0]
            decoded = dict(zip(known, codec.decode(some, known, where), strict=True))
            parts.append([decoded.get(name, pa.nulls(len(place), kind)) for name, kind in wanted])
            places.append(place)
        if not parts:
            return [pa.nulls(len(rows), kind) for _, kind in wanted]
        columns = [
            pa.concat_arrays(pieces) if len(parts) > 1 else pieces[0] for pieces in zip(*parts, strict=True)
        ]
        if len(parts) == 1 and not rows.null_count:
            return columns
        # Where each row is among the decoded ones; nowhere, if it is NULL.
        where_to: Ints = np.full(len(rows), -1, np.int64)
        valid = np.flatnonzero(rows.is_valid().to_numpy(zero_copy_only=False))
        where_to[valid[np.concatenate(places)]] = np.arange(len(valid))
        take = pa.array(where_to, mask=where_to < 0)
        return [column.take(take) for column in columns]


def _counts(rows: pa.LargeBinaryArray, where: str) -> Ints:
    """How many columns each row has."""
    if not len(rows):
        return np.zeros(0, np.int64)
    _, offset_buffer, data = rows.buffers()
    bounds = np.frombuffer(offset_buffer, np.int64)[rows.offset : rows.offset + len(rows) + 1]
    if int(np.diff(bounds).min()) < _COUNT.itemsize:
        raise CorruptError("a stored row is cut", where=where, hint="load the table again with --replace")
    content = np.frombuffer(data, np.uint8)
    low, high = (content[bounds[:-1] + i].astype(np.int64) for i in range(2))
    return low | high << 8


def _numbers(column: pa.Array) -> Ints:
    found: Ints = column.fill_null(NEVER).to_numpy()
    return found
