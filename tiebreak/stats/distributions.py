"""Probabilities and quantiles of Student's and the beta distribution, to twelve digits and more."""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
"""Stands in for a zero denominator in Lentz's method."""
_PRECISION = 1e-15
_MOST_TERMS = 200_000
"""Terms of the continued fraction: it takes about the square root of the larger parameter."""
_MOST_STEPS = 200


@lru_cache(maxsize=1024)
def student_quantile(probability: float, degrees: float) -> float:
    """The value that a number of Student's t distribution stays below with this probability."""
    tail = min(probability, 1 - probability)
    # t²/(degrees + t²) has a beta distribution. Its logit is solved for, from which t comes without cancellation.
    logit = _beta_quantile_logit(0.5, degrees / 2, 1 - 2 * tail, 2 * tail)
    size = math.sqrt(degrees) * math.exp(logit / 2)
    return size if probability >= 0.5 else -size


def regularised_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b): the probability that a number of the beta distribution is at most x."""
    return _beta_tails(a, b, x, 1 - x)[0]


def beta_quantile(a: float, b: float, probability: float) -> float:
    """The x with I_x(a, b) = probability: the inverse of `regularised_beta`."""
    return _expit(_beta_quantile_logit(a, b, probability, 1 - probability))


def _beta_tails(a: float, b: float, x: float, y: float) -> tuple[float, float]:
    """The probabilities below and above x; y is 1 - x, given apart because it would be rounded away where x is near 1."""
    if x <= 0 or y <= 0:
        return (0.0, 1.0) if x <= 0 else (1.0, 0.0)
    scale = math.exp(_log_beta_density(a, b, x, y))
    # The fraction converges fast below the mean; above it the other tail is the one below.
    if a * y >= b * x:
        below = scale / _beta_fraction(a, b, x, y)
        return below, 1 - below
    above = scale / _beta_fraction(b, a, y, x)
    return 1 - above, above


def _log_beta_density(a: float, b: float, x: float, y: float) -> float:
    """The logarithm of x^a·y^b / B(a, b).

    Written by Stirling's formula, so that the large logarithms of large parameters cancel on paper and not in rounding.
    """
    total, off = a + b, a * y - b * x
    deviance = a * _log_ratio(a, total * x, off) + b * _log_ratio(b, total * y, -off)
    correction = _stirling_error(total) - _stirling_error(a) - _stirling_error(b)
    return 0.5 * math.log(a * b / (2 * math.pi * total)) - deviance + correction


def _log_ratio(above: float, below: float, difference: float) -> float:
    """log(above/below), given above - below."""
    return math.log1p(difference / below) if abs(difference) < below / 2 else math.log(above / below)


def _stirling_error(z: float) -> float:
    """The logarithm of gamma(z) less Stirling's formula for it."""
    if z < 16:
        return math.lgamma(z) - (z - 0.5) * math.log(z) + z - 0.5 * math.log(2 * math.pi)
    w = 1 / (z * z)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188 - w * 691 / 360360))))) / z


def _beta_fraction(a: float, b: float, x: float, y: float) -> float:
    """The continued fraction of the incomplete beta function, contracted as by DiDonato and Morris (1992), by Lentz's method.

    Unlike the usual form (DLMF 8.17.22) it loses nothing where x is near 1, because y is given apart.
    """
    fraction = c = a * (a * y - b * x + 1) / (a + 1) or _TINY
    d = 0.0
    for m in range(1, _MOST_TERMS):
        odd = a + 2 * m - 1
        above = m * (a + m - 1) / odd * ((a + b + m - 1) / odd) * (b - m) * x * x
        below = m + m * (b - m) * x / odd + (a + m) * (a * y - b * x + 1 + m * (1 + y)) / (odd + 2)
        d = 1 / (below + above * d or _TINY)
        c = below + above / c or _TINY
        fraction *= c * d
        if abs(c * d - 1) < _PRECISION:
            return fraction
    raise ArithmeticError(f"the incomplete beta function of {a}, {b} at {x} does not converge")


def _beta_quantile_logit(a: float, b: float, below: float, above: float) -> float:
    """The logit of the x that this probability lies below, and this above: the smaller of the two is exact.

    Newton's steps on the logarithm of the smaller tail, which is nearly a line in the logit; a step out of the bracket
    halves it instead.
    """
    if below <= 0 or above <= 0:
        return -math.inf if below <= 0 else math.inf
    side, sign = (0, 1) if below < above else (1, -1)
    target = math.log(min(below, above))
    low, high, logit = -1500.0, 1500.0, math.log(a / b)
    for _ in range(_MOST_STEPS):
        x, y = _expit(logit), _expit(-logit)
        tail = max(_beta_tails(a, b, x, y)[side], _TINY)
        error = sign * (math.log(tail) - target)
        low, high = (logit, high) if error < 0 else (low, logit)
        # In the logit the density is x^a·y^b / B(a, b) itself.
        slope = math.exp(_log_beta_density(a, b, x, y)) / tail if x and y else 0.0
        step = logit - error / slope if slope else math.inf
        following = step if low < step < high else (low + high) / 2
        if abs(following - logit) <= _PRECISION * max(1.0, abs(logit)):
            return following
        logit = following
    return logit


def _expit(logit: float) -> float:
    """1 / (1 + e^-logit), without overflow."""
    return 1 / (1 + math.exp(-logit)) if logit > -700 else math.exp(logit)
