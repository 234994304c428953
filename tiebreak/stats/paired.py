"""Models on the same samples: is a difference more than luck?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tiebreak.stats.distributions import student_quantile
from tiebreak.stats.intervals import Z_95, wilson

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

DRAWS = 9_999
"""Random reassignments where they cannot all be counted: an uncertainty of 0.002 at p = 0.05."""
_SEED = 20_240_613
_FINEST = 120
"""Scores that are multiples of 1/120 or coarser (right or wrong, repeats, thirds, …) are counted exactly."""
_MOST_COUNTED = 5_000
"""With more differing units than this the sum is normal for all that matters."""
_FEW = 14
"""So few differing units that every sign pattern is tried."""
_CHUNK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Two models on the samples both answered."""

    first: int
    second: int
    samples: int
    difference: float
    """Mean of the first minus mean of the second."""
    low: float
    high: float
    first_better: int
    second_better: int
    p: float
    method: str
    """mcnemar: exact, right or wrong; exact: every reassignment counted; drawn: random reassignments; normal: its limit."""
    error: float
    """Standard error of the difference; never 0."""


def compare_all(scores: Floats, groups: Sequence[int] | Integers | None = None) -> list[Paired]:
    """Every pair of rows of a table of models × samples; NaN where a model has no score.

    Groups are numbers from 0, one per sample; samples of one group are reassigned together.
    """
    return compare_pairs(scores, combinations(range(len(scores)), 2), groups)


def compare_pairs(
    scores: Floats, pairs: Iterable[tuple[int, int]], groups: Sequence[int] | Integers | None = None
) -> list[Paired]:
    """The same for these pairs of rows only."""
    labels = None if groups is None else np.asarray(groups, dtype=np.int64)
    compared = [_Pair(scores, i, j, labels) for i, j in pairs]
    _draw([pair for pair in compared if pair.method == "drawn"])
    return [pair.result() for pair in compared]


def exact_sign_test(wins: int, losses: int) -> float:
    """Two-sided probability of a split at least this uneven when either side is equally likely.

    On right-or-wrong samples, with the samples where exactly one model is right, this is McNemar's exact test.
    """
    n, fewer = wins + losses, min(wins, losses)
    if n == 0:
        return 1.0
    tail, share, k = 1.0, 1.0, fewer
    # From the largest term down; what is too small to change the sum is not added.
    while k > 0 and share > 1e-17:
        share *= k / (n - k + 1)
        tail += share
        k -= 1
    largest = math.exp(math.lgamma(n + 1) - math.lgamma(fewer + 1) - math.lgamma(n - fewer + 1) - n * math.log(2))
    return min(1.0, 2 * tail * largest)


class _Pair:
    """One pair on its way to a result."""

    def __init__(self, scores: Floats, i: int, j: int, groups: Integers | None) -> None:
        self.first, self.second = i, j
        differences = scores[i] - scores[j]
        common = ~np.isnan(differences)
        self.d: Floats = differences[common]
        self.sums, self.sizes = _by_group(self.d, common, groups)
        """What is reassigned as one: each sample's difference, or each group's sum of them; and how many samples it holds."""
        self.units = len(self.sums)
        a = scores[i][common]
        b = scores[j][common]
        self.binary = self.units == len(self.d) and bool(np.all((a == 0) | (a == 1)) and np.all((b == 0) | (b == 1)))
        self.wins = int(np.count_nonzero(self.d > 1e-12))
        self.losses = int(np.count_nonzero(self.d < -1e-12))
        self.p, self.method = self._test()

    def _test(self) -> tuple[float, str]:
        if self.binary:
            return exact_sign_test(self.wins, self.losses), "mcnemar"
        moving = self.sums[np.abs(self.sums) > 1e-12]
        if len(moving) > _MOST_COUNTED:
            return math.erfc(abs(moving.sum()) / math.sqrt(2 * float(moving @ moving))), "normal"
        steps = _whole_steps(np.abs(moving))
        if steps is not None:
            return _counted(steps, np.sign(moving)), "exact"
        if len(moving) <= _FEW:
            return _enumerated(moving), "exact"
        return 1.0, "drawn"

    def result(self) -> Paired:
        n = len(self.d)
        mean = float(self.d.mean()) if n else 0.0
        low, high, error = self._interval(mean) if n else (-1.0, 1.0, 1.0)
        return Paired(
            first=self.first,
            second=self.second,
            samples=n,
            difference=mean,
            low=max(-1.0, low),
            high=min(1.0, high),
            first_better=self.wins,
            second_better=self.losses,
            p=self.p,
            method=self.method,
            error=error,
        )

    def _interval(self, mean: float) -> tuple[float, float, float]:
        if self.binary:
            return adjusted_interval(self.wins, self.losses, len(self.d))
        residuals = self.sums - mean * self.sizes
        units = self.units
        spread = float(residuals @ residuals) * units / (units - 1) if units > 1 else 0.0
        if spread < 1e-18:
            # Nothing varies: no more is known than from so many equal right-or-wrong samples.
            half = wilson(0.0, units)[1]
            return mean - half, mean + half, half / Z_95
        error = math.sqrt(spread + 2 * _rare_square(self.sums)) / len(self.d)
        half = student_quantile(0.975, units - 1) * error
        return mean - half, mean + half, error


def _by_group(d: Floats, common: npt.NDArray[np.bool_], groups: Integers | None) -> tuple[Floats, Floats]:
    """Sums of differences by unit, and how many samples are in each."""
    if groups is None:
        return d, np.ones(len(d))
    _, labels = np.unique(groups[common], return_inverse=True)
    return np.bincount(labels, weights=d).astype(np.float64), np.bincount(labels).astype(np.float64)


def adjusted_interval(wins: int, losses: int, n: int) -> tuple[float, float, float]:
    """Bonett and Price's interval for a difference of paired shares, with its standard error.

    One win and one loss are added, so that it has a width even where the models never differ.
    """
    up, down = (wins + 1) / (n + 2), (losses + 1) / (n + 2)
    centre = up - down
    error = math.sqrt((up + down - centre * centre) / (n + 2))
    return centre - Z_95 * error, centre + Z_95 * error, error


def _rare_square(sums: Floats) -> float:
    """The square of the win and the loss that are added where most units do not differ; 0 where all of them do.

    Student's interval is too short where a mean rests on a few units that differ: with 3 to 20 of them it may hold the
    truth in as few as 85 % of runs. As for right-or-wrong scores, one win and one loss are added. They are of the size of the
    differences found (each weighted by its square), and count by the share of units that do not differ.
    """
    squares = sums * sums
    still = float(np.mean(squares < 1e-24))
    return still * float(squares @ squares) / float(squares.sum()) if still else 0.0


def _whole_steps(sizes: Floats) -> Integers | None:
    """The sizes as whole multiples of some 1/m, or None when they are not."""
    kinds = np.unique(np.round(sizes, 9))
    multiples = np.outer(np.arange(1, _FINEST + 1), kinds)
    whole = np.all(np.abs(multiples - np.round(multiples)) < 1e-6, axis=1)
    return np.round(sizes * (1 + int(np.argmax(whole)))).astype(np.int64) if whole.any() else None


def _counted(steps: Integers, signs: Floats) -> float:
    """Two-sided probability of a sum this far from 0 when every sign is as likely as the other.

    The sum of ±s₁, ±s₂, … has the characteristic function cos(s₁t)·cos(s₂t)·…; its transform is the distribution.
    """
    observed, total = abs(int(steps @ signs.astype(np.int64))), int(steps.sum())
    if observed == 0:
        return 1.0
    points = 1 << (2 * total + 1).bit_length()
    # Looked up, a cosine takes a third of the time; as points is a power of 2, the remainder is a matter of bits.
    cosines, places = np.cos(2 * np.pi * np.arange(points) / points), np.arange(points // 2 + 1)
    wave = np.ones(points // 2 + 1)
    for size, times in zip(*np.unique(steps, return_counts=True), strict=True):
        wave *= _power(cosines[size * places & (points - 1)], int(times))
    chances = np.fft.irfft(wave, points)
    # Of all 2^n sign patterns at least this one and its mirror are as extreme.
    return float(min(1.0, max(2 * chances[observed : total + 1].sum(), math.ldexp(1.0, 1 - min(len(steps), 1000)))))


def _power(base: Floats, times: int) -> Floats:
    """The same as `base**times`, which takes ten times as long."""
    result = np.ones_like(base)
    while times:
        if times & 1:
            result *= base
        base = base * base
        times >>= 1
    return result


def _enumerated(sums: Floats) -> float:
    """The same where sizes have no common step: every pattern of signs is tried."""
    patterns = np.arange(1 << len(sums))[:, None] >> np.arange(len(sums)) & 1
    reached = np.abs((2 * patterns - 1) @ sums) >= abs(sums.sum()) * (1 - 1e-12) - 1e-12
    return float(reached.mean())


def _draw(pairs: list[_Pair]) -> None:
    """Random reassignments, the same for all pairs of one length, always the same ones."""
    for units in {pair.units for pair in pairs}:
        alike = [pair for pair in pairs if pair.units == units]
        # Single precision is plenty to count by, and twice as fast; equal sums must still count as equal.
        table = np.column_stack([pair.sums for pair in alike]).astype(np.float32)
        total = table.sum(axis=0)
        observed = np.abs(total) * (1 - 1e-5)
        reached = np.zeros(len(alike), dtype=np.int64)
        generator = np.random.default_rng(_SEED)
        for start in range(0, DRAWS, _CHUNK):
            rows = min(_CHUNK, DRAWS - start)
            bits = np.unpackbits(np.frombuffer(generator.bytes(rows * units // 8 + 1), dtype=np.uint8))[: rows * units]
            # What is kept minus what is turned is twice what is kept minus the total.
            kept = bits.reshape(rows, units).astype(np.float32) @ table
            reached += (np.abs(2 * kept - total) >= observed).sum(axis=0)
        for pair, times in zip(alike, reached, strict=True):
            pair.p = (1 + int(times)) / (DRAWS + 1)
