"""The effect of one factor (the prompt, the model, a setting, the agent) over all the others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from tiebreak.stats.effects import Effect, LevelMean
from tiebreak.stats.family import SURE, holm
from tiebreak.stats.intervals import estimate_mean
from tiebreak.stats.paired import Floats, Paired, compare_pairs

_ROUNDING = 1e-12
"""A difference below this is 0: which level is called the better one must not hang on rounding."""


def effects(
    scores: Floats, levels: Sequence[str], others: Sequence[Hashable], groups: Sequence[int] | None = None
) -> list[Effect]:
    """Every pair of levels of one factor, from a table of contestants × samples with NaN where there is no score.

    `levels[i]` is the level of contestant i, `others[i]` stands for all its other factors, and `groups` are numbers from
    0, one per sample. A cell is a value of `others` that has a contestant at both levels. On each sample the difference
    between the levels is averaged over the cells where both have a score; the effect is the mean of these differences
    over the samples. A missing score is left out together with its counterpart, so that neither the difficulty of a sample
    nor the skill of a model can pass for an effect. Levels without a common cell are not compared.

    The interval and the test speak about these contestants, each cell counting the same, on samples as they were drawn: as
    if other samples (or whole groups of them) were drawn from the same source, and answered. They say nothing about models
    or prompts that were not run. Where scores are missing, they speak about samples like those that both levels answered.
    """
    rows = _rows(levels, others)
    crossings = [_cross(scores, rows, first, second) for first, second in combinations(sorted(rows), 2)]
    crossings = [crossing for crossing in crossings if crossing.cells]
    if not crossings:
        return []
    table = np.concatenate([crossing.averages for crossing in crossings])
    pairs = compare_pairs(table, [(2 * i, 2 * i + 1) for i in range(len(crossings))], groups)
    corrected = holm([pair.p for pair in pairs])
    return [_effect(crossing, pair, p) for crossing, pair, p in zip(crossings, pairs, corrected, strict=True)]


def level_means(scores: Floats, levels: Sequence[str], groups: Sequence[int] | None = None) -> list[LevelMean]:
    """The score at each level: on each sample the mean of the level's contestants, then the mean over the samples.

    A level without any score has no mean. Where levels were run with different other factors, or scores are missing, two
    means differ by more than the effect of the factor: compare levels with `effects`.
    """
    labels = None if groups is None else np.asarray(groups)
    members = {level: [i for i, own in enumerate(levels) if own == level] for level in sorted(set(levels))}
    means = [_level_mean(level, scores[rows], labels) for level, rows in members.items()]
    return [mean for mean in means if mean.samples]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crossing:
    """Two levels on the cells they share."""

    first: str
    second: str
    averages: Floats
    """Levels × samples: the mean over the cells where both have a score; NaN where there is no such cell."""
    cells: int
    """Cells with at least one sample that both levels have a score on."""


def _rows(levels: Sequence[str], others: Sequence[Hashable]) -> dict[str, dict[Hashable, int]]:
    """For each level, the row of the contestant in each cell."""
    rows: dict[str, dict[Hashable, int]] = {}
    for row, (level, cell) in enumerate(zip(levels, others, strict=True)):
        if rows.setdefault(level, {}).setdefault(cell, row) != row:
            raise ValueError(f"two contestants at level {level!r} have the same other factors: {cell!r}")
    return rows


def _cross(scores: Floats, rows: dict[str, dict[Hashable, int]], first: str, second: str) -> _Crossing:
    cells = [cell for cell in rows[first] if cell in rows[second]]
    a, b = (scores[[rows[level][cell] for cell in cells]] for level in (first, second))
    both = ~np.isnan(a) & ~np.isnan(b)
    return _Crossing(
        first=first,
        second=second,
        averages=np.stack([_column_means(a, both), _column_means(b, both)]),
        cells=int(np.count_nonzero(both.any(axis=1))),
    )


def _column_means(scores: Floats, counted: npt.NDArray[np.bool_]) -> Floats:
    """The mean of what counts in each column; NaN where nothing does."""
    counts = counted.sum(axis=0)
    sums = np.where(counted, scores, 0.0).sum(axis=0)
    means: Floats = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return means


def _effect(crossing: _Crossing, pair: Paired, corrected: float) -> Effect:
    turned = pair.difference < -_ROUNDING
    difference = abs(pair.difference) if abs(pair.difference) > _ROUNDING else 0.0
    return Effect(
        first=crossing.second if turned else crossing.first,
        second=crossing.first if turned else crossing.second,
        difference=difference,
        low=-pair.high if turned else pair.low,
        high=-pair.low if turned else pair.high,
        p=pair.p,
        p_corrected=corrected,
        method=pair.method,
        samples=pair.samples,
        cells=crossing.cells,
        separated=corrected < SURE and difference > 0,
        error=pair.error,
    )


def _level_mean(level: str, scores: Floats, groups: npt.NDArray[np.int64] | None) -> LevelMean:
    means = _column_means(scores, ~np.isnan(scores))
    answered = ~np.isnan(means)
    estimate = estimate_mean(means[answered].tolist(), None if groups is None else groups[answered].tolist())
    return LevelMean(
        level=level,
        mean=estimate.mean,
        low=estimate.low,
        high=estimate.high,
        samples=estimate.n,
        contestants=len(scores),
    )
