"""Times and costs of contestants on the same samples: how many times as much, and is it more than luck?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tiebreak.stats.distributions import regularised_beta, student_quantile
from tiebreak.stats.paired import Floats, Integers

_FREE = 1e-12
"""Stands in for a cost of 0, which has no logarithm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How many times as much the first takes as the second, sample by sample; the geometric mean over common samples."""

    first: int
    second: int
    samples: int
    ratio: float
    low: float
    high: float
    """95 % interval of the ratio, of this pair alone."""
    p: float


def compare_ratios(values: Floats, groups: Sequence[int] | Integers | None = None) -> list[Ratio]:
    """Every pair of rows of a table of contestants × samples, NaN where one has no value.

    Student's t test on the logarithms of the ratios; samples of one group are taken together.
    """
    labels = None if groups is None else np.asarray(groups, dtype=np.int64)
    logs = np.log(np.maximum(values, _FREE))
    return [_ratio(logs, i, j, labels) for i, j in combinations(range(len(values)), 2)]


def _ratio(logs: Floats, first: int, second: int, groups: Integers | None) -> Ratio:
    differences = logs[first] - logs[second]
    common = ~np.isnan(differences)
    d = differences[common]
    mean, error, units = _clustered(d, None if groups is None else groups[common])
    half = student_quantile(0.975, units - 1) * error if units > 1 else math.inf
    return Ratio(
        first=first,
        second=second,
        samples=len(d),
        ratio=math.exp(mean),
        low=math.exp(mean - half) if half < math.inf else 0.0,
        high=math.exp(mean + half) if half < math.inf else math.inf,
        p=_probability(mean, error, units),
    )


def _clustered(d: Floats, groups: Integers | None) -> tuple[float, float, int]:
    """The mean, its standard error, and from how many independent units it comes."""
    if not len(d):
        return 0.0, 0.0, 0
    mean = float(d.mean())
    residuals = d - mean
    if groups is not None:
        residuals = np.bincount(np.unique(groups, return_inverse=True)[1], weights=residuals).astype(np.float64)
    units = len(residuals)
    spread = float(residuals @ residuals) * units / (units - 1) if units > 1 else 0.0
    return mean, math.sqrt(spread) / len(d), units


def _probability(mean: float, error: float, units: int) -> float:
    """Two-sided; where every unit says the same, that all of them fall to one side."""
    if units < 2 or abs(mean) < 1e-9:
        return 1.0
    if error < 1e-9:
        return math.ldexp(1.0, 1 - min(units, 1000))
    t = mean / error
    return regularised_beta((units - 1) / 2, 0.5, (units - 1) / (units - 1 + t * t))
