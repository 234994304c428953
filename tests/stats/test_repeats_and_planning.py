"""Asking several times, and asking enough."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.power import NormalIndPower

from tiebreak.stats.planning import POWER, samples_needed, smallest_difference
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
    difference, variance = 0.05, 0.3
    expected = NormalIndPower().solve_power(effect_size=difference / variance**0.5, alpha=0.05, power=POWER, ratio=0)
    assert samples_needed(difference, variance, 0.05) == pytest.approx(expected, abs=1.0)


def test_planning_there_and_back():
    """The difference n samples can show takes n samples to show."""
    variance, n = 0.25, 400
    shown = smallest_difference((variance / n) ** 0.5, 0.01)
    assert samples_needed(shown, variance, 0.01) == pytest.approx(n, abs=1)
    assert samples_needed(0.0, variance, 0.05) is None
