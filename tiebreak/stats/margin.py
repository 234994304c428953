"""The cheapest contestant that is not worse than the best by more than a margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiebreak.stats.family import SURE
from tiebreak.stats.paired import Floats, Integers
from tiebreak.stats.race import Leader, Row, shown_better
from tiebreak.stats.schedule import RACING
from tiebreak.stats.sequential import above_p

FOR_MARGIN = SURE - RACING
"""The error of all claims "not worse" together; the rest is for who is not the best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is shown so far; contestants are called by their row."""

    order: tuple[int, ...]
    """By price, the cheapest first."""
    fit: int | None
    """The cheapest that is shown to be within the margin of everyone who may be the best."""
    too_bad: frozenset[int]
    """Shown to be worse than somebody by more than the margin."""
    beaten: frozenset[int]
    """Shown to be worse than somebody who costs no more."""

    @property
    def settled(self) -> bool:
        """Whether nobody cheaper can still turn out to be good enough."""
        return self.fit is not None and all(row in self.too_bad for row in self.order[: self.order.index(self.fit)])


def choose_within(
    table: Floats, prices: Sequence[float], margin: float, *, done: Sequence[int], groups: Integers | None = None
) -> Choice:
    """Who is good enough, of contestants × samples in the order of the plan. It may be looked at any number of times.

    The claim that a contestant is within the margin of the best holds when it is shown against everyone not shown to be worse
    than somebody. The error is shared by all who may be claimed so.
    """
    rows = range(len(table))
    order = tuple(sorted(rows, key=lambda row: (prices[row], row)))
    better = shown_better(table, done, groups)
    beaten = frozenset(worse for one, worse in better if prices[one] <= prices[worse])
    not_best = frozenset(worse for _, worse in better)
    alpha = FOR_MARGIN / len(table)

    def above(one: int, other: int, bound: float) -> float:
        both = min(done[one], done[other])
        return above_p(table[one, :both] - table[other, :both], bound, None if groups is None else groups[:both])

    def is_fit(row: int) -> bool:
        return all(above(row, other, -margin) < alpha for other in rows if other != row and other not in not_best)

    too_bad = frozenset(row for row in rows if any(above(other, row, margin) < SURE for other in rows if other != row))
    fit = next((row for row in order if row not in too_bad and is_fit(row)), None)
    return Choice(order=order, fit=fit, too_bad=too_bad, beaten=beaten)


class Cheapest(Leader):
    """Until the cheapest is known that is not worse than the best by more than a margin, in points: `cheapest:2`."""

    def __init__(self, contestants: Sequence[str], planned: int, margin: str = "2") -> None:
        super().__init__(contestants, planned)
        self._margin = margin_of(margin)
        self._costs = [0.0] * len(contestants)

    def observe(self, row: Row) -> None:
        """Take the next sample, and what it cost."""
        for number, label in enumerate(self._labels):
            self._costs[number] += row.costs.get(label) or 0.0
        super().observe(row)

    def _look(self) -> None:
        groups = self._groups_so_far()
        prices = [cost / max(1, rows) for cost, rows in zip(self._costs, self._done, strict=True)]
        tables = [table[:, : self._rows] for table in self._tables]
        one, other = (choose_within(table, prices, self._margin, done=self._done, groups=groups) for table in tables)
        for row in (one.too_bad | one.beaten) & (other.too_bad | other.beaten):
            self._decided.setdefault(
                self._labels[row], "shown to be worse than one that costs no more, or by more than the margin"
            )
        if one.settled and other.settled and one.fit == other.fit and one.fit is not None:
            self._end(self._labels[one.fit])

    def _end(self, fit: str) -> None:
        self._decided.setdefault(fit, f"shown to be within {in_points(self._margin)} of the best, and nobody cheaper is")
        for label in self._labels:
            self._decided.setdefault(label, f"{fit} costs less and is shown to be within {in_points(self._margin)} of the best")


def margin_of(text: str) -> float:
    """A margin as typed, in points; ValueError where it is none."""
    points = float(text)
    if not 0 < points < 100:
        raise ValueError(f"a margin is between 0 and 100 points, not {text}")
    return points / 100


def in_points(margin: float) -> str:
    """A margin as people say it."""
    return f"{100 * margin:g} point{'' if np.isclose(margin, 0.01) else 's'}"
