"""How sure a score is."""

from __future__ import annotations

import heapq
import math
from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from tiebreak.stats.distributions import student_quantile

Z_95 = 1.959963984540054
_SORTED_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float
    n: int
    """Samples behind it; repeats of a sample count once."""
    clusters: int
    """Groups of samples that stand or fall together; as many as samples where there are none."""
    method: str
    """wilson; or, where scores are graded, repeated or grouped: wilson with an effective number of samples."""


def estimate_mean(values: Sequence[float], groups: Sequence[Hashable] | None = None) -> Estimate:
    """The mean of scores from 0 to 1 with an interval that stays honest at both ends.

    Right-or-wrong scores get Wilson's interval. Others get it with the number of samples that would carry as much
    information: the variance of a right-or-wrong mean divided by the variance found. Where every score is the same
    nothing was found, and each group counts as one right-or-wrong sample, which is the most cautious reading.
    """
    n = len(values)
    if n == 0:
        return Estimate(mean=0.0, low=0.0, high=1.0, n=0, clusters=0, method="wilson")
    # Rounding must not push the mean of graded scores past the ends.
    mean = min(1.0, max(0.0, math.fsum(values) / n))
    clusters = n if groups is None else len(set(groups))
    if clusters == n and all(value in (0.0, 1.0) for value in values):
        low, high = wilson(mean, n)
        return Estimate(mean=mean, low=low, high=high, n=n, clusters=n, method="wilson")
    low, high = wilson(mean, effective_samples(values, groups, mean, clusters), student_quantile(0.975, max(1, clusters - 1)))
    return Estimate(mean=mean, low=low, high=high, n=n, clusters=clusters, method="wilson, effective n")


def effective_samples(values: Sequence[float], groups: Sequence[Hashable] | None, mean: float, clusters: int) -> float:
    """How many right-or-wrong samples say as much as these scores do."""
    if clusters < 2:
        return clusters
    # Few groups may look less alike than chance by chance: grouping never makes a score surer.
    error = max(standard_error(values), standard_error(values, groups) if groups is not None else 0.0)
    # Below a billionth it is rounding that varies, not the scores.
    return mean * (1 - mean) / error**2 if error > 1e-9 and 1e-9 < mean < 1 - 1e-9 else clusters


def standard_error(values: Sequence[float], groups: Sequence[Hashable] | None = None) -> float:
    """The standard error of a mean; samples of one group are taken together, with the C/(C−1) correction."""
    n = len(values)
    mean = math.fsum(values) / n
    deviations: Iterable[float] = (value - mean for value in values)
    clusters = n
    if groups is not None:
        sums: dict[Hashable, float] = defaultdict(float)
        for group, deviation in zip(groups, deviations, strict=True):
            sums[group] += deviation
        deviations, clusters = sums.values(), len(sums)
    if clusters < 2:
        return math.nan
    return math.sqrt(math.fsum(d * d for d in deviations) * clusters / (clusters - 1)) / n


def wilson(mean: float, n: float, z: float = Z_95) -> tuple[float, float]:
    """Wilson's interval for a share of n: honest at 0 % and 100 %, where the normal one has no width."""
    if n == 0:
        return 0.0, 1.0
    scale = 1 + z * z / n
    centre = (mean + z * z / (2 * n)) / scale
    half = z * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n)) / scale
    # At the ends rounding leaves a hair; the bound there is exact.
    low = 0.0 if mean <= 0 else min(mean, max(0.0, centre - half))
    high = 1.0 if mean >= 1 else max(mean, min(1.0, centre + half))
    return low, high


def percentiles(values: Sequence[float], percents: Sequence[float]) -> list[float]:
    """For each, the smallest of the values that at least so many percent of them do not exceed."""
    return at_ranks(values, [max(math.ceil(percent / 100 * len(values)), 1) - 1 for percent in percents])


def at_ranks(values: Sequence[float], ranks: Sequence[int]) -> list[float]:
    """The values that would stand at these places, counted from 0, if all were sorted."""
    if len(values) <= _SORTED_AT_ONCE:
        ordered = sorted(values)
        return [ordered[rank] for rank in ranks]
    # A list of millions of numbers takes four times the room of an array: only parts of it are made, and then merged.
    starts = range(0, len(values), _SORTED_AT_ONCE)
    merged = heapq.merge(*[array("d", sorted(values[start : start + _SORTED_AT_ONCE])) for start in starts])
    wanted = dict.fromkeys(ranks, 0.0)
    for rank, value in enumerate(islice(merged, max(ranks) + 1)):
        if rank in wanted:
            wanted[rank] = value
    return [wanted[rank] for rank in ranks]
