"""How many samples a difference takes, and which difference a number of samples can show."""

from __future__ import annotations

import math
from statistics import NormalDist

POWER = 0.8
"""The chance of showing a difference that is really there."""


def samples_needed(difference: float, variance: float, alpha: float) -> int | None:
    """Samples that would show this difference; `variance` is that of the paired differences. None when there is none."""
    if difference == 0 or variance <= 0:
        return None
    return math.ceil(_reach(alpha) ** 2 * variance / difference**2)


def smallest_difference(error: float, alpha: float) -> float:
    """The smallest difference that would have been shown, given the standard error of the difference."""
    return min(1.0, _reach(alpha) * error)


def _reach(alpha: float) -> float:
    return NormalDist().inv_cdf(1 - alpha / 2) + NormalDist().inv_cdf(POWER)
