"""Batch jobs: many requests handed to a provider in one file, answered within a day at a lower price."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import Reply
from tiebreak.core.model import Request

FILES = "batch-"
"""How the names of files begin that are made to be sent, and gone afterwards."""
BATCH_PRICE = 0.5
"""What an answer from a batch costs, as a share of the usual price."""


class JobState(StrEnum):
    """How far a job is, as far as we know."""

    PLANNED = "planned"
    """Written down, and perhaps created: a reply that was lost leaves it here."""
    SUBMITTED = "submitted"
    COLLECTED = "collected"
    DROPPED = "dropped"
    """Never created; its requests go into another job."""


OPEN = (JobState.PLANNED, JobState.SUBMITTED)
"""A job in one of these states may still bring answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One file of requests of one contestant."""

    key: str
    """Our own name for it, which the provider keeps where it can."""
    contestant: str
    lines: int
    planned_at: datetime
    previous: str = ""
    """The provider's newest job before this one: what comes after it in the provider's list may be this one."""
    nano_usd: int = 0
    """The most it may cost, in billionths of a dollar."""
    tokens: int = 0
    id: str = ""
    """The provider's name for it, once we know it."""
    state: JobState = JobState.PLANNED
    message: str = ""


class End(StrEnum):
    """How a provider ended a job."""

    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    """None of it was run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJob:
    """A job as its provider tells of it."""

    id: str
    end: End | None = None
    """None while it goes on."""
    key: str = ""
    """The name its maker gave it; empty where the provider does not tell."""
    lines: int = 0
    """Requests in it; 0 where the provider does not tell."""
    done: int = 0
    error: ProviderError | None = None
    """Why none of it was run."""
    files: tuple[str, ...] = ()
    """Where its results are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """How much one job may hold."""

    lines: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineResult:
    """What became of one request: a reply, or why there is none."""

    trial: str
    reply: Reply | None = None
    error: ProviderError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A line's result as it is written down."""

    trial: str
    reply: bytes | None = None
    """The reply as JSON."""
    kind: FailureKind | None = None
    message: str = ""
    again: bool = False
    """It failed by no doing of its own, and is asked in another job."""
    nano_usd: int = 0
    tokens: int = 0


TakeLine = Callable[[bytes], None]


class Batches(Protocol):
    """A provider's batch jobs."""

    limits: ClassVar[JobLimits]

    def line(self, trial: str, request: Request) -> bytes:
        """A request as a line of a job's file, with its line feed."""
        ...

    async def upload(self, job: Job, path: Path) -> str:
        """Send the file ahead, where the provider wants that. Costs nothing, and may be done again."""
        ...

    async def create(self, job: Job, path: Path, upload: str, model: str) -> str:
        """Create the job, which is what is paid for; the provider's name for it."""
        ...

    async def look(self, identity: str) -> RemoteJob:
        """A job as it is now."""
        ...

    def listed(self) -> AsyncGenerator[RemoteJob, None]:
        """The account's jobs, the newest first."""
        ...

    async def results(self, remote: RemoteJob, take: TakeLine) -> None:
        """Hand over every line of an ended job's results; what `take` raises ends it."""
        ...

    def read(self, line: bytes) -> LineResult | None:
        """What a line of the results says; None for a request that was not run."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class JobBook(Protocol):
    """Where jobs are written down. What a method changes is on disk when it returns."""

    def open_jobs(self, contestant: str) -> Sequence[Job]:
        """Jobs that may still bring answers, the oldest first."""
        ...

    def remote_ids(self) -> frozenset[str]:
        """The provider's names of all our jobs."""
        ...

    def in_hand(self, trials: Sequence[str]) -> set[str]:
        """Which of these trials are in an open job, or have a result."""
        ...

    def with_result(self, trials: Sequence[str]) -> set[str]:
        """Which of these trials have a result."""
        ...

    def holds(self, job: Job, trial: str) -> bool:
        """Whether a trial is in a job."""
        ...

    def plan(self, job: Job, trials: Iterable[str]) -> None:
        """Write a job down before it is sent."""
        ...

    def submitted(self, job: Job, identity: str) -> None:
        """Write down that a job exists, and by which name."""
        ...

    def drop(self, job: Job, message: str) -> None:
        """Write down that a job was never created."""
        ...

    def expected(self, job: Job, trials: Sequence[str]) -> set[str]:
        """Which of these trials are in a job and have no result yet."""
        ...

    def has_unsent(self) -> bool:
        """Whether a request was taken out of its job, to be sent in another."""
        ...

    def settle(self, job: Job, results: Sequence[Settled]) -> None:
        """Write results down; the first one of a trial stands. What was asked again too often has failed."""
        ...

    def collected(self, job: Job, *, again: bool, kind: FailureKind, message: str) -> None:
        """Write down that a job is over. What has no result by now is asked again, or failed."""
        ...

    def result_of(self, trial: str) -> Reply | None:
        """The reply to a trial; None where it was in no job. Raises ProviderError where there is none and will be none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Answers that a provider has not given yet."""

    contestant: str
    lines: int
    since: datetime
    ids: tuple[str, ...] = field(default=())
    """The provider's names of the jobs."""
