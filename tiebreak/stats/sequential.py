"""A test that may be looked at any number of times: a bet on who is better, which luck alone seldom makes rich.

For each pair the differences come in the order of the plan, one per independent unit: a sample, or a group of samples that
stand or fall together. The stake grows when the bet is right. If nobody is better, the chance that it ever grows to 1/α is at
most α (Ville's inequality), however often somebody looks and whenever they stop.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from tiebreak.stats.paired import Floats, Integers

_HIGHEST_BET = 0.5
"""Half of what could be lost at once."""


def anytime_p(differences: Floats, groups: Integers | None = None) -> tuple[float, int]:
    """A p-value that holds at every look, and the sign of the difference it speaks of; 0 where there is none.

    The differences are those of all samples in the order of the plan, NaN where either has no score.
    """
    units = _units(differences, groups)
    moving = units[np.abs(units) > 1e-12]
    if not len(moving):
        return 1.0, 0
    grown = _mixture(moving) if np.all(np.abs(moving) == 1) else _betting(units)
    best = int(np.argmax(grown))
    sums = np.cumsum(moving if len(grown) == len(moving) else units)
    return min(1.0, math.exp(-float(grown[best]))), int(np.sign(sums[best]))


def _units(differences: Floats, groups: Integers | None) -> Floats:
    """One difference per unit; a group stands where its last sample does."""
    known = ~np.isnan(differences)
    if groups is None:
        return differences[known]
    names, places = np.unique(groups[known][::-1], return_index=True)
    _, labels = np.unique(groups[known], return_inverse=True)
    means = np.bincount(labels, weights=differences[known]) / np.bincount(labels)
    # Counted from the end: the group whose last sample comes first is bet on first.
    return np.asarray(means[np.argsort(-places)] if len(names) else means, dtype=np.float64)


def _mixture(signs: Floats) -> Floats:
    """The logarithm of the stake after every win or loss: 2ⁿ·B(½ + wins, ½ + losses)/B(½, ½)."""
    n = len(signs)
    halves, even = _parts(1 << n.bit_length())
    wins = (signs > 0).cumsum()
    grown: Floats = even[:n] + halves[wins] + halves[np.arange(1, n + 1) - wins]
    return grown


@cache
def _parts(size: int) -> tuple[Floats, Floats]:
    """What of the stake does not depend on who won: log Γ(½ + k)/Γ(½) from k = 0, and n·log 2 − log n! from n = 1."""
    numbers = np.arange(1, size + 1)
    halves = np.concatenate([[0.0], np.cumsum(np.log(numbers - 0.5))])
    return halves, numbers * math.log(2) - np.cumsum(np.log(numbers))


def _betting(units: Floats) -> Floats:
    """The same for graded differences: half of the stake is bet on either side, as much as the units before suggest."""
    before = np.concatenate([[0.0], np.cumsum(units)[:-1]])
    squares = np.concatenate([[0.0], np.cumsum(units * units)[:-1]])
    bet = before / (squares + 1)
    up = np.cumsum(np.log1p(np.clip(bet, 0, _HIGHEST_BET) * units))
    down = np.cumsum(np.log1p(-np.clip(-bet, 0, _HIGHEST_BET) * units))
    return np.asarray(np.logaddexp(up, down) - math.log(2), dtype=np.float64)


def above_p(differences: Floats, bound: float, groups: Integers | None = None) -> float:
    """A p-value that holds at every look, for the claim that the mean difference is above a bound; differences in [−1, 1]."""
    units = _units(differences, groups) - bound
    before = np.concatenate([[0.0], np.cumsum(units)[:-1]])
    squares = np.concatenate([[0.0], np.cumsum(units * units)[:-1]])
    # No unit can lose more than the whole stake: the lowest it can be is −1 − bound.
    bet = np.clip(before / (squares + 1), 0, _HIGHEST_BET / (1 + bound))
    grown = np.cumsum(np.log1p(bet * units))
    return min(1.0, math.exp(-float(grown.max()))) if len(grown) else 1.0
