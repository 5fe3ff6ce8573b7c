"""How a query computes its rows, and the facts that decide it together with the plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from braid.plan.physical.layout import Layout


@dataclass(frozen=True)
class Facts:
    """What the plan does not say.

    Parameters
    ----------
    executors
        How many executors there are, besides the driver.
    layout
        The layout that a stage's state has already; None for a stage that starts without state.
    expressible
        Whether Arrow can compute what the stage stores; None if types are not known yet.
    """

    executors: int = 1
    layout: Layout | None = None
    expressible: bool | None = None


class Operation(ABC):
    """How a query computes its rows; one subclass per kind of stage."""

    @property
    @abstractmethod
    def texts(self) -> list[str]:
        """In words, for explain."""
