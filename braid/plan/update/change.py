"""One change between two plans, with the rule that judges it."""

from __future__ import annotations

from dataclasses import dataclass

from braid.plan.update.rules import STAGE_RULES, UPDATE_RULES, UpdateRule, Verdict


@dataclass(frozen=True)
class Change:
    """One change.

    Parameters
    ----------
    kind
        A key of `UPDATE_RULES` or `STAGE_RULES`.
    subject
        What changes, such as `join joined_streams` or `table result`.
    detail
        How, naming the old and the new.
    replay
        For a replay, how far back rows are read again, in microseconds; None is from the start of the source.
    stage
        The stage that something has to be done with, if the rule says so.
    """

    kind: str
    subject: str
    detail: str
    replay: int | None = None
    stage: str | None = None

    @property
    def rule(self) -> UpdateRule:
        """The rule on this kind of change."""
        return UPDATE_RULES.get(self.kind) or STAGE_RULES[self.kind]

    @property
    def verdict(self) -> Verdict:
        """What happens to state and in-flight data."""
        return self.rule.verdict
