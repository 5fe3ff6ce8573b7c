"""Whether a program may take what it is expected to take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from braid.client.models import QuotaInfo, TrialInfo, TrialState
from braid.core.sizes import parse_size, size_words
from braid.home.service import Resources


@dataclass(frozen=True)
class Quotas:
    """What each application may take; None is as much as it likes.

    Parameters
    ----------
    rows_held
        Rows that its stages hold.
    memory, log_per_day
        In bytes.
    cores
        Of all its executors.
    """

    rows_held: int | None = None
    memory: int | None = None
    cores: int | None = None
    log_per_day: int | None = None


def quotas_kept(quotas: Quotas, trial: TrialInfo, asked: Resources, cores: int | None) -> list[QuotaInfo]:
    """How each quota that there is would be kept.

    Parameters
    ----------
    trial, asked
        What the program is expected to take, and what it asks for.
    cores
        That it gets if it asks for none; None if that is not known.
    """
    # A trial that takes too much may be that of a program that does; nobody is to blame for no trial.
    passes = trial.state is not TrialState.EXCEEDED
    java = None if asked.memory is None else float(parse_size(asked.memory) * (asked.executors or 1))
    memory = max((size for size in (java, trial.memory) if size is not None), default=None)
    each = asked.cores or cores
    total = None if each is None else float(each * (asked.executors or 1))
    of_its_own = asked.pool is None
    found = [
        _kept("rows_held", quotas.rows_held, trial.rows_held, _count, "rows held", passes),
        _kept("memory", quotas.memory, memory, size_words, "of memory", passes),
        _kept("log_per_day", quotas.log_per_day, trial.log_per_day, size_words, "a day in the log", passes),
        _kept("cores", quotas.cores if of_its_own else None, total, _count, "cores", False),
    ]
    return [one for one in found if one is not None]


def _kept(
    name: str, limit: int | None, figure: float | None, words: Callable[[float], str], of: str, passes: bool
) -> QuotaInfo | None:
    if limit is None:
        return None
    if figure is None:
        text = f"at most {words(limit)} {of}, and how much it takes is not known"
        return QuotaInfo(name=name, figure=None, limit=limit, text=text, kept=passes)
    text = f"{words(figure)} {of}, and {words(limit)} is the most"
    return QuotaInfo(name=name, figure=figure, limit=limit, text=text, kept=figure <= limit)


def _count(number: float) -> str:
    return f"{number:,.0f}"
