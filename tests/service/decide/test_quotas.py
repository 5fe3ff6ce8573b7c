from __future__ import annotations

import pytest

from braid.client.models import QuotaInfo, TrialInfo, TrialState
from braid.home.service import Resources
from braid.service.decide.quotas import Quotas, quotas_kept

DONE = TrialInfo(state=TrialState.DONE, rows_held=1_500.0, memory=2e9, log_per_day=3e9)


def one(quotas: Quotas, trial: TrialInfo = DONE, cores: int | None = 4, **asked: object) -> QuotaInfo | None:
    found = quotas_kept(quotas, trial, Resources.model_validate(asked), cores)
    assert len(found) <= 1
    return found[0] if found else None


def kept(*args: object, **asked: object) -> bool:
    found = one(*args, **asked)  # type: ignore[arg-type]
    assert found is not None
    return found.kept


def test_without_quotas_everything_may_be() -> None:
    assert one(Quotas()) is None


@pytest.mark.parametrize(
    ("quotas", "limit", "text"),
    [
        ("rows_held", 1_499, "1,500 rows held, and 1,499 is the most"),
        ("memory", 1_000_000_000, "1.9 GB of memory, and 954 MB is the most"),
        ("log_per_day", 1 << 30, "2.8 GB a day in the log, and 1.0 GB is the most"),
        ("cores", 3, "4 cores, and 3 is the most"),
    ],
)
def test_what_is_over_a_quota_says_by_how_much(quotas: str, limit: int, text: str) -> None:
    found = one(Quotas(**{quotas: limit}))
    assert found is not None
    assert (found.name, found.kept, found.text) == (quotas, False, text)
    assert kept(Quotas(**{quotas: limit * 4}))


def test_what_is_asked_for_counts() -> None:
    assert not kept(Quotas(memory=3 << 30), memory="2g", executors=2)
    assert kept(Quotas(memory=3 << 30), memory="1g", executors=2)
    assert not kept(Quotas(cores=3), cores=2, executors=2)
    assert kept(Quotas(cores=3), cores=2)
    # Of a cluster it is not known how many cores come if none are asked for.
    assert not kept(Quotas(cores=3), DONE, None)
    # The driver of a pool is shared.
    assert one(Quotas(cores=3), pool="small") is None


def test_a_trial_that_could_not_be_done_is_no_reason_and_one_that_took_too_much_is() -> None:
    unknown, exceeded = TrialInfo(state=TrialState.UNKNOWN), TrialInfo(state=TrialState.EXCEEDED)
    assert kept(Quotas(rows_held=1), unknown)
    assert not kept(Quotas(rows_held=1), exceeded)
    assert not kept(Quotas(memory=1 << 30), unknown, memory="2g")
