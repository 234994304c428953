"""What happens during a run, in the order it happens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from benchmark.core.trial import TrialResult


class ModelState(StrEnum):
    """How a model's part of the run ended."""

    FINISHED = "finished"
    FAILED = "failed"
    """Stopped early because every further call would have failed alike."""
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStarted:
    """A model's trials begin."""

    model: str
    position: int
    """1 for the first model of the run."""
    models: int
    trials: int
    """Trials to do now; those already on disk are not among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWaiting:
    """A call waits before it is tried again."""

    model: str
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class TrialFinished:
    """A trial ended; it is on disk before anyone hears of it."""

    result: TrialResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFinished:
    """A model's trials are over, one way or another."""

    model: str
    state: ModelState
    message: str
    seconds: float
    done: int


Event = ModelStarted | ModelWaiting | TrialFinished | ModelFinished
