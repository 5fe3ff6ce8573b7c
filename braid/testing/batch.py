"""The batch joins that a streaming join is measured against: DuckDB over the same rows."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braid.core.errors import ConfigError
from braid.core.times import DAY
from braid.kernels.arrays import Mask
from braid.testing.streams import Stream


def batch_matched(
    left: Stream, right: Stream, bounds: tuple[int, int] | None, *, right_days: int | None = None
) -> Mask:
    """Which left rows have a partner in a batch join.

    Parameters
    ----------
    left, right
        The streams.
    bounds
        Lower and upper bound of the partner's event time relative to the row's, in microseconds, both
        inclusive; None takes a partner at any time.
    right_days
        Join partitions as a warehouse does, each day of arrival (UTC) of the left stream with so many days
        of the right one that end with it; None joins everything at once.
    """
    try:
        import duckdb
    except ImportError:
        raise ConfigError(
            "the batch join needs DuckDB, which is not installed",
            where="braid.testing",
            hint="pip install 'braid-streams[sim]'",
        ) from None
    conditions = ["l.key = r.key"]
    if bounds is not None:
        conditions.append(f"r.event BETWEEN l.event + {bounds[0]:d} AND l.event + {bounds[1]:d}")
    if right_days is not None:
        conditions.append(f"r.day BETWEEN l.day - {right_days - 1:d} AND l.day")
    with duckdb.connect() as connection:
        connection.register("l", _table(left))
        connection.register("r", _table(right))
        query = f"SELECT DISTINCT l.id FROM l JOIN r ON {' AND '.join(conditions)}"
        found = connection.execute(query).fetchnumpy()["id"]
    matched = np.zeros(len(left), np.bool_)
    matched[cast("npt.NDArray[np.int64]", found)] = True
    return matched


def _table(stream: Stream) -> pa.Table:
    return pa.table(
        {
            "id": np.arange(len(stream)),
            "key": stream.key,
            "event": stream.event_time,
            "day": stream.arrival_time // DAY,
        }
    )
