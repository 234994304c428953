"""Everything that can go wrong, as one family.

BenchmarkError                 anything we raise on purpose; its text is meant for a person
├── UsageError                 what was asked cannot be done as it was asked
│   ├── ConfigError            models_config.yaml or the environment is wrong
│   ├── ModelError             UnknownModel, AmbiguousModel, MissingKey
│   ├── DatasetError           unknown, empty or broken dataset
│   └── MissingExtra           an optional package is not installed
├── StoreError                 the run's folder: unknown, unwritable, damaged
│   ├── StoreBusy              another process owns the run
│   ├── StoreFull              no room left on the disk
│   └── ProtocolMismatch       the run on disk asks other questions than this one
├── AgentError                 an agent could not do its work, whatever the model did
├── ScorerError                a scorer could not judge an answer; nobody's answer is wrong for it
│   └── JudgeError             the model that judges failed; `kind` says how
├── OutOfCalls                 a task's model calls are used up
├── SandboxError               programs cannot be run here, or not kept apart; never the program's own fault
└── ProviderError              a model call failed; `kind` says how, and so who is to blame
    ├── RateLimitError
    ├── MissingModel           the server does not have this model
    └── RejectedRequest        the server refuses what an agent composed, and it alone
"""

from __future__ import annotations

import errno
from enum import StrEnum


class FailureKind(StrEnum):
    """Why a trial has no score. Each kind names who is to blame."""

    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    TRANSIENT = "transient"
    MALFORMED = "malformed"
    TIMEOUT = "timeout"
    AUTH = "auth"
    QUOTA = "quota"
    NOT_FOUND = "not_found"
    BAD_REQUEST = "bad_request"
    CONTEXT_LENGTH = "context_length"
    AGENT = "agent"
    SANDBOX = "sandbox"
    VERIFIER = "verifier"
    BUDGET = "budget"
    UNCHECKED = "unchecked"
    """There is nothing to judge the work by."""
    UNJUDGED = "unjudged"
    """Answered, but a judge failed: the answer is kept and can be judged later."""
    OURS = "ours"

    @property
    def retryable(self) -> bool:
        """Whether asking again may help."""
        return self in _RETRYABLE

    @property
    def ends_model(self) -> bool:
        """Whether every further call of the same model would fail alike."""
        return self in _ENDS_MODEL


_RETRYABLE = frozenset(
    {FailureKind.RATE_LIMIT, FailureKind.OVERLOADED, FailureKind.TRANSIENT, FailureKind.MALFORMED, FailureKind.TIMEOUT}
)
_ENDS_MODEL = frozenset({FailureKind.AUTH, FailureKind.QUOTA, FailureKind.NOT_FOUND})


class BenchmarkError(Exception):
    """Base of every error whose text is written for a person."""


class UsageError(BenchmarkError):
    """What was asked cannot be done as it was asked."""


class ConfigError(UsageError):
    """A configuration file or variable is wrong."""


class ModelError(UsageError):
    """A model was named that cannot be used."""


class UnknownModel(ModelError):
    """No provider has a model of this name."""


class AmbiguousModel(ModelError):
    """A bare name fits more than one provider."""


class MissingKey(ModelError):
    """The provider needs a key and none is set."""


class DatasetError(UsageError):
    """A dataset is unknown, empty or broken."""


class MissingExtra(UsageError):
    """An optional package is needed and not installed."""


class StoreError(BenchmarkError):
    """The run's folder or its database cannot be used."""


class StoreBusy(StoreError):
    """Another process owns this run."""


class StoreFull(StoreError):
    """The disk has no room for the results."""


class ProtocolMismatch(StoreError):
    """The run on disk was made with other questions or settings than this one."""


class AgentError(BenchmarkError):
    """An agent could not do its work, whatever the model did."""


class ScorerError(BenchmarkError):
    """A scorer could not judge: its own fault or its judge's, never the answer's."""


class JudgeError(ScorerError):
    """A model that judges failed."""

    def __init__(self, message: str, *, kind: FailureKind) -> None:
        super().__init__(message)
        self.kind = kind


class OutOfCalls(BenchmarkError):
    """The model was called as often as the task allows."""


class SandboxError(BenchmarkError):
    """A program could not be run apart from the machine. What the program itself does wrong is no error."""

    kind = FailureKind.SANDBOX


class ProviderError(BenchmarkError):
    """A model call failed."""

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = FailureKind.TRANSIENT,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after
        self.status = status


class RejectedRequest(ProviderError):
    """The server refuses a request that an agent composed and that was passed on as it was; it had taken others before."""

    def __init__(self, message: str, status: int | None = 400) -> None:
        super().__init__(message, kind=FailureKind.BAD_REQUEST, status=status)


class RateLimitError(ProviderError):
    """The provider asked us to slow down."""

    def __init__(self, message: str, retry_after: float | None = None, status: int | None = 429) -> None:
        super().__init__(message, kind=FailureKind.RATE_LIMIT, retry_after=retry_after, status=status)


class MissingModel(ProviderError):
    """The server answered that it does not have this model."""

    def __init__(self, message: str, status: int | None = 404) -> None:
        super().__init__(message, kind=FailureKind.NOT_FOUND, status=status)


_EXHAUSTED = {
    errno.EAGAIN: "no more processes or threads can be started; raise the limit of processes (ulimit -u, or the container's)",
    errno.ENOMEM: "there is no memory left",
    errno.EMFILE: "no more files can be opened; raise the limit of open files (ulimit -n)",
    errno.ENFILE: "no more files can be opened on this machine",
}


def exhausted(error: BaseException) -> str:
    """What this machine has run out of, and what helps; empty where the error says nothing of the kind."""
    if isinstance(error, MemoryError):
        return _EXHAUSTED[errno.ENOMEM]
    if isinstance(error, OSError):
        return _EXHAUSTED.get(error.errno or 0, "")
    # What Python makes of the same answer of the system when it wants a thread.
    return _EXHAUSTED[errno.EAGAIN] if str(error) == "can't start new thread" else ""
