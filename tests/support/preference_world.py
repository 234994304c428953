"""Made-up judges of pairs with planted position bias, length bias and errors. Nothing of the product is used here."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Said:
    """One verdict: which answers were shown in which order, and the points of the first."""

    first: int
    second: int
    points: float
    longer: float
    sample: int


@dataclass(frozen=True)
class PreferenceWorld:
    """Contestants of known strength and length, and one judge who is asked about pairs in both orders.

    On every sample the log-odds of a preference are the difference of strengths, plus what position and length add. Both
    orders share a part of their luck, as a judge does who reads the same two answers twice.
    """

    strengths: tuple[float, ...]
    lengths: tuple[float, ...] = ()
    """By contestant, the mean of the binary logarithm of its answers' length."""
    samples: int = 200
    position: float = 0.0
    length: float = 0.0
    errors: float = 0.0
    """The share of verdicts that the judge draws by lot."""
    ties: float = 0.0
    """The share of verdicts that are a tie whatever the answers."""
    shared: float = 0.7
    """The share of samples on which both orders have the same luck."""
    ring: bool = False
    """Compare only neighbours of a random circle on each sample."""

    def better(self, a: int, b: int) -> bool:
        """Whether one is truly preferred to the other."""
        return self.strengths[a] > self.strengths[b]

    def draw(self, rng: np.random.Generator) -> list[Said]:
        """All verdicts of one run."""
        count = len(self.strengths)
        means = np.array(self.lengths or (0.0,) * count)
        found = []
        for sample in range(self.samples):
            lengths = means + rng.normal(0.0, 0.6, count) + rng.normal(0.0, 1.0)
            for a, b in self._pairs(rng, count):
                found += self._both_orders(rng, sample, a, b, float(lengths[a] - lengths[b]))
        return found

    def _pairs(self, rng: np.random.Generator, count: int) -> list[tuple[int, int]]:
        if not self.ring:
            return list(combinations(range(count), 2))
        circle = rng.permutation(count).tolist()
        return list(zip(circle, [*circle[1:], circle[0]], strict=True))

    def _both_orders(self, rng: np.random.Generator, sample: int, a: int, b: int, longer: float) -> list[Said]:
        luck = rng.random()
        other = 1 - luck if rng.random() < self.shared else rng.random()
        return [self._said(rng, sample, a, b, longer, luck), self._said(rng, sample, b, a, -longer, other)]

    def _said(self, rng: np.random.Generator, sample: int, first: int, second: int, longer: float, luck: float) -> Said:
        points = 0.5 if rng.random() < self.ties else float(luck < self.chance(first, second, longer))
        return Said(first, second, points, longer, sample)

    def chance(self, first: int, second: int, longer: float) -> float:
        """The chance that the first is preferred."""
        odds = self.position + self.length * longer + self.strengths[first] - self.strengths[second]
        return self.errors / 2 + (1 - self.errors) / (1 + float(np.exp(-odds)))

    def fitted_effects(self, seed: int = 0, samples: int = 20_000) -> tuple[float, float]:
        """The position and length effects, as log-odds, of the logistic curve nearest to this judge.

        With no errors and no ties these are the planted ones. Errors and ties flatten the curve; what a fit of a logistic
        curve then estimates is found here on many samples, from the true chances and without luck.
        """
        if not self.errors and not self.ties:
            return self.position, self.length
        rng = np.random.default_rng(seed)
        rows, chances = [], []
        drawn = PreferenceWorld(**{**self.__dict__, "samples": samples}).draw(rng)
        for said in drawn:
            row = np.zeros(2 + len(self.strengths))
            row[[0, 1, 2 + said.first, 2 + said.second]] = 1.0, said.longer, 1.0, -1.0
            rows.append(row)
            chances.append(self.ties / 2 + (1 - self.ties) * self.chance(said.first, said.second, said.longer))
        effects = nearest_logistic(np.array(rows), np.array(chances))
        return float(effects[0]), float(effects[1])


def nearest_logistic(columns: Floats, chances: Floats) -> Floats:
    """The coefficients of the logistic curve that is nearest to given chances."""
    effects = np.zeros(columns.shape[1])
    for _ in range(30):
        fitted = 1 / (1 + np.exp(-columns @ effects))
        slope = columns.T @ (chances - fitted)
        bend = (columns * (fitted * (1 - fitted))[:, None]).T @ columns
        effects = effects + np.linalg.pinv(bend) @ slope
    return effects
