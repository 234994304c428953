"""Times and costs on the same samples."""

from support.packages import need_packages

need_packages("scipy")

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from tiebreak.stats.ratios import compare_ratios


def test_the_ratio_is_students_test_on_the_logarithms():
    """scipy.stats.ttest_1samp, with its interval."""
    values = np.random.default_rng(0).lognormal(0, 0.5, (2, 40))
    found = compare_ratios(values)[0]
    expected = ttest_1samp(np.log(values[0]) - np.log(values[1]), 0)
    interval = expected.confidence_interval()
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((np.exp(interval.low), np.exp(interval.high)))


def test_samples_of_a_group_count_as_one():
    """The same value ten times is not ten times as sure."""
    values = np.random.default_rng(1).lognormal(0, 0.5, (2, 12))
    alone = compare_ratios(values)[0]
    together = compare_ratios(np.repeat(values, 10, axis=1), np.repeat(np.arange(12), 10))[0]
    assert together.p == pytest.approx(alone.p)
    assert together.ratio == pytest.approx(alone.ratio)
    assert compare_ratios(np.repeat(values, 10, axis=1))[0].p < alone.p


def test_fixed_prices_need_a_few_samples():
    """Twice as much every time: as unlikely as heads every time."""
    assert compare_ratios(np.array([[1.0] * 4, [2.0] * 4]))[0].p == pytest.approx(2**-3)
    assert compare_ratios(np.array([[1.0] * 9, [2.0] * 9]))[0].p == pytest.approx(2**-8)
    assert compare_ratios(np.ones((2, 9)))[0].p == 1.0


def test_missing_values_are_left_out_together():
    values = np.array([[1.0, np.nan, 2.0, 4.0], [2.0, 5.0, np.nan, 8.0]])
    found = compare_ratios(values)[0]
    assert (found.samples, found.ratio) == (2, pytest.approx(0.5))


def test_a_free_model_is_cheaper_than_any():
    assert compare_ratios(np.array([[0.0] * 20, [1e-6] * 20]))[0].ratio < 1e-5
