"""A planted world of models × prompts × temperatures, whose true effects are known. Imports nothing of the product.

A large population of samples stands for where samples come from: each contestant has a probability of being right on each
of them. A run draws some of them and flips the coins. The truth about a factor is a mean over the population.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

POPULATION = 20_000
GROUP = 4
FACTORS = ("model", "prompt", "temperature")


@dataclass(frozen=True)
class World:
    """Who takes part, and how likely each is to be right and to be missing on each sample of the population."""

    contestants: tuple[tuple[str, str, str], ...]
    right: np.ndarray
    """Contestants × population."""
    missing: np.ndarray
    """The same shape: the chance of no score, whatever the answer would have been."""
    grouped: bool = False
    """Samples are drawn in groups of four neighbours."""

    def levels(self, factor: str) -> list[str]:
        return [contestant[FACTORS.index(factor)] for contestant in self.contestants]

    def others(self, factor: str) -> list[tuple[str, ...]]:
        place = FACTORS.index(factor)
        return [contestant[:place] + contestant[place + 1 :] for contestant in self.contestants]

    def runs(self, count: int, samples: int, seed: int) -> Iterator[np.ndarray]:
        """Tables of contestants × samples; groups, if any, are `group_numbers(samples)`."""
        rng = np.random.default_rng(seed)
        for _ in range(count):
            if self.grouped:
                first = rng.integers(0, POPULATION // GROUP, samples // GROUP) * GROUP
                drawn = (first[:, None] + np.arange(GROUP)).ravel()
            else:
                drawn = rng.integers(0, POPULATION, samples)
            shape = (len(self.contestants), samples)
            scores = (rng.random(shape) < self.right[:, drawn]).astype(float)
            if self.missing.any():
                scores[rng.random(shape) < self.missing[:, drawn]] = np.nan
            yield scores

    def true_effect(self, factor: str, first: str, second: str) -> float:
        """What is expected of the samples that are answered, each sample's difference being averaged over the cells answered.

        Without missing scores, or where they are missing by pure chance, this is the mean difference of all cells.
        """
        rows = {(level, other): i for i, (level, other) in enumerate(zip(self.levels(factor), self.others(factor), strict=True))}
        cells = [other for other in dict.fromkeys(self.others(factor)) if (first, other) in rows and (second, other) in rows]
        a, b = ([rows[level, cell] for cell in cells] for level in (first, second))
        differences = self.right[a] - self.right[b]
        answered = (1 - self.missing[a]) * (1 - self.missing[b])
        return _mean_over_answered(differences, answered)

    def full_effect(self, factor: str, first: str, second: str) -> float:
        """The mean difference over all cells and all samples, as if nothing were missing."""
        return World(self.contestants, self.right, np.zeros_like(self.missing)).true_effect(factor, first, second)

    def true_mean(self, factor: str, level: str) -> float:
        """Over all the level's contestants and all samples, as if nothing were missing."""
        return float(self.right[[own == level for own in self.levels(factor)]].mean())


def _mean_over_answered(differences: np.ndarray, answered: np.ndarray) -> float:
    """Over every way in which cells may be answered: the chance of it, times the mean over the cells answered."""
    certain = np.all(answered == 1, axis=1)
    doubtful = np.flatnonzero(~certain)
    total = weight = np.zeros(differences.shape[1])
    for pattern in product((False, True), repeat=len(doubtful)):
        cells = certain.copy()
        cells[doubtful] = pattern
        if cells.any():
            kept = np.array(pattern, dtype=bool)[:, None]
            chance = np.prod(np.where(kept, answered[doubtful], 1 - answered[doubtful]), axis=0)
            total, weight = total + chance * differences[cells].mean(axis=0), weight + chance
    return float(total.sum() / weight.sum())


def group_numbers(samples: int) -> np.ndarray:
    return np.arange(samples) // GROUP


def planted(
    *,
    models: Sequence[float] = (1.0, 0.7, 0.2),
    prompts: Sequence[float] = (0.3, 0.15, 0.0),
    temperatures: Sequence[float] = (0.1, 0.0),
    taste: float = 0.5,
    grouped: bool = False,
    missing: str = "none",
    seed: int = 20,
) -> World:
    """Effects add up on the logit scale, with the sample's difficulty and each model's taste for each sample.

    In a grouped world half of the difficulty belongs to the group, and every level of every factor has its own luck with
    every group, so that the samples of a group stand or fall together in the differences too.
    """
    rng = np.random.default_rng(seed)
    contestants = tuple(
        product(*([f"{name[0]}{i}" for i in range(count)] for name, count in _counts(models, prompts, temperatures)))
    )
    ease = rng.normal(0.2, 1.5, POPULATION)
    own = {(0, f"m{i}"): skill + taste * rng.normal(size=POPULATION) for i, skill in enumerate(models)}
    own |= {(1, f"p{i}"): np.full(POPULATION, shift) for i, shift in enumerate(prompts)}
    own |= {(2, f"t{i}"): np.full(POPULATION, shift) for i, shift in enumerate(temperatures)}
    if grouped:
        ease = ease / np.sqrt(2) + _by_group(rng, 1.5 / np.sqrt(2))
        own = {level: effect + _by_group(rng, 0.6) for level, effect in own.items()}
    logits = np.array([ease + sum(own[place, level] for place, level in enumerate(c)) for c in contestants])
    return World(contestants, _logistic(logits), _missing(missing, contestants, ease), grouped)


def _counts(*levels: Sequence[float]) -> list[tuple[str, int]]:
    return [(name, len(values)) for name, values in zip(FACTORS, levels, strict=True)]


def _by_group(rng: np.random.Generator, deviation: float) -> np.ndarray:
    return np.repeat(rng.normal(0, deviation, POPULATION // GROUP), GROUP)


def _missing(how: str, contestants: Sequence[tuple[str, str, str]], ease: np.ndarray) -> np.ndarray:
    chances = np.zeros((len(contestants), POPULATION))
    if how == "at random":
        chances[:] = 0.1
    elif how == "hard samples of one model":
        chances[[model == "m0" for model, _, _ in contestants]] = _logistic(-1.0 - 1.5 * ease)
    return chances


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
