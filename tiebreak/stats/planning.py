"""How many samples a difference takes, and which difference a number of samples can show."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

POWER = 0.8
"""The chance of showing a difference that is really there."""
LEAST, MOST = 0.5, 0.9
"""The chances of showing the difference found, at the two ends of a forecast."""
_FEW_DIFFERING = 60
"""With fewer differing samples than this the exact test is too coarse to be taken for a normal one."""
_LARGEST, _MOST_DIFFERING = 100, 150
"""Where so few differ, a difference of so many samples is always shown, and then never more than so many differ."""
_STEPS = 20


def samples_needed(difference: float, variance: float, alpha: float, *, right_or_wrong: bool = False) -> tuple[int, int] | None:
    """Between how many samples this difference would be shown, if it is the true one: with even odds, and 9 times out of 10.

    `variance` is that of the paired differences of single samples. None where there is no difference.
    """
    if difference <= 0 or variance <= 0:
        return None
    few, many = (_samples_for(power, difference, variance, alpha, right_or_wrong=right_or_wrong) for power in (LEAST, MOST))
    return few, many


def _samples_for(power: float, difference: float, variance: float, alpha: float, *, right_or_wrong: bool) -> int:
    """Solves difference·n − step = reach·√n: what is expected, less a step of the exact test, is as far as chance reaches."""
    step = 1.0 if right_or_wrong else 0.0
    reach = _quantile(1 - alpha / 2) * math.sqrt(variance + difference**2) + _quantile(power) * math.sqrt(variance)
    root = (reach + math.sqrt(reach**2 + 4 * difference * step)) / (2 * difference)
    return math.ceil(root**2)


def smallest_difference(error: float, alpha: float) -> float:
    """The smallest difference that would have been shown four times out of five, given the standard error."""
    return min(1.0, (_quantile(1 - alpha / 2) + _quantile(POWER)) * error)


def smallest_difference_right_or_wrong(samples: int, differing: int, alpha: float) -> float:
    """The same for right-or-wrong scores and the exact test, where so many samples differ.

    A larger difference than all those together would make more samples differ.
    """
    few = differing < _FEW_DIFFERING
    power = _exact_power(samples, alpha) if few else _normal_power(samples, alpha)
    low, high = 0.0, min(1.0, _LARGEST / samples) if few else 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        enough = power(max(differing / samples, middle), middle) >= POWER
        low, high = (low, middle) if enough else (middle, high)
    return high


Power = Callable[[float, float], float]
"""The chance of showing a difference, by the share of samples that differ and the difference."""


def _normal_power(samples: int, alpha: float) -> Power:
    reach = _quantile(1 - alpha / 2)

    def power(differing: float, difference: float) -> float:
        expected = difference * samples - 1 - reach * math.sqrt(differing * samples)
        spread = math.sqrt(samples * max(differing - difference**2, 1e-12))
        return NormalDist().cdf(expected / spread)

    return power


def _exact_power(samples: int, alpha: float) -> Power:
    """Every way in which samples may differ and split so that the exact test shows it, each with its chance."""
    import numpy as np

    most = min(samples, _MOST_DIFFERING)
    splits = [(n, losses) for n in range(1, most + 1) for losses in range(_most_losses(n, alpha) + 1)]
    if not splits:
        return lambda differing, difference: 0.0
    differ, lost = np.array(splits).T
    logs = np.array([math.lgamma(n + 1) for n in range(samples + 1)])
    won, same = differ - lost, samples - differ
    ways = logs[samples] - logs[won] - logs[lost] - logs[same]

    def power(differing: float, difference: float) -> float:
        shares = [max(share, 1e-300) for share in ((differing + difference) / 2, (differing - difference) / 2, 1 - differing)]
        chances = ways + won * math.log(shares[0]) + lost * math.log(shares[1]) + same * math.log(shares[2])
        return float(np.exp(chances).sum())

    return power


@lru_cache(maxsize=4096)
def _most_losses(n: int, alpha: float) -> int:
    """The most losses with which n differing samples show a difference; −1 where even none do not."""
    tail, losses = 0.0, -1
    while True:
        tail += math.comb(n, losses + 1) / 2**n
        if 2 * tail >= alpha:
            return losses
        losses += 1


def _quantile(probability: float) -> float:
    return NormalDist().inv_cdf(probability)
