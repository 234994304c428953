"""The cheapest contestant that is within a margin of the best, where a run was to find it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiebreak.report.ranking import Course, Scored, failures_wrong_table, score_table, second_table


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodEnough:
    """What a run that looks for the cheapest has found."""

    margin: float
    """Of the score, from 0 to 1."""
    label: str | None
    """The cheapest that is shown to be within the margin of the best; None: of nobody that is shown."""
    cost_per_trial: float | None
    cheaper: tuple[str, ...]
    """Those that cost less, and are not shown to be good enough."""
    risk: float = 0.05
    """The chance that it is worse by more than the margin, at most."""


def good_enough(until: str, contestants: Sequence[tuple[Scored, float | None]], course: Course) -> GoodEnough | None:
    """Who is good enough, by the tests the race itself goes by; it must hold for either reading and whoever failed."""
    family, _, typed = until.partition(":")
    prices = [price for _, price in contestants if price is not None]
    if family != "cheapest" or len(contestants) < 2 or len(prices) < len(contestants):
        return None
    from tiebreak.stats.margin import choose_within, margin_of

    margin, done = margin_of(typed or "2"), [one.done for one, _ in contestants]
    tallies, groups = [one.tally for one, _ in contestants], _labels(course.groups)
    tables = (score_table(tallies), failures_wrong_table(tallies), second_table(tallies))
    found = {choose_within(table, prices, margin, done=done, groups=groups).fit for table in tables}
    fit = found.pop() if len(found) == 1 else None
    limit = max(prices) if fit is None else prices[fit]
    return GoodEnough(
        margin=margin,
        label=None if fit is None else contestants[fit][0].label,
        cost_per_trial=None if fit is None else prices[fit],
        cheaper=tuple(one.label for (one, _), price in zip(contestants, prices, strict=True) if price < limit),
    )


def _labels(groups: Sequence[int] | None) -> Any:
    import numpy as np

    return None if groups is None else np.asarray(groups, dtype=np.int64)
