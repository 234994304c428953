"""Where the uncertainty of a difference comes from: from which samples were asked, or from answers that change when repeated."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tiebreak.stats.paired import Floats

_FEWEST = 10
"""Samples that both answered at least twice; of fewer nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """One contestant's scores on each sample: how many, their sum and the sum of their squares."""

    counts: Floats
    sums: Floats
    squares: Floats

    @property
    def means(self) -> Floats:
        """Mean scores; not a number where there is none."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.sums / self.counts)

    @property
    def noise(self) -> Floats:
        """The variance of each mean by repeats alone; not a number where a sample was answered once."""
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = (self.squares - self.sums**2 / self.counts) / (self.counts - 1)
            return np.where(self.counts > 1, np.maximum(spread, 0.0) / self.counts, np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What the uncertainty of the mean difference is made of."""

    samples: int
    repeats_share: float
    """Of its variance, what repeating would take away; the rest is which samples were asked."""

    @property
    def by_repeats(self) -> float:
        """By how much twice the repeats would narrow the interval."""
        return 1 - math.sqrt(1 - self.repeats_share / 2)

    @property
    def by_samples(self) -> float:
        """By how much twice the samples would."""
        return 1 - math.sqrt(0.5)


def split_noise(first: Repeated, second: Repeated) -> Noise | None:
    """The parts of the variance of the mean difference; None where too few samples were repeated, or none differs."""
    differences, noise = first.means - second.means, first.noise + second.noise
    both = ~np.isnan(differences) & ~np.isnan(noise)
    if both.sum() < _FEWEST:
        return None
    total = float(np.var(differences[both], ddof=1))
    if total <= 0:
        return None
    return Noise(samples=int(both.sum()), repeats_share=min(1.0, float(noise[both].mean()) / total))
