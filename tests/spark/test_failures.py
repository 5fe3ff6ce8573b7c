"""What a query fails with is the program's fault, ours, or that of something outside."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException, ArithmeticException, PySparkException

from braid import api
from braid.api.data import publish
from braid.core.errors import InternalError, PermanentError, RunError
from braid.home.paths import Home
from braid.spark.failures import explained


class Failure(PySparkException):
    """What Spark has raised, with a SQLSTATE and a cause."""

    def __init__(self, state: str | None, cause: PySparkException | None = None, text: str = "what") -> None:
        self.state, self._cause, self.text = state, cause, text

    def getSqlState(self) -> str | None:  # noqa: N802
        return self.state

    def __str__(self) -> str:
        return self.text


class Analysis(Failure, AnalysisException):
    """A query that cannot be run."""


class Plain(Failure, ArithmeticException):
    """What Java raises itself."""


class Gone(Failure):
    """An error whose Java is gone."""

    def getSqlState(self) -> str | None:  # noqa: N802
        raise Py4JNetworkError("no answer")


def in_worker(error: str) -> Failure:
    text = (
        "An exception was thrown from the Python worker. Please see the stack trace below.\n"
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n'
        "    process()\n"
        f"{error}\n\n\tat org.apache.spark.Java\n"
    )
    return Failure(None, Failure("38000"), text)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure("XXKST", Failure(None, Failure("22012"))), PermanentError),
        (Failure(None, Failure("22018")), PermanentError),
        (Failure("58030", Failure("22003")), PermanentError),
        (Failure(None, Failure("23505")), PermanentError),
        (Failure(None, Plain(None)), PermanentError),
        (Analysis("42703"), PermanentError),
        (Analysis("0A000"), PermanentError),
        (Analysis("42K03"), RunError),
        (Analysis("42501"), RunError),
        (Failure("0A000"), RunError),
        (Failure(None, Failure("58030")), RunError),
        (Failure("22012", Failure("58030")), RunError),
        (Failure(None, Failure("KD001")), RunError),
        (Failure(None, Failure("53200")), RunError),
        (Failure("XX000"), InternalError),
        (Failure(None), RunError),
        (PySparkException("Job aborted: ExecutorLostFailure"), RunError),
        (Gone(None, Failure(None)), RunError),
        (in_worker("braid.core.errors.RunError: the lease is another's"), RunError),
        (in_worker("braid.core.errors.SchemaError: column x is another one"), PermanentError),
        (in_worker("braid.core.errors.StateError: state of another version"), PermanentError),
        (in_worker("braid.core.errors.CorruptError: not what was written"), PermanentError),
        (in_worker("braid.core.errors.LogError: it is gone"), RunError),
        (in_worker("OSError: [Errno 5] Input/output error"), RunError),
        (in_worker("PermissionError: [Errno 13] Permission denied"), RunError),
        (in_worker("MemoryError"), RunError),
        (in_worker("KeyError: 'x'"), InternalError),
        (in_worker("pyarrow.lib.ArrowInvalid: no"), InternalError),
        (PySparkException("braid.core.errors.SchemaError: column x is another one"), PermanentError),
    ],
)
def test_whose_fault_a_failure_is(failure: PySparkException, kind: type[RunError]) -> None:
    found = explained("joined", failure)
    assert type(found) is kind
    assert str(found).startswith("stage 'joined' failed: ")
    assert "Traceback" not in str(found)
    assert ("error in Braid" in str(found)) == (kind is InternalError)


PROGRAM = """
CREATE APPLICATION app WITH (shards = 1);
CREATE INPUT TABLE l (id bigint, t timestamp, n int) FROM SCRIBE("l") TIME t;
CREATE TABLE out AS SELECT id, element_at(array(1, 2), n) AS x FROM l STORAGE SCRIBE(category = "out");
"""


@pytest.mark.spark
def test_a_row_with_which_an_expression_fails_is_the_programs_fault(spark: object, home: Home) -> None:
    publish("l", [{"id": 1, "t": 1_700_000_000, "n": 1}], home)
    with api.run(api.compile_text(PROGRAM).plan, home, spark=spark) as handle:  # type: ignore[arg-type]
        handle.process_available()
        publish("l", [{"id": 2, "t": 1_700_000_000, "n": 0}], home)
        with pytest.raises(PermanentError, match="INVALID_INDEX_OF_ZERO"):
            handle.wait(60)
    # Whoever starts it finds the same row.
    with pytest.raises(PermanentError, match="INVALID_INDEX_OF_ZERO"):
        api.run(api.compile_text(PROGRAM).plan, home, spark=spark, drain=True).wait()  # type: ignore[arg-type]
