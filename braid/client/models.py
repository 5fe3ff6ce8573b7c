"""What goes over HTTP, in both directions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from braid.client.examples import with_example
from braid.home.service import Resources
from braid.home.top import Figures as Figures
from braid.home.top import ProcessFigures as ProcessFigures
from braid.home.top import Top as Top

MOST = 2**31 - 1
"""Of a number that the registry keeps."""
_NO_NUL = r"^[^\x00]*$"
"""Not all databases can keep it."""
PRINTED = r"^[^\x00-\x1f\x7f-\x9f]+$"
"""What is printed on terminals does not command them."""


class Told(BaseModel):
    """What the service says; names that this version does not know are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore", json_schema_extra=with_example)


class Asked(BaseModel):
    """What the service is asked; names that it does not know are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=with_example)


class Problem(Told):
    """What is wrong, where, and what to do."""

    what: str
    where: str | None = None
    hint: str | None = None


class Health(Told):
    """Whether the service answers, and its loops run."""

    well: bool


class Role(StrEnum):
    """What somebody may do; each may do what those before it may."""

    VIEWER = "viewer"
    EDITOR = "editor"
    APPROVER = "approver"
    ADMIN = "admin"

    def may(self, needed: Role) -> bool:
        """Whether it includes another role."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


class Desired(StrEnum):
    """What an application should be doing."""

    RUNNING = "running"
    STOPPED = "stopped"
    DELETED = "deleted"
    """It is being deleted, which is not over."""


class VersionState(StrEnum):
    """What has become of a version."""

    WAITING = "waiting"
    """For somebody other than its author to approve it."""
    ACCEPTED = "accepted"
    VOID = "void"
    """The program, or what runs, has changed before it was approved."""


class Service(Told):
    """The service itself."""

    version: str
    home: str
    started: float
    applications: int
    review: str
    registry: str


class ChangeInfo(Told):
    """A change of an update."""

    subject: str
    kind: str
    detail: str
    verdict: str
    reason: str
    alternatives: list[str] = Field(default_factory=list)


class Program(Asked):
    """A program, options that override its own, and what it asks for."""

    program: str = Field(max_length=1_000_000, pattern=_NO_NUL)
    options: dict[str, str] = Field(default_factory=dict)
    resources: Resources = Resources()


class TrialState(StrEnum):
    """What has become of a trial."""

    DONE = "done"
    UNKNOWN = "unknown"
    """It could not be done, which says nothing against the program."""
    FAILED = "failed"
    """The program fails on rows of its inputs."""
    EXCEEDED = "exceeded"
    """It took more time or memory than trials may take."""


class InputTrial(Told):
    """What a trial has taken of an input.

    Parameters
    ----------
    rows, dead
        The newest rows, and how many of them are dead letters.
    rate, basis
        Rows per second that arrive now, and what that is taken from: times of commits, or event times.
    """

    rows: int
    dead: int = 0
    rate: float
    basis: str


class StageTrial(Told):
    """What a stage is expected to do.

    Parameters
    ----------
    rows_in, rows_out
        Rows per second.
    held
        Rows that it holds, pending or in windows, by input.
    match_rate
        Share of the rows that have a match, by input, where that can be told.
    """

    rows_in: float
    rows_out: float
    held: dict[str, float] = Field(default_factory=dict)
    match_rate: dict[str, float] = Field(default_factory=dict)


class TrialInfo(Told):
    """What a program is expected to do, as a trial over the newest rows of its inputs has it.

    Parameters
    ----------
    state, why, where
        Whether it was done; if not, why not, and of a failure in which stage and at which row.
    rows_in, rows_out
        Rows per second that are read of all inputs, and stored in all tables.
    rows_held
        Rows that its stages hold.
    memory, checkpoint
        Bytes of the driver with its workers, or what a member of a pool adds to it; and of all checkpoints.
    log_per_day
        Bytes that it adds to the log in a day.
    inputs, stages
        By category, and by name.
    notes
        What could not be told, and why.
    """

    state: TrialState
    why: str | None = None
    where: str | None = None
    rows_in: float | None = None
    rows_out: float | None = None
    rows_held: float | None = None
    memory: float | None = None
    checkpoint: float | None = None
    log_per_day: float | None = None
    inputs: dict[str, InputTrial] = Field(default_factory=dict)
    stages: dict[str, StageTrial] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)


class QuotaInfo(Told):
    """A quota, and how it is kept.

    Parameters
    ----------
    name
        Of the setting, without `quota_`.
    figure, limit
        What the program takes, None if that is not known; and what it may take.
    text
        Both in words.
    kept
        Whether it may land as far as this quota goes.
    """

    name: str
    figure: float | None
    limit: float
    text: str
    kept: bool


class PlanInfo(Told):
    """What deploying a program would do.

    Parameters
    ----------
    application, new
        Which application, and whether there is none of this name.
    verdict, changes
        Of the update from what runs; None for a new application.
    warnings
        What the compiler says.
    in_flight
        Rows that stages hold and that would be decided before their time.
    removes
        Tables and joins of what runs that the program leaves out.
    stages, resources
        What will run, and what it asks for.
    trial, quotas
        What it is expected to do, and whether it may do so much.
    hash
        Of the program, its options and resources, and what runs: another one is another plan.
    """

    application: str
    new: bool
    verdict: str | None = None
    changes: list[ChangeInfo] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    in_flight: dict[str, int] = Field(default_factory=dict)
    removes: list[str] = Field(default_factory=list)
    stages: list[str] = Field(default_factory=list)
    resources: Resources = Resources()
    trial: TrialInfo | None = None
    quotas: list[QuotaInfo] = Field(default_factory=list)
    hash: str

    @property
    def is_refused(self) -> bool:
        """Whether it cannot land, whatever is agreed to."""
        fails = self.trial is not None and self.trial.state is TrialState.FAILED
        return self.verdict == "refused" or fails or not all(quota.kept for quota in self.quotas)


class Deploy(Program):
    """Land a program.

    Parameters
    ----------
    hash
        Of the plan that was shown; it is refused if the plan is another one by now.
    replay, discard, remove
        What was agreed to: that inputs are replayed, that rows in flight are decided before their time, that
        tables or joins are removed.
    create
        Whether inputs that are not there are made, empty.
    """

    hash: str | None = Field(None, max_length=64)
    replay: bool = False
    discard: bool = False
    remove: bool = False
    create: bool = False


class Rollback(Asked):
    """Go back to an earlier version; by default to the one before the last."""

    version: int | None = Field(None, ge=1, le=MOST)
    replay: bool = False
    discard: bool = False
    remove: bool = False


class Approval(Asked):
    """Approve a version."""

    hash: str = Field(max_length=64)


class VersionInfo(Told):
    """A version of an application."""

    number: int
    state: VersionState
    author: str
    created: float
    hash: str
    verdict: str | None = None
    changes: list[str] = Field(default_factory=list)
    approved_by: str | None = None
    options: dict[str, str] = Field(default_factory=dict)
    resources: Resources = Resources()
    program: str | None = None


class ApplicationInfo(Told):
    """An application, what it should be doing, and what it is doing.

    Parameters
    ----------
    name
        Its name.
    desired, version
        What it should be doing, and which version of it.
    state, running_version
        What it is doing.
    phase
        While it starts: what it does just now, or waits for.
    waiting
        The version that waits for approval, if any.
    pool
        Of which pool it runs.
    pid, started
        Its driver.
    restarts
        Starts within the last half hour that were not asked for.
    next_start
        When it will be started again, if it has failed.
    error
        What it has failed with last, if it is not running.
    status
        Metrics of its stages, as `braid status --json` tells them.
    """

    name: str
    desired: Desired
    version: int | None
    state: str
    running_version: int | None = None
    phase: str | None = None
    waiting: int | None = None
    pool: str | None = None
    pid: int | None = None
    started: float | None = None
    restarts: int = 0
    next_start: float | None = None
    error: str | None = None
    status: dict[str, Any] | None = None


class EventInfo(Told):
    """Something that happened."""

    id: int
    at: float
    application: str | None
    kind: str
    text: str
    data: dict[str, Any] = Field(default_factory=dict)


class AuditInfo(Told):
    """Something that somebody has changed."""

    id: int
    at: float
    who: str
    source: str
    action: str
    target: str
    before: Any = None
    after: Any = None


NamePattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.*?-]{1,200}$")]
"""Names of applications, where `*` stands for any letters, and `?` for one."""


class NewToken(Asked):
    """A token to be made."""

    name: str = Field(min_length=1, max_length=200, pattern=PRINTED)
    role: Role = Role.VIEWER
    rows: bool = Field(False, description="Whether it may see rows.")
    days: float | None = Field(90, gt=0, le=3660, description="After which it expires; null is never.")
    only: list[NamePattern] = Field(
        default_factory=list,
        max_length=50,
        description="Applications that it may change, by patterns of their names; none is all.",
    )

    @model_validator(mode="after")
    def _is_not_limited_in_vain(self) -> Self:
        if self.only and self.role is Role.ADMIN:
            raise ValueError("an admin makes tokens, so that limits would mean nothing")
        return self


class TokenInfo(Told):
    """A token; the secret itself is told once, when it is made."""

    id: str
    name: str
    role: Role
    rows: bool
    only: list[str] = Field(default_factory=list)
    created: float
    expires: float | None
    used: float | None = None
    secret: str | None = None


class IdentifiedBy(StrEnum):
    """How the service knows who asks."""

    TOKEN = "token"
    ISSUER = "issuer"
    """By a token of the OpenID Connect issuer."""
    NOTHING = "nothing"
    """It does not ask: anybody on its machine may do anything."""


class WhoAmI(Told):
    """Who asks, and what they may do.

    Parameters
    ----------
    name, by
        Who, and how that is known.
    role, rows
        What they may do, and whether they may see rows.
    only
        Patterns of names of applications that they may change; none is all.
    source
        From where they ask.
    """

    name: str
    by: IdentifiedBy
    role: Role
    rows: bool
    only: list[str] = Field(default_factory=list)
    source: str


class LogLines(Told):
    """Lines of a log, and where to go on reading."""

    lines: list[str]
    next: int


class Deleted(Told):
    """What an application had, and what went with it."""

    removed: list[str] = Field(default_factory=list)
    kept: list[str] = Field(default_factory=list)


class Records(Asked):
    """Records to publish."""

    records: list[dict[str, Any]] = Field(max_length=10_000)


class Published(Told):
    """How many records were published."""

    published: int


class Rows(Told):
    """Rows of a category."""

    rows: list[dict[str, Any]]


class CategoryTold(Told):
    """A category of the log."""

    name: str
    owner: str | None
    commits: int
    rows: int
    bytes: int
