"""Is a difference more than luck?"""

from support.packages import need_packages

need_packages("scipy", "statsmodels")

import time
from itertools import product
from math import comb

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar

from tiebreak.stats.family import holm
from tiebreak.stats.paired import adjusted_interval, compare_all, exact_sign_test


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (2, 0, 0.5), (5, 0, 0.0625), (6, 0, 0.03125), (8, 2, 0.109375), (9, 1, 0.021484375), (5, 5, 1.0)],
)
def test_small_cases_are_exact(wins, losses, p):
    """Counted by hand."""
    assert exact_sign_test(wins, losses) == pytest.approx(p, rel=1e-9)


@given(st.integers(0, 60), st.integers(0, 60))
def test_it_is_the_binomial_tail_doubled(wins, losses):
    """Against whole-number arithmetic; who is called the first does not matter."""
    n = wins + losses
    exact = min(1.0, 2 * sum(comb(n, k) for k in range(min(wins, losses) + 1)) / 2**n)
    assert exact_sign_test(wins, losses) == pytest.approx(exact, rel=1e-9)
    assert exact_sign_test(wins, losses) == exact_sign_test(losses, wins)


@pytest.mark.parametrize(("wins", "losses"), [(3, 12), (40, 61), (100, 100), (1200, 1350)])
def test_mcnemar_agrees_with_statsmodels(wins, losses):
    """statsmodels.stats.contingency_tables.mcnemar(exact=True)."""
    expected = mcnemar([[10, wins], [losses, 10]], exact=True).pvalue
    assert exact_sign_test(wins, losses) == pytest.approx(min(1.0, expected), rel=1e-9)


def test_large_counts_are_no_trouble():
    """A million samples give a probability, not an overflow."""
    assert exact_sign_test(500_000, 500_000) == pytest.approx(1.0)
    assert exact_sign_test(499_000, 501_000) == pytest.approx(scipy.stats.binomtest(499_000, 10**6).pvalue, rel=1e-6)
    assert exact_sign_test(1_000_000, 0) == 0.0


def test_the_interval_of_paired_shares_has_the_published_value():
    """Bonett and Price on the airway data in Fagerland, Lydersen and Laake (2014): −0.508 to −0.013."""
    low, high, _ = adjusted_interval(1, 7, 21)
    assert (round(low, 3), round(high, 3)) == (-0.508, -0.013)


def _pair(a, b, groups=None):
    return compare_all(np.array([a, b], dtype=float), groups)[0]


def _all_signs(d):
    """Every reassignment, one by one."""
    observed = abs(sum(d))
    return np.mean([abs(np.dot(signs, d)) >= observed - 1e-9 for signs in product((-1, 1), repeat=len(d))])


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=10))
def test_repeats_are_tested_by_counting_every_reassignment(fifths):
    """Scores in fifths, as five repeats give them: the transform equals plain enumeration."""
    d = np.array(fifths) / 5
    found = _pair(np.where(d > 0, d, 0), np.where(d < 0, -d, 0))
    assert found.p == pytest.approx(_all_signs(d), abs=1e-9)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9), st.integers(0, 10**6))
def test_few_graded_scores_are_tested_by_counting_every_reassignment(values, seed):
    """Scores with no common step: every sign pattern is tried."""
    other = np.random.default_rng(seed).random(len(values))
    found = _pair(values, other)
    if found.method != "mcnemar":
        assert found.p == pytest.approx(_all_signs(np.array(values) - other), abs=1e-9)


def test_many_graded_scores_agree_with_scipys_permutation_test():
    """scipy.stats.permutation_test(permutation_type="samples"), within the luck of the draw."""
    rng = np.random.default_rng(5)
    a, b = rng.random(80), rng.random(80) * 0.85

    def mean(x, y, axis):
        return np.mean(x - y, axis=axis)

    expected = scipy.stats.permutation_test((a, b), mean, permutation_type="samples", n_resamples=20_000, rng=1)
    found = _pair(a, b)
    assert found.method == "drawn"
    assert found.p == pytest.approx(expected.pvalue, abs=0.006)
    assert found.p == _pair(a, b).p


def test_very_many_graded_scores_use_the_normal_limit():
    """Six thousand samples: the same as drawing, without the drawing."""
    rng = np.random.default_rng(6)
    a, b = rng.random(6000), rng.random(6000) * 0.985
    found = _pair(a, b)
    d = a - b
    assert found.method == "normal"
    assert found.p == pytest.approx(2 * scipy.stats.norm.sf(abs(d.sum()) / np.sqrt((d**2).sum())), rel=1e-9)
    assert found.p == pytest.approx(scipy.stats.ttest_rel(a, b).pvalue, abs=0.002)


def test_the_interval_of_graded_differences_is_students():
    """scipy.stats.ttest_rel(...).confidence_interval()."""
    rng = np.random.default_rng(7)
    a, b = rng.random(30), rng.random(30)
    found, expected = _pair(a, b), scipy.stats.ttest_rel(a, b).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_the_interval_holds_the_truth_where_differences_are_rare():
    """Three repeats, one model always right, the other wrong about 5 times in 600. Student's alone holds it in 88 % of runs."""
    rng = np.random.default_rng(8)
    rate, runs, hits = 5 / 600, 600, 0
    for _ in range(runs):
        found = _pair(np.ones(200), 1 - rng.binomial(3, rate, 200) / 3)
        hits += found.low <= rate <= found.high
    assert hits >= 0.93 * runs


def test_samples_of_one_group_are_reassigned_together():
    """Forty wins that are four groups of ten say as much as four wins."""
    a, b = [1.0] * 40, [0.0] * 40
    assert _pair(a, b).p < 1e-9
    assert _pair(a, b, [i // 10 for i in range(40)]).p == pytest.approx(2 / 2**4)


def test_only_samples_both_answered_count():
    """A missing score is no zero."""
    nan = float("nan")
    found = _pair([1, 1, nan, 0, 1], [0, nan, 1, 0, 0])
    assert (found.samples, found.first_better, found.second_better) == (3, 2, 0)
    assert found.difference == pytest.approx(2 / 3)
    nothing = _pair([1, nan], [nan, 1])
    assert (nothing.samples, nothing.p, nothing.low, nothing.high) == (0, 1.0, -1.0, 1.0)


def test_two_models_that_never_differ_may_still_differ():
    """The interval has a width, graded or not."""
    for value in (1.0, 0.5):
        found = _pair([value] * 50, [value] * 50)
        assert (found.difference, found.p) == (0.0, 1.0)
        assert found.low < -0.01 < 0.01 < found.high


def test_six_equal_models_are_rarely_told_apart():
    """By simulation of 400 runs: the chance of even one false separation is at most 5 %."""
    rng = np.random.default_rng(11)
    runs, false = 400, 0
    for _ in range(runs):
        difficulty = rng.random(150)
        scores = (rng.random((6, 150)) < difficulty).astype(float)
        false += min(holm([pair.p for pair in compare_all(scores)])) < 0.05
    # Exact tests are cautious; three standard errors above 5 % would still be 8 %.
    assert false <= 0.05 * runs


def test_equal_models_with_repeats_are_rarely_told_apart():
    """The same with three repeats, where scores are no longer right or wrong."""
    rng = np.random.default_rng(12)
    runs, false = 250, 0
    for _ in range(runs):
        difficulty = rng.random(120)
        scores = rng.binomial(3, difficulty, (6, 120)) / 3
        false += min(holm([pair.p for pair in compare_all(scores)])) < 0.05
    assert false <= 0.08 * runs


@pytest.mark.parametrize("kind", ["binary", "repeats", "graded"])
def test_ten_models_on_a_thousand_samples_take_no_time(kind):
    """All 45 pairs; the bound is loose for busy machines, the usual figure is a tenth of it."""
    rng = np.random.default_rng(13)
    tables = {
        "binary": (rng.random((10, 1000)) < 0.7).astype(float),
        "repeats": rng.binomial(5, 0.7, (10, 1000)) / 5,
        "graded": rng.random((10, 1000)),
    }
    started = time.process_time()
    assert len(compare_all(tables[kind])) == 45
    assert time.process_time() - started < 3.0
