"""What happens during a run, in the order it happens."""

from __future__ import annotations

from enum import StrEnum

from benchmark.core.record import Record
from benchmark.core.trial import TrialResult


class ModelState(StrEnum):
    """How a model's part of the run ended."""

    FINISHED = "finished"
    FAILED = "failed"
    """Stopped early because every further call would have failed alike."""
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    OUT_OF_BUDGET = "out_of_budget"
    """Stopped before the next trial could pass a limit the user set on cost, tokens or time."""


class ModelStarted(Record, frozen=True, kw_only=True):
    """A model's trials begin."""

    model: str
    position: int
    """1 for the first model of the run."""
    models: int
    trials: int
    """Trials to do now; those already on disk are not among them."""


class ModelWaiting(Record, frozen=True, kw_only=True):
    """A model's calls wait: to be tried again, for a limit, for its server to recover, or for the budget."""

    model: str
    reason: str
    seconds: float
    """How long, from now."""


class TrialStep(Record, frozen=True, kw_only=True):
    """Something happened in a trial that takes its time: what, and what it has used so far."""

    model: str
    sample: str
    agent: str
    phase: str
    """prompt, call, tool, checking, check, question, …"""
    text: str
    calls: int
    tokens: int
    cost_usd: float | None


class TrialFinished(Record, frozen=True):
    """A trial ended; it is on disk before anyone hears of it."""

    result: TrialResult


class ModelFinished(Record, frozen=True, kw_only=True):
    """A model's trials are over, one way or another."""

    model: str
    state: ModelState
    message: str
    seconds: float
    done: int


Event = ModelStarted | ModelWaiting | TrialStep | TrialFinished | ModelFinished
