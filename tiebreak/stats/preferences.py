"""Who is preferred to whom: a Bradley–Terry fit of verdicts on two answers at a time, with position and length effects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tiebreak.stats.decision import leader_of, tiers_of
from tiebreak.stats.distributions import regularised_beta, student_quantile
from tiebreak.stats.family import SURE, holm
from tiebreak.stats.paired import compare_pairs

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

_EFFECT_PENALTY, _STRENGTH_PENALTY = 0.01, 0.25
"""A weak pull towards 0 (priors with standard deviations of 10 and 2): the strength of who always wins stays finite."""
_MOST_STEPS = 100
_PRECISION = 1e-10
_LEAST_INFORMATION = 1e-6
"""Below this a difference cannot be told from the other effects."""
_SINGULAR = 1e-10
_EFFECTS = 2
"""Columns before those of the contestants: position and length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What somebody said of two answers to one sample, in the order they were shown."""

    first: int
    second: int
    points: float
    """Of the first: 1 where it is better, 0 where the second is, one half for a tie."""
    longer: float
    """The binary logarithm of the first answer's length over the second's."""
    cluster: int
    """Verdicts of one cluster (the answers to one sample) stand or fall together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of preferences with its 95 % interval."""

    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredPair:
    """Two contestants, compared at equal length and with both answers in either place."""

    first: int
    second: int
    preferred: Share
    """How often the first would be preferred to the second."""
    p: float
    corrected: float
    """The same after Holm's correction over all pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What verdicts on pairs of answers say of all contestants; each is called by its row."""

    strengths: tuple[Share | None, ...]
    """How often each would be preferred to an average contestant; None for one in no pair."""
    pairs: tuple[PreferredPair, ...]
    better: frozenset[tuple[int, int]]
    """(a, b) where a is shown to be preferred to b."""
    tiers: tuple[tuple[int, ...], ...]
    position: Share
    """How often the answer shown first would be preferred to its equal."""
    length: Share | None
    """How often an answer would be preferred to its equal of half the length; None where lengths do not differ."""
    clusters: int

    @property
    def leader(self) -> int | None:
        """Who is shown to be preferred to everyone else."""
        return leader_of(self.tiers, self.better)


def fit_preferences(verdicts: Sequence[Verdict], contestants: int) -> Preferences:
    """Fit all verdicts at once; every pair is tested with the effects of position and length taken out.

    The log-odds that the first answer is preferred are position + length × longer + strength of the first − strength of the
    second. Intervals go by the variance between clusters. The test of a pair changes the signs of the clusters'
    contributions to the score of its difference, where the two are taken as equal.
    """
    data = _Data.of(verdicts, contestants)
    fitted = _fit(data.columns, data.points)
    covariance = _covariance(data, fitted)
    # Where both orders of a pair are asked, the model's variance of the position effect is far too large.
    for_position = covariance[:1] if data.in_both_orders else covariance
    compared = [row for row in range(contestants) if data.columns[:, _EFFECTS + row].any()]
    # One cluster alone says nothing of how much clusters differ.
    wide = student_quantile(0.975, data.clusters - 1) if data.clusters > 1 else math.inf
    tested = [(a, b, _test(data, a, b)) for a, b in combinations(compared, 2)]
    corrected = holm([p for _, _, (p, _) in tested])
    pairs = [
        PreferredPair(first=a, second=b, preferred=_share(fitted, covariance, data.contrast(a, b), wide), p=p, corrected=adjusted)
        for (a, b, (p, _)), adjusted in zip(tested, corrected, strict=True)
    ]
    better = frozenset(
        (a, b) if sign > 0 else (b, a)
        for (a, b, (_, sign)), adjusted in zip(tested, corrected, strict=True)
        if adjusted < SURE and sign
    )
    return Preferences(
        strengths=tuple(
            _share(fitted, covariance, data.against_average(row, compared), wide) if row in compared else None
            for row in range(contestants)
        ),
        pairs=tuple(pairs),
        better=better,
        tiers=tiers_of(compared, fitted[_EFFECTS:].tolist(), better),
        position=_share(fitted, for_position, data.unit(0), wide),
        length=_share(fitted, covariance, data.unit(1), wide) if data.columns[:, 1].any() else None,
        clusters=data.clusters,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    """The verdicts as a table: a row each, with a column for the position, the length and every contestant."""

    columns: Floats
    points: Floats
    labels: Integers
    clusters: int

    @classmethod
    def of(cls, verdicts: Sequence[Verdict], contestants: int) -> _Data:
        columns = np.zeros((len(verdicts), _EFFECTS + contestants))
        rows = np.arange(len(verdicts))
        columns[:, 0] = 1.0
        columns[:, 1] = [verdict.longer for verdict in verdicts]
        columns[rows, _EFFECTS + np.array([verdict.first for verdict in verdicts], dtype=np.int64)] = 1.0
        columns[rows, _EFFECTS + np.array([verdict.second for verdict in verdicts], dtype=np.int64)] = -1.0
        names, labels = np.unique([verdict.cluster for verdict in verdicts], return_inverse=True)
        points = np.array([verdict.points for verdict in verdicts], dtype=np.float64)
        return cls(columns=columns, points=points, labels=labels, clusters=len(names))

    @property
    def in_both_orders(self) -> bool:
        """Whether in every cluster each was shown first as often as second."""
        return not self.by_cluster(self.columns[:, _EFFECTS:]).any()

    def unit(self, column: int) -> Floats:
        found = np.zeros(self.columns.shape[1])
        found[column] = 1.0
        return found

    def contrast(self, a: int, b: int) -> Floats:
        return self.unit(_EFFECTS + a) - self.unit(_EFFECTS + b)

    def against_average(self, row: int, compared: Sequence[int]) -> Floats:
        found = np.zeros(self.columns.shape[1])
        found[[_EFFECTS + other for other in compared]] = -1 / len(compared)
        return found + self.unit(_EFFECTS + row)

    def by_cluster(self, rows: Floats) -> Floats:
        """The sums of rows by cluster."""
        sums = np.zeros((self.clusters, *rows.shape[1:]))
        np.add.at(sums, self.labels, rows)
        return sums


def _expit(values: Floats) -> Floats:
    found: Floats = 0.5 * (1 + np.tanh(values / 2))
    return found


def _fit(columns: Floats, points: Floats) -> Floats:
    """The most likely effects under the penalty, by Newton's steps; a step that makes it worse is halved."""
    effects = np.zeros(columns.shape[1])
    value = _likelihood(columns, points, effects)
    for _ in range(_MOST_STEPS):
        chances = _expit(columns @ effects)
        slope = columns.T @ (points - chances) - _penalties(columns) * effects
        step = np.linalg.solve(_information(columns, chances), slope)
        if np.abs(step).max() < _PRECISION:
            break
        while (following := _likelihood(columns, points, effects + step)) < value and np.abs(step).max() > _PRECISION:
            step /= 2
        effects, value = effects + step, max(value, following)
    return effects


def _likelihood(columns: Floats, points: Floats, effects: Floats) -> float:
    odds = columns @ effects
    return float(points @ odds - np.logaddexp(0.0, odds).sum() - _penalties(columns) @ (effects * effects) / 2)


def _information(columns: Floats, chances: Floats) -> Floats:
    weights = chances * (1 - chances)
    found: Floats = (columns * weights[:, None]).T @ columns + np.diag(_penalties(columns))
    return found


def _penalties(columns: Floats) -> Floats:
    found = np.full(columns.shape[1], _STRENGTH_PENALTY)
    found[:_EFFECTS] = _EFFECT_PENALTY
    return found


def _covariance(data: _Data, effects: Floats) -> tuple[Floats, Floats]:
    """The variance of the effects by what they would be without each cluster (a jackknife), and by the model.

    Where one contestant always wins, all clusters are alike and the first is too small; the second is then large.
    """
    chances = _expit(data.columns @ effects)
    information = _information(data.columns, chances)
    weighted = data.columns * (chances * (1 - chances))[:, None]
    own = data.by_cluster(weighted[:, :, None] * data.columns[:, None, :])
    scores = data.by_cluster(data.columns * (data.points - chances)[:, None])
    moved = np.linalg.solve(information - own, scores[:, :, None])[:, :, 0]
    inverse: Floats = np.linalg.inv(information).astype(np.float64)
    silent = inverse @ np.diag(2 * _rare_squares(scores)) @ inverse
    by_clusters: Floats = moved.T @ moved * ((data.clusters - 1) / data.clusters) + silent
    return by_clusters, inverse


def _rare_squares(scores: Floats) -> Floats:
    """By effect, the square of the two clusters that are added where most clusters say nothing of it.

    As for differences of scores: an effect that rests on a few clusters, or on none, is known less well than their variance
    says. One cluster for it and one against it are added, of the size of those there are, by the share of silent ones.
    """
    squares = scores * scores
    still = np.mean(squares < 1e-12, axis=0)
    total = squares.sum(axis=0)
    sizes = np.where(total > 1e-12, (squares * squares).sum(axis=0) / np.maximum(total, 1e-12), 1.0)
    found: Floats = still * sizes
    return found


def _share(effects: Floats, covariances: Sequence[Floats], contrast: Floats, wide: float) -> Share:
    """An effect as a share, with its interval by the largest of the variances given."""
    odds = float(contrast @ effects)
    if wide == math.inf:
        return Share(share=float(_expit(np.array(odds))), low=0.0, high=1.0)
    half = wide * math.sqrt(max(0.0, *(float(contrast @ covariance @ contrast) for covariance in covariances)))
    share, low, high = _expit(np.array([odds, odds - half, odds + half])).tolist()
    return Share(share=share, low=low, high=high)


def _test(data: _Data, a: int, b: int) -> tuple[float, int]:
    """How likely luck alone makes two equals look so different, and who looks better: 1, −1, or 0 for neither."""
    first, second = data.columns[:, _EFFECTS + a], data.columns[:, _EFFECTS + b]
    equal = np.delete(data.columns, _EFFECTS + b, axis=1)
    equal[:, _EFFECTS + a] = first + second
    effects = _fit(equal, data.points)
    chances = _expit(equal @ effects)
    weights = chances * (1 - chances)
    difference = (first - second) / 2
    # What the other effects could explain as well is taken out of the difference, without the pull of the penalty.
    weighted = (equal * weights[:, None]).T
    own = difference - equal @ (np.linalg.pinv(weighted @ equal, rcond=_SINGULAR, hermitian=True) @ (weighted @ difference))
    if float(own * weights @ own) < _LEAST_INFORMATION:
        return 1.0, 0
    scores = data.by_cluster(own * (data.points - chances))
    turned = compare_pairs(np.stack([scores, np.zeros_like(scores)]), [(0, 1)])[0].p
    # Changing signs takes the other effects as known. With few clusters they are not: Student's test allows for that.
    return max(turned, _student_p(scores, data.clusters - _EFFECTS)), int(np.sign(scores.sum()))


def _student_p(scores: Floats, degrees: int) -> float:
    total, spread = float(scores.sum()), float(scores @ scores)
    if degrees < 1 or spread <= 0:
        return 1.0
    square = total * total / spread * degrees / (degrees + _EFFECTS)
    return regularised_beta(degrees / 2, 0.5, degrees / (degrees + square))
