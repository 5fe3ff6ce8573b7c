"""Who writes a category, a lookup table or a warehouse table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Owner:
    """The one application that writes something, and the stage of it that does."""

    application: str
    stage: str

    @property
    def text(self) -> str:
        """In words."""
        return f"application {self.application!r} (stage {self.stage!r})"


NOBODY = Owner("", "")
"""The owner of what has been released: whoever writes to it next may have it."""
