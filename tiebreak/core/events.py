"""What happens during a run, in the order it happens."""

from __future__ import annotations

from enum import StrEnum

from tiebreak.core.preference import Preference
from tiebreak.core.record import Record
from tiebreak.core.trial import TrialResult


class ContestantState(StrEnum):
    """How a contestant's part of the run ended."""

    FINISHED = "finished"
    FAILED = "failed"
    """Stopped early because every further call would have failed alike."""
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    DECIDED = "decided"
    """Asked no further, because its place is known already: it is ranked by what it answered."""
    WAITING = "waiting"
    """Its provider has still to answer what it was sent in batches; who resumes the run collects it."""
    OUT_OF_BUDGET = "out_of_budget"
    """Stopped before the next trial could pass a limit the user set on cost, tokens or time."""


COMPLETE = (ContestantState.FINISHED, ContestantState.DECIDED)
"""Ends after which nothing is left to do."""


class ContestantStarted(Record, frozen=True, kw_only=True):
    """A contestant's trials begin."""

    contestant: str
    position: int
    """1 for the first contestant of the run."""
    contestants: int
    trials: int
    """Trials to do now; those already on disk are not among them."""


class ContestantWaiting(Record, frozen=True, kw_only=True):
    """Calls wait: to be tried again, for a limit, for a server to recover, or for the budget."""

    contestant: str
    """Whose calls: a contestant's label, or the judge's."""
    reason: str
    seconds: float
    """How long, from now."""


class TrialStep(Record, frozen=True, kw_only=True):
    """Something happened in a trial that takes its time: what, and what it has used so far."""

    contestant: str
    sample: str
    phase: str
    """prompt, call, tool, checking, check, question, …"""
    text: str
    calls: int
    tokens: int
    cost_usd: float | None


class TrialFinished(Record, frozen=True):
    """A trial ended; it is on disk before anyone hears of it."""

    result: TrialResult


class TrialLost(Record, frozen=True):
    """A trial was lost with the machine it was on and goes to another; what it had used, or may have, is on disk."""

    result: TrialResult


class ContestantFinished(Record, frozen=True, kw_only=True):
    """A contestant's trials are over, one way or another."""

    contestant: str
    state: ContestantState
    message: str
    seconds: float
    done: int


class PairJudged(Record, frozen=True):
    """A judge was asked which of two answers is better."""

    preference: Preference


class NodeState(StrEnum):
    """What became of a node of the cluster a run works on."""

    READY = "ready"
    LEFT_OUT = "left_out"
    """It cannot take part in this run."""
    LOST = "lost"
    """It works no more; what it had begun goes to others."""


class NodeChanged(Record, frozen=True, kw_only=True):
    """A node of the cluster joined the run, was left out of it, or was lost."""

    node: str
    state: NodeState
    message: str
    ready: int
    """Nodes at work from now on."""


Event = (
    ContestantStarted | ContestantWaiting | TrialStep | TrialFinished | TrialLost | ContestantFinished | PairJudged | NodeChanged
)
