"""How a run's result becomes an exit code."""

from __future__ import annotations

from tiebreak.core.errors import FailureKind
from tiebreak.core.events import COMPLETE, ContestantState
from tiebreak.report.summary import ContestantSummary, Summary

_OWN_DOING = frozenset({FailureKind.UNCHECKED})
"""Without a score, and yet nothing that could be done again: no reason to call a run partial."""


def exit_code(
    summary: Summary, *, allow_failures: float = 0.0, fail_under: float | None = None, worse_than_baseline: bool = False
) -> int:
    """0 all finished, 1 nothing usable, 2 partial, 3 a gate missed. A wrong answer is a result, not a failure."""
    if any(contestant.state == ContestantState.WAITING for contestant in summary.contestants):
        return 2
    if all(contestant.asked == _broken(contestant) for contestant in summary.contestants):
        return 1
    for contestant in summary.contestants:
        finished = contestant.finished and contestant.state in COMPLETE
        if not finished or _broken(contestant) > allow_failures * contestant.planned:
            return 2
    if fail_under is not None and any(_share_right(contestant) < fail_under for contestant in summary.tested):
        return 3
    return 3 if worse_than_baseline else 0


def is_complete(summary: Summary) -> bool:
    """Whether every contestant has done all that was planned."""
    return all(c.finished and c.state in COMPLETE for c in summary.contestants)


def _broken(contestant: ContestantSummary) -> int:
    """Trials that ended without a result by somebody else's doing, or that a judge has still to judge."""
    return contestant.awaiting_judge + sum(count for kind, count in contestant.failures.items() if kind not in _OWN_DOING)


def _share_right(contestant: ContestantSummary) -> float:
    """What a gate looks at: the score, or of coding tasks alone the share of all attempts that passed."""
    work = contestant.work
    if work is not None and work.planned == contestant.planned:
        return work.solve_rate
    return contestant.score or 0.0
