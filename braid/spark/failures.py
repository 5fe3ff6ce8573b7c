"""What a failed query means to the user of an application."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException

from braid.core.errors import RunError


def explained(stage: str, failure: PySparkException) -> RunError:
    """What a user needs of a failed query: the error that Braid raised in a worker, or Spark's."""
    text = str(failure)
    found = re.findall(r"braid\.core\.errors\.(\w+): ((?:.|\n)*?)(?:\n\n|\n\tat |\n SQLSTATE|$)", text)
    what = found[-1][1].strip() if found else re.split(r"\n(?:\tat |=== Streaming Query)", text)[0].strip()
    return RunError(f"stage {stage!r} failed: {what}")
