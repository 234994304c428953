"""Asking several times, and asking enough."""

from support.packages import need_packages

need_packages("statsmodels")

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.power import NormalIndPower

from tiebreak.stats.paired import exact_sign_test
from tiebreak.stats.planning import (
    LEAST,
    MOST,
    POWER,
    samples_needed,
    smallest_difference,
    smallest_difference_right_or_wrong,
)
from tiebreak.stats.repeats import pass_all, pass_at


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_k_subsets(counted):
    """Against the definition: of all ways to take k answers, those with one right, and those with all right."""
    n, c, k = counted
    subsets = list(combinations([1] * c + [0] * (n - c), k))
    assert pass_at([(n, c)], k) == pytest.approx(np.mean([max(s) for s in subsets]), abs=1e-9)
    assert pass_all([(n, c)], k) == pytest.approx(np.mean([min(s) for s in subsets]), abs=1e-9)


def test_pass_at_k_has_the_products_value():
    """1 − Π(1 − k/i) over i from n−c+1 to n, as HumanEval computes it (Chen et al. 2021)."""
    n, c, k = 200, 17, 10
    assert pass_at([(n, c)], k) == pytest.approx(1 - np.prod(1 - k / np.arange(n - c + 1, n + 1)), abs=1e-9)


def test_samples_answered_too_seldom_say_nothing():
    """Two answers say nothing about five."""
    assert pass_at([(2, 2), (5, 0)], 5) == 0.0
    assert pass_at([(2, 2)], 5) is None
    assert pass_all([], 1) is None


def test_the_number_of_samples_agrees_with_statsmodels():
    """NormalIndPower(ratio=0) is the one-sample z test on the paired differences."""
    difference, variance = 0.01, 0.3
    for place, power in enumerate((LEAST, MOST)):
        expected = NormalIndPower().solve_power(effect_size=difference / variance**0.5, alpha=0.05, power=power, ratio=0)
        assert samples_needed(difference, variance, 0.05)[place] == pytest.approx(expected, rel=0.002)
    assert samples_needed(0.0, variance, 0.05) is None


def test_the_smallest_difference_agrees_with_statsmodels():
    """Of graded scores, where the test is near a normal one."""
    effect = NormalIndPower().solve_power(nobs1=400, alpha=0.01, power=POWER, ratio=0)
    assert smallest_difference((0.25 / 400) ** 0.5, 0.01) == pytest.approx(effect * 0.25**0.5, rel=1e-4)


def _shown(rng, n, differing, difference, alpha, runs):
    """How often the exact test shows a difference of right-or-wrong scores that is really there."""
    differing = max(differing, difference)
    chances = [(differing + difference) / 2, (differing - difference) / 2, 1 - differing]
    return np.mean([exact_sign_test(int(won), int(lost)) < alpha for won, lost, _ in rng.multinomial(n, chances, size=runs)])


@pytest.mark.parametrize(("n", "differing"), [(50, 0.4), (100, 0.1), (200, 0.2), (500, 0.1), (500, 0.2), (2000, 0.1)])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 15])
def test_what_could_have_been_shown_is_shown_four_times_out_of_five(n, differing, alpha):
    """By the exact test, with few differing samples and with many."""
    found = smallest_difference_right_or_wrong(n, round(n * differing), alpha)
    assert _shown(np.random.default_rng(n), n, differing, found, alpha, 3000) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(("differing", "difference"), [(0.1, 0.01), (0.2, 0.03), (0.3, 0.1), (0.2, 0.06)])
def test_a_forecast_is_kept_where_the_difference_found_is_the_true_one(differing, difference):
    """At its lower end in at least half of the runs, at its upper end in nine of ten."""
    rng, alpha = np.random.default_rng(7), 0.01
    few, many = samples_needed(difference, differing - difference**2, alpha, right_or_wrong=True)
    assert _shown(rng, few, differing, difference, alpha, 2000) >= 0.5 - 0.03
    assert _shown(rng, many, differing, difference, alpha, 2000) >= 0.9 - 0.02
