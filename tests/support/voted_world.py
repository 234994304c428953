"""Made-up judges with planted errors, and people who vote on some answers. Nothing of the product is used here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import numpy as np


@dataclass(frozen=True)
class VotedWorld:
    """Answers of which a share is right, a judge that errs, and how many of them are judged and voted on."""

    mean: float
    missed: float
    """The share of right answers that the judge fails."""
    passed: float
    """The share of wrong answers that the judge passes."""
    samples: int
    votes: int

    def draw(self, rng: np.random.Generator) -> tuple[list[float], dict[int, float]]:
        """The judge's verdicts on all samples, and people's votes on some, drawn at random."""
        right = rng.random(self.samples) < self.mean
        errs = rng.random(self.samples) < np.where(right, self.missed, self.passed)
        voted = rng.choice(self.samples, self.votes, replace=False)
        return (right ^ errs).astype(float).tolist(), {int(place): float(right[place]) for place in voted}

    def draws(self, runs: int, seed: int) -> Iterator[tuple[list[float], dict[int, float]]]:
        """So many runs of this world."""
        rng = np.random.default_rng([seed, self.samples, self.votes, round(1e4 * self.mean), round(1e4 * self.missed)])
        return (self.draw(rng) for _ in range(runs))


@dataclass(frozen=True)
class GradedWorld(VotedWorld):
    """The same with grades of five steps from people; the judge passes what it takes for better than half."""

    def draw(self, rng: np.random.Generator) -> tuple[list[float], dict[int, float]]:
        """Grades are binomial of four, so that their mean is the planted one."""
        grades = rng.binomial(4, self.mean, self.samples) / 4
        errs = rng.random(self.samples) < np.where(grades >= 0.5, self.missed, self.passed)
        verdicts = np.where(errs, rng.binomial(4, 0.5, self.samples) / 4, grades)
        voted = rng.choice(self.samples, self.votes, replace=False)
        return verdicts.tolist(), {int(place): float(grades[place]) for place in voted}


def too_few(covered: int, runs: int, wanted: float = 0.95) -> float:
    """The exact chance of so few or fewer covered runs, if each were covered with the wanted chance."""
    if runs - covered < runs / 2:
        missed = runs - covered
        return 1.0 - sum(comb(runs, k) * (1 - wanted) ** k * wanted ** (runs - k) for k in range(missed))
    return 0.0
