"""How sure a score is."""

from support.packages import need_packages

need_packages("scipy", "statsmodels")

import numpy as np
import pytest
import scipy.stats
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from tiebreak.stats.intervals import estimate_mean, standard_error, wilson


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (1, 1, 0.2065, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_wilsons_interval_has_the_known_values(right, n, low, high):
    """Values from the literature (81 of 263: Newcombe 1998) and by hand."""
    assert wilson(right / n, n) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("right", "n"), [(0, 7), (3, 7), (7, 7), (58, 100), (999, 1000), (1, 50_000)])
def test_wilsons_interval_agrees_with_statsmodels(right, n):
    """statsmodels.stats.proportion.proportion_confint(method="wilson")."""
    assert wilson(right / n, n) == pytest.approx(proportion_confint(right, n, method="wilson"), abs=1e-9)


def test_wilsons_interval_covers_the_truth_as_often_as_it_says():
    """Exactly, by summing the binomial: 95 % on average, never below 92 %, at a hundred samples."""
    n = 100
    low, high = np.array([wilson(k / n, n) for k in range(n + 1)]).T
    truths = np.arange(1, 100) / 100
    coverage = [scipy.stats.binom.pmf(range(n + 1), n, p)[(low <= p) & (p <= high)].sum() for p in truths]

    assert min(coverage) >= 0.92
    assert 0.945 <= np.mean(coverage) <= 0.955


def test_nothing_asked_is_nothing_known():
    """The interval is everything."""
    assert wilson(0.0, 0) == (0.0, 1.0)
    nothing = estimate_mean([])
    assert (nothing.low, nothing.high, nothing.n) == (0.0, 1.0, 0)


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_mean_and_has_a_width(counted):
    """Never outside 0 to 1, never of no width, and the same mirrored."""
    right, n = counted
    low, high = wilson(right / n, n)
    assert 0.0 <= low <= right / n <= high <= 1.0
    assert low < high
    assert wilson(1 - right / n, n) == pytest.approx((1 - high, 1 - low), abs=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(1, 5))
def test_an_estimate_holds_its_mean_and_has_a_width_whatever_the_scores(values, groups):
    """Graded, grouped, all alike, one sample: always within 0 and 1, never sure of anything."""
    for found in (estimate_mean(values), estimate_mean(values, [i % groups for i in range(len(values))])):
        assert 0.0 <= found.low <= found.mean <= found.high <= 1.0
        assert found.low < found.high


def test_the_standard_error_agrees_with_scipy():
    """scipy.stats.sem."""
    values = list(np.random.default_rng(1).random(57))
    assert standard_error(values) == pytest.approx(scipy.stats.sem(values), rel=1e-9)


def test_the_clustered_standard_error_agrees_with_statsmodels():
    """Ordinary least squares on a constant with cluster-robust errors: the mean of clustered data."""
    rng = np.random.default_rng(2)
    groups = rng.integers(0, 17, 120)
    values = rng.random(120) / 2 + 0.4 * rng.random(17)[groups]
    fitted = sm.OLS(values, np.ones(120)).fit(cov_type="cluster", cov_kwds={"groups": groups})

    assert standard_error(list(values), list(groups)) == pytest.approx(fitted.bse[0], rel=1e-9)


def test_samples_that_stand_or_fall_together_make_a_score_less_sure():
    """Ten copies of ten samples say little more than ten samples."""
    ten = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    copied, groups = ten * 10, list(range(10)) * 10
    alone, naive, grouped = estimate_mean(ten), estimate_mean(copied), estimate_mean(copied, groups)

    assert naive.high - naive.low < 0.4 * (alone.high - alone.low)
    assert grouped.high - grouped.low > 0.9 * (alone.high - alone.low)
    assert grouped.clusters == 10


def test_graded_scores_are_surer_than_right_or_wrong_ones():
    """Scores that hardly differ from each other have a narrow interval around their mean."""
    graded = estimate_mean([0.5, 0.52, 0.48, 0.51, 0.49] * 20)
    binary = estimate_mean([0.0, 1.0] * 50)
    assert graded.high - graded.low < 0.1 * (binary.high - binary.low)


def test_intervals_of_repeats_and_groups_cover_the_truth():
    """By simulation: at least 93 % of the intervals hold the true mean, with five repeats and with groups of four."""
    rng = np.random.default_rng(3)
    hits = {"repeats": 0, "groups": 0}
    for _ in range(400):
        skill = np.clip(rng.normal(0.8, 0.2, 100), 0, 1)
        repeated = rng.binomial(5, skill) / 5
        luck = np.repeat(rng.random(40), 4)
        grouped = (np.where(rng.random(160) < 0.7, luck, rng.random(160)) < 0.85).astype(float)
        found = estimate_mean(list(repeated))
        hits["repeats"] += found.low <= _CLIPPED_MEAN <= found.high
        found = estimate_mean(list(grouped), list(np.repeat(np.arange(40), 4)))
        hits["groups"] += found.low <= 0.85 <= found.high
    assert min(hits.values()) >= 0.93 * 400, hits


def _clipped_mean():
    """Mean of a normal number with mean 0.8 and deviation 0.2 that is cut at 0 and 1."""
    a, b = (0 - 0.8) / 0.2, (1 - 0.8) / 0.2
    cdf, pdf = scipy.stats.norm.cdf, scipy.stats.norm.pdf
    return 0.8 * (cdf(b) - cdf(a)) + 0.2 * (pdf(a) - pdf(b)) + (1 - cdf(b))


_CLIPPED_MEAN = _clipped_mean()
