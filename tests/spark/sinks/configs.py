"""Configurations of sinks, and rows for them."""

from __future__ import annotations

import pyarrow as pa

from braid.core.columns import NOTE
from braid.engine import dead_letters
from braid.home.paths import Home
from braid.spark.sinks.base import SinkConfig


def config(home: Home, kind: type[SinkConfig], **more: object) -> SinkConfig:
    dead_letters.create(home.log(), "app.dead_letter")
    values = {
        "root": home.log_root,
        "stage": "s",
        "dead_letter": "app.dead_letter",
        "first_commit": 0,
        "metrics": str(home.root / "metrics"),
        **more,
    }
    return kind.from_json(kind(**values).to_json())


def noted(values: list[object], column: str = "a") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({column: values, NOTE: pa.nulls(len(values), pa.string())})
