"""What a failed query means to the user of an application, and whether it will fail again."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
    PySparkException,
)

from braid.core import errors
from braid.core.errors import BraidError, InternalError, PermanentError, RunError

_OURS = re.compile(r"braid\.core\.errors\.(\w+): ((?:.|\n)*?)(?:\n\n|\n\tat |\n SQLSTATE|$)")
"""An error that Braid has raised in a worker, of which Spark tells nothing but the text."""
_PYTHON = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(([A-Za-z_][\w.]*).*)", re.MULTILINE
)
"""Any other error of Python in a worker: the last line of its traceback, and the name of its class."""
_SPARK = re.compile(r"\n(?:\tat |=== Streaming Query)")
_OF_VALUES = ("21", "22", "23", "54", "P0")
"""Classes of SQLSTATE of what an expression cannot do with a row: wrong values, duplicates, limits, and
errors that a program raises itself."""
_OF_QUERIES = ("0A", "42")
"""Those of a query that Spark cannot run."""
_OUTSIDE = ("42501", "42K03")
"""Among these: no permission, and no such path, which may be mended without changing the query."""
_INTERNAL = ("XX",)
_PLAIN = (ArithmeticException, DateTimeException, NumberFormatException)
"""What Java itself raises where values are wrong."""


def explained(stage: str, failure: PySparkException) -> RunError:
    """What a user needs of a failed query: the error that Braid raised in a worker, or Spark's."""
    text = str(failure)
    own, other = _OURS.findall(text), _PYTHON.findall(text)
    if own:
        name, what = own[-1]
        kind = _kind_of_ours(getattr(errors, name, BraidError))
    elif other:
        what, name = other[-1]
        kind = _kind_of_python(getattr(builtins, name, None))
    else:
        what, kind = _SPARK.split(text)[0], _kind_of_spark(failure)
    hint = "this is an error in Braid: please report it" if kind is InternalError else None
    return kind(f"stage {stage!r} failed: {what.strip()}", hint=hint)


def _kind_of_ours(raised: type[BraidError]) -> type[RunError]:
    """What kind of failure an error is that Braid has raised."""
    if issubclass(raised, InternalError):
        return InternalError
    return PermanentError if raised.lasts else RunError


def _kind_of_python(raised: object) -> type[RunError]:
    """What kind of failure another error is, by its class if that is one of Python's own."""
    outside = isinstance(raised, type) and issubclass(raised, OSError | EOFError | MemoryError)
    return RunError if outside else InternalError


def _kind_of_spark(failure: PySparkException) -> type[RunError]:
    """What kind of failure an error of Spark is, by the innermost of its causes that says so."""
    for cause, state in _causes(failure):
        if state is None:
            if isinstance(cause, _PLAIN):
                return PermanentError
            continue
        if state.startswith(_INTERNAL):
            return InternalError
        queries = _OF_QUERIES if isinstance(cause, AnalysisException) else ()
        lasts = state.startswith((*_OF_VALUES, *queries)) and state not in _OUTSIDE
        return PermanentError if lasts else RunError
    return RunError


def _causes(failure: PySparkException) -> Iterator[tuple[PySparkException, str | None]]:
    """The causes of a failure, innermost first, each with its SQLSTATE."""
    found: list[PySparkException] = []
    at: object = failure
    while isinstance(at, PySparkException):
        found.append(at)
        at = getattr(at, "_cause", None)
    for cause in reversed(found):
        try:
            yield cause, cause.getSqlState()
        except (Py4JError, OSError):
            return  # Java is gone, and nobody can ask it
