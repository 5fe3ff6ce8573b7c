"""Whose fault it is that an application has ended, which decides whether it is started again by itself."""

from __future__ import annotations

from braid.core.errors import BraidError, InternalError
from braid.home.service import Domain


def domain_of(error: BaseException) -> Domain:
    """Whose fault an error is.

    What lasts is wrong with a program, its options, or what it has stored. What may pass is that of something
    outside, such as a disk or a network. Anything that nobody has foreseen is a bug.
    """
    if isinstance(error, InternalError):
        return Domain.OURS
    if isinstance(error, BraidError):
        return Domain.USER if error.lasts else Domain.OUTSIDE
    return Domain.OUTSIDE if isinstance(error, OSError) else Domain.OURS
