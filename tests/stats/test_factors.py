"""The effect of one factor over all the others."""

from support.packages import need_packages

need_packages("scipy", "statsmodels")

import time
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
import scipy.stats
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from tiebreak.stats.factors import effects, level_means
from tiebreak.stats.intervals import estimate_mean
from tiebreak.stats.paired import compare_all

NAN = float("nan")
MODELS, PROMPTS, TEMPERATURES = ("big", "mid", "tiny"), ("brief", "steps", "plain"), (0.0, 1.0)
DESIGN = list(product(MODELS, PROMPTS, TEMPERATURES))
PROMPT_OF = [prompt for _, prompt, _ in DESIGN]
OTHERS = [(model, temperature) for model, _, temperature in DESIGN]


def _table(seed, samples=40, missing=0.1, binary=False):
    rng = np.random.default_rng(seed)
    table = rng.random((len(DESIGN), samples))
    if binary:
        table = (table < 0.7).astype(float)
    table[rng.random(table.shape) < missing] = NAN
    return table


def _differences(table, levels, others, first, second):
    """From the definition, one sample and one cell at a time: (sample, mean difference of the cells both answered)."""
    found = []
    for sample in range(table.shape[1]):
        score = {(level, other): row[sample] for level, other, row in zip(levels, others, table, strict=True)}
        cells = [score[first, o] - score[second, o] for o in set(others) if (first, o) in score and (second, o) in score]
        cells = [d for d in cells if not np.isnan(d)]
        if cells:
            found.append((sample, sum(cells) / len(cells)))
    return found


def _signed(effect, first):
    """Difference and interval as seen from this level, whichever was better."""
    if effect.first == first:
        return effect.difference, effect.low, effect.high
    return -effect.difference, -effect.high, -effect.low


def _by_pair(found):
    return {frozenset((effect.first, effect.second)): effect for effect in found}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("grouped", [False, True])
def test_graded_effects_agree_with_statsmodels(seed, grouped):
    """Ordinary least squares of the differences on a constant, with cluster-robust errors and Student's quantile."""
    table = _table(seed, missing=0.3 * (seed % 3))
    groups = np.random.default_rng(seed).integers(0, 9, table.shape[1]) if grouped else np.arange(table.shape[1])
    found = _by_pair(effects(table, PROMPT_OF, OTHERS, list(groups) if grouped else None))

    for first, second in combinations(PROMPTS, 2):
        samples, d = zip(*_differences(table, PROMPT_OF, OTHERS, first, second), strict=True)
        labels = groups[list(samples)]
        fitted = sm.OLS(d, np.ones(len(d))).fit(cov_type="cluster", cov_kwds={"groups": labels})
        half = scipy.stats.t.ppf(0.975, len(set(labels)) - 1) * fitted.bse[0]
        effect = found[frozenset((first, second))]
        expected = (fitted.params[0], fitted.params[0] - half, fitted.params[0] + half)
        assert _signed(effect, first) == pytest.approx(expected, abs=1e-9)
        assert effect.error == pytest.approx(fitted.bse[0], abs=1e-9)
        assert (effect.samples, effect.cells) == (len(d), 6)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("grouped", [False, True])
def test_right_or_wrong_effects_agree_with_statsmodels(seed, grouped):
    """The same, with the variance of one win and one loss added by the share of units that do not differ."""
    table = _table(seed, samples=60, missing=0.0, binary=True)
    table[:, :30] = 1.0
    groups = np.arange(60) // 3 if grouped else np.arange(60)
    found = _by_pair(effects(table, PROMPT_OF, OTHERS, list(groups) if grouped else None))

    for first, second in combinations(PROMPTS, 2):
        d = np.array([d for _, d in _differences(table, PROMPT_OF, OTHERS, first, second)])
        fitted = sm.OLS(d, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": groups})
        units = [sum(d[groups == group]) for group in set(groups)]
        still = np.mean([abs(unit) < 1e-9 for unit in units])
        typical = sum(u**4 for u in units) / sum(u**2 for u in units)
        error = np.sqrt(fitted.bse[0] ** 2 + 2 * still * typical / 60**2)
        half = scipy.stats.t.ppf(0.975, len(units) - 1) * error
        assert still >= 0.4
        assert _signed(found[frozenset((first, second))], first) == pytest.approx(
            (d.mean(), d.mean() - half, d.mean() + half), abs=1e-9
        )


def test_an_effect_is_the_coefficient_of_a_regression():
    """Score on level, with a constant for every sample in every cell: what a fixed-effects model calls the effect."""
    table = _table(3, samples=7, missing=0.0)
    rows = [i for i, prompt in enumerate(PROMPT_OF) if prompt != "plain"]
    scores, brief, cell = zip(
        *((table[i, s], PROMPT_OF[i] == "brief", (OTHERS[i], s)) for i in rows for s in range(7)), strict=True
    )
    cells = sorted(set(cell))
    design = np.column_stack([np.array(brief, dtype=float), np.array([[c == own for own in cells] for c in cell], dtype=float)])
    expected = sm.OLS(scores, design).fit().params[0]

    effect = _by_pair(effects(table, PROMPT_OF, OTHERS))[frozenset(("brief", "steps"))]
    assert _signed(effect, "brief")[0] == pytest.approx(expected, abs=1e-9)


def test_with_one_cell_an_effect_is_the_comparison_of_two_models():
    """Bonett and Price's interval and McNemar's test, as everywhere."""
    table = _table(4, samples=80, binary=True)[:2]
    (effect,) = effects(table, ["a", "b"], ["only", "only"])
    (pair,) = compare_all(table)

    assert _signed(effect, "a") == pytest.approx((pair.difference, pair.low, pair.high), abs=1e-12)
    assert (effect.p, effect.method, effect.samples) == (pair.p, "mcnemar", pair.samples)


def test_better_levels_come_first_and_are_separated_when_shown():
    """A prompt that is right where the other is wrong, for both models, on forty samples."""
    table = np.array([[0.0] * 40, [1.0] * 40, [0.0] * 40, [1.0] * 40])
    (effect,) = effects(table, ["a", "b", "a", "b"], ["x", "x", "y", "y"])
    assert (effect.first, effect.second, effect.difference, effect.cells) == ("b", "a", 1.0, 2)
    assert effect.separated
    assert effect.low > 0.8
    assert effect.p_corrected < 1e-9


def test_equal_levels_are_not_separated_and_may_still_differ():
    """Nothing differs: the interval has a width, and the order is that of the names."""
    (effect,) = effects(np.ones((4, 30)), ["b", "a", "b", "a"], ["x", "x", "y", "y"])
    assert (effect.first, effect.second, effect.difference, effect.p, effect.separated) == ("a", "b", 0.0, 1.0, False)
    assert effect.low < -0.05 < 0.05 < effect.high


def test_levels_without_a_common_cell_are_not_compared():
    """a and b meet at x; c was run with another model only, and d has no score at all."""
    table = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [NAN, NAN]])
    found = effects(table, ["a", "b", "c", "d"], ["x", "x", "y", "x"])
    assert [(effect.first, effect.second) for effect in found] == [("a", "b")]
    assert effects(table[:1], ["a"], ["x"]) == []
    assert effects(np.zeros((0, 5)), [], []) == []


def test_a_missing_score_takes_its_counterpart_with_it():
    """The strong model failed at one prompt on every second sample: the prompts are still the same."""
    strong, weak = [1.0] * 20, [0.0] * 20
    failing = [NAN if i % 2 else 1.0 for i in range(20)]
    (effect,) = effects(np.array([failing, strong, weak, weak]), ["a", "b", "a", "b"], ["s", "s", "w", "w"])
    assert (effect.difference, effect.samples, effect.cells) == (0.0, 20, 2)


def test_two_contestants_in_one_place_are_a_mistake():
    """Something that tells them apart was left out of their other factors."""
    with pytest.raises(ValueError, match="same other factors"):
        effects(np.zeros((2, 3)), ["a", "a"], ["x", "x"])


def test_samples_of_a_group_count_once():
    """Forty samples in four groups say as much as four."""
    table = np.repeat([[1.0], [0.0]], 40, axis=1)
    (alone,) = effects(table, ["a", "b"], ["x", "x"])
    (grouped,) = effects(table, ["a", "b"], ["x", "x"], [i // 10 for i in range(40)])
    assert alone.p < 1e-9
    assert grouped.p == pytest.approx(2 / 2**4)
    assert grouped.low < alone.low


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.booleans())
def test_the_order_of_contestants_and_samples_does_not_matter(seed, binary):
    table, rng = _table(seed, samples=12, binary=binary), np.random.default_rng(seed)
    groups = rng.integers(0, 8, 12)
    rows, columns = rng.permutation(len(DESIGN)), rng.permutation(12)
    found = effects(table, PROMPT_OF, OTHERS, list(groups))
    moved = effects(table[rows][:, columns], [PROMPT_OF[i] for i in rows], [OTHERS[i] for i in rows], list(groups[columns]))
    for one, other in zip(found, moved, strict=True):
        assert (one.first, one.second, one.samples, one.cells, one.separated) == (
            other.first, other.second, other.samples, other.cells, other.separated
        )  # fmt: skip
        numbers = [(e.difference, e.low, e.high, e.p, e.p_corrected, e.error) for e in (one, other)]
        assert numbers[0] == pytest.approx(numbers[1], abs=1e-9)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.booleans())
def test_contestants_that_are_not_in_the_pair_do_not_change_its_effect(seed, binary):
    """Neither those of another level nor those in a cell that one level alone has; only the correction sees new pairs."""
    table, rng = _table(seed, samples=15, binary=binary), np.random.default_rng(seed)
    before = _by_pair(effects(table, PROMPT_OF, OTHERS))
    more = np.vstack([table, rng.random((3, 15))])
    after = _by_pair(effects(more, [*PROMPT_OF, "new", "new", "brief"], [*OTHERS, OTHERS[0], ("huge", 0.0), ("other", 1.0)]))
    for pair, effect in before.items():
        assert replace(after[pair], p_corrected=0, separated=False) == replace(effect, p_corrected=0, separated=False)
    assert len(after) == 6


@pytest.mark.parametrize("grouped", [False, True])
def test_a_levels_mean_is_that_of_its_contestants(grouped):
    """On each sample the mean of those with a score; then as for any model."""
    table = _table(5)
    groups = [i // 4 for i in range(40)] if grouped else None
    for level in level_means(table, PROMPT_OF, groups):
        own = table[[prompt == level.level for prompt in PROMPT_OF]]
        expected = estimate_mean(list(np.nanmean(own, axis=0)), groups)
        assert (level.mean, level.low, level.high) == pytest.approx((expected.mean, expected.low, expected.high), abs=1e-9)
        assert (level.samples, level.contestants) == (40, 6)


def test_with_nothing_missing_an_effect_is_the_difference_of_the_levels_means():
    table = _table(6, missing=0.0)
    means = {level.level: level.mean for level in level_means(table, PROMPT_OF)}
    for effect in effects(table, PROMPT_OF, OTHERS):
        assert effect.difference == pytest.approx(means[effect.first] - means[effect.second], abs=1e-9)


def test_a_level_without_scores_has_no_mean():
    """A failure is not a zero."""
    found = level_means(np.array([[1.0, NAN], [NAN, NAN]]), ["a", "b"])
    assert [(level.level, level.mean, level.samples) for level in found] == [("a", 1.0, 1)]


@pytest.mark.parametrize("grouped", [False, True])
def test_a_hundred_thousand_samples_take_less_than_a_second(grouped):
    """Eighteen contestants; the usual figure is a fifth of it."""
    table = _table(7, samples=100_000, binary=True)
    groups = [i // 4 for i in range(100_000)] if grouped else None
    started = time.process_time()
    assert len(effects(table, PROMPT_OF, OTHERS, groups)) == 3
    assert time.process_time() - started < 1.0
