"""How the inputs of an operator are paced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from braid.core.config import AppConfig
from braid.core.errors import ConfigError
from braid.core.times import MINUTE
from braid.eventtime.ascending import Ascending
from braid.eventtime.calibrated import Calibrated
from braid.eventtime.estimator import Estimator
from braid.eventtime.ordered import Ordered
from braid.eventtime.propagated import Propagated

PERCENTILE = 1.0
RESCUED_PERCENTILE = 5.0
"""Shares of rows, in percent, that may arrive behind stream time, where no option says otherwise."""


@dataclass(frozen=True)
class PacingConfig:
    """How the inputs of an operator are paced.

    Parameters
    ----------
    estimators
        The inputs by name, each with its estimator of stream time.
    upper
        Of two inputs whose rows meet in a window, its upper bound: the second input (a join's right one) is
        kept at the first one's stream time plus this. Of any sign, and enough: where the window begins does
        not matter for pacing. None for inputs that need not wait for each other.
    slack
        How far the second input may be ahead of that before it is paused. The first one may be ahead by this
        and by a positive `upper`: its rows wait for later rows of the second anyway, but find earlier ones at
        once. For it counts how far the second input has come, not its stream time: rows of the first would
        have to wait for as long as those of the second may be late, and their matches with them.
    idle_timeout
        Silence after which an input no longer holds back the other one.
    waits
        Whether it goes on holding it back, however long it is silent.
    batch_rows
        Rows admitted at once when there is no backlog.
    max_growth
        By how much `batch_rows` may be exceeded under backlog.
    patient
        Inputs that are waited for however long they are silent: rows are known to be on their way.
    """

    estimators: Mapping[str, Estimator]
    upper: int | None = None
    slack: int = MINUTE
    idle_timeout: int = 30_000_000
    batch_rows: int = 1_000_000
    max_growth: int = 8
    patient: tuple[str, ...] = ()
    waits: bool = False

    def __post_init__(self) -> None:
        if self.upper is not None and len(self.estimators) != 2:
            raise ConfigError(f"a window is between two inputs, not {len(self.estimators)}")
        for name in ("slack", "idle_timeout"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}, but must not be negative")
        for name in ("batch_rows", "max_growth"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}, but must be at least 1")

    @classmethod
    def of(
        cls,
        options: AppConfig,
        names: Iterable[str],
        upper: int | None,
        propagated: Iterable[str] = (),
        disorder: Mapping[str, int] | None = None,
        rescued: Iterable[str] = (),
    ) -> PacingConfig:
        """Pacing by an application's options.

        `propagated` inputs carry an upstream join's watermarks; `disorder` says how far records may be behind
        earlier ones, of inputs for which that is declared.
        Late rows of `rescued` inputs find their partners in the log: a daring stream time costs them
        lookups, not matches, and saves most of the delay (bench/paper: the same matches in minutes
        instead of an hour).
        """
        make = Ascending if options.stream_time == "ascending" else Calibrated
        upstream, declared, daring = set(propagated), disorder or {}, set(rescued)

        def estimator(name: str) -> Estimator:
            if name in upstream:
                return Propagated()
            if name in declared:
                return Ordered(declared[name])
            return make(options.percentile or (RESCUED_PERCENTILE if name in daring else PERCENTILE))

        return cls(
            {str(name): estimator(name) for name in names},
            upper,
            options.slack,
            options.idle_timeout,
            options.batch_rows,
            waits=options.idle == "wait",
        )
