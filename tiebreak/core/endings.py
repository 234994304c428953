"""Whose doing it is that a trial has no right answer: what counts as wrong, and what is left out.

What a contestant brings about itself counts as wrong: an answer that is refused, empty or too long, calls, context or
time of a task that are used up, and a request of the agent's own making that the server refuses. What the run's budget,
the server, the network, the judge or tiebreak itself brings about is left out of the score and shown beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tiebreak.core.errors import FailureKind
from tiebreak.core.trial import Outcome
from tiebreak.core.work import WorkOutcome


class Counts(StrEnum):
    """How a trial enters the score."""

    AS_SCORED = "as scored"
    WRONG = "wrong"
    LEFT_OUT = "left out"


OUTCOMES: Mapping[Outcome, Counts] = {
    Outcome.ANSWERED: Counts.AS_SCORED,
    Outcome.CUT_OFF: Counts.WRONG,
    Outcome.REFUSED: Counts.WRONG,
    Outcome.EMPTY: Counts.WRONG,
    Outcome.FILTERED: Counts.WRONG,
    Outcome.EXHAUSTED: Counts.WRONG,
    Outcome.FAILED: Counts.LEFT_OUT,
}

FAILURES: Mapping[FailureKind, Counts] = {
    FailureKind.RATE_LIMIT: Counts.LEFT_OUT,
    FailureKind.OVERLOADED: Counts.LEFT_OUT,
    FailureKind.TRANSIENT: Counts.LEFT_OUT,
    FailureKind.MALFORMED: Counts.LEFT_OUT,
    FailureKind.TIMEOUT: Counts.LEFT_OUT,
    FailureKind.AUTH: Counts.LEFT_OUT,
    FailureKind.QUOTA: Counts.LEFT_OUT,
    FailureKind.NOT_FOUND: Counts.LEFT_OUT,
    FailureKind.BAD_REQUEST: Counts.LEFT_OUT,
    FailureKind.CONTEXT_LENGTH: Counts.WRONG,
    FailureKind.BUDGET: Counts.WRONG,
    FailureKind.AGENT: Counts.LEFT_OUT,
    FailureKind.SANDBOX: Counts.LEFT_OUT,
    FailureKind.VERIFIER: Counts.LEFT_OUT,
    FailureKind.UNCHECKED: Counts.LEFT_OUT,
    FailureKind.UNJUDGED: Counts.LEFT_OUT,
    FailureKind.OURS: Counts.LEFT_OUT,
}

WORK: Mapping[WorkOutcome, Counts] = {
    WorkOutcome.PASSED: Counts.AS_SCORED,
    WorkOutcome.WRONG_RESULT: Counts.WRONG,
    WorkOutcome.NO_CHANGE: Counts.WRONG,
    WorkOutcome.QUESTION: Counts.WRONG,
    WorkOutcome.TIMEOUT: Counts.WRONG,
    WorkOutcome.BUDGET: Counts.WRONG,
    WorkOutcome.CONTEXT: Counts.WRONG,
    WorkOutcome.REJECTED: Counts.WRONG,
    WorkOutcome.AGENT_ERROR: Counts.LEFT_OUT,
    WorkOutcome.PROVIDER_ERROR: Counts.LEFT_OUT,
    WorkOutcome.VERIFIER_ERROR: Counts.LEFT_OUT,
    WorkOutcome.SANDBOX_ERROR: Counts.LEFT_OUT,
    WorkOutcome.UNCHECKED: Counts.LEFT_OUT,
}
"""A check that passes counts as scored, however the agent ended."""
