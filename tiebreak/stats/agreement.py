"""How far several judges of the same answers agree."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

_DRAWS = 2_000
_SEED = 20_241_107
_CHUNK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Krippendorff's alpha: 1 is full agreement, 0 is what chance gives, below 0 is worse than chance."""

    alpha: float
    low: float
    high: float
    units: int
    """Answers that two or more judged."""


def krippendorff_alpha(units: Sequence[Sequence[float]], groups: Sequence[Hashable] | None = None) -> Agreement | None:
    """Agreement on graded verdicts (interval scale; with right or wrong it is the nominal one), with a 95 % interval.

    Units with fewer than two verdicts say nothing. The interval is by the bootstrap over groups of units, or units. None
    where fewer than two units are left, or all verdicts are the same: then agreement cannot be told from habit.
    """
    kept = [place for place, values in enumerate(units) if len(values) > 1]
    if len(kept) < 2:
        return None
    rows = np.array([_moments(units[place]) for place in kept])
    _, clusters = np.unique([str(place if groups is None else groups[place]) for place in kept], return_inverse=True)
    sums = np.zeros((int(clusters.max()) + 1, rows.shape[1]))
    np.add.at(sums, clusters, rows)
    alpha = float(_alpha(sums.sum(axis=0)[None, :])[0])
    if np.isnan(alpha):
        return None
    low, high = _bootstrapped(sums)
    return Agreement(alpha=alpha, low=min(low, alpha), high=max(high, alpha), units=len(kept))


def _moments(values: Sequence[float]) -> tuple[float, float, float, float]:
    """How many verdicts a unit has, their sum, their squares, and how far they lie apart."""
    count, total, squares = len(values), sum(values), sum(value * value for value in values)
    return count, total, squares, max(0.0, 2 * (count * squares - total * total)) / (count - 1)


def _alpha(sums: Floats) -> Floats:
    """1 − observed / expected disagreement, for each row of added-up moments; not a number where all verdicts are alike."""
    count, total, squares, apart = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = 2 * (count * squares - total**2) / (count * (count - 1))
        alpha: Floats = np.where(expected > 1e-12, 1 - apart / count / expected, np.nan)
    return alpha


def _bootstrapped(sums: Floats) -> tuple[float, float]:
    rng, clusters = np.random.default_rng(_SEED), len(sums)
    found = []
    for _ in range(_DRAWS // _CHUNK):
        drawn = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=_CHUNK)
        found.append(_alpha(drawn @ sums))
    alphas = np.concatenate(found)
    alphas = alphas[~np.isnan(alphas)]
    if not len(alphas):
        return -1.0, 1.0
    low, high = np.quantile(alphas, (0.025, 0.975))
    return float(low), float(high)
