"""Our own distributions, held against scipy's and against exact arithmetic."""

from support.packages import need_packages

need_packages("scipy")

import math
from decimal import Decimal, localcontext
from itertools import product

import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from tiebreak.stats.distributions import beta_quantile, regularised_beta, student_quantile

TAILS = [1e-12, 1e-9, 1e-6, 1e-4, 0.001, 0.005, 0.025, 0.05, 0.1, 0.25, 0.4, 0.499]
PARAMETERS = [0.01, 0.5, 1, 2, 3.7, 10, 50, 333, 1e3, 1e4, 1e5]
SHARES = [1e-10, 1e-5, 0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999]


@pytest.mark.parametrize("degrees", [0.5, 1, 2, 3, 5, 10, 29.5, 30, 100, 399, 400, 1000, 1e4, 1e6, 1e8])
def test_students_quantile_agrees_with_scipy(degrees):
    """scipy.special.stdtrit, from the middle to far out in both tails."""
    probabilities = [*TAILS, *(1 - tail for tail in TAILS)]
    ours = [student_quantile(probability, degrees) for probability in probabilities]
    assert ours == pytest.approx(list(scipy.special.stdtrit(degrees, probabilities)), rel=1e-10)


def test_the_incomplete_beta_function_agrees_with_scipy():
    """scipy.special.betainc, also where one parameter is a million times the other."""
    for a, b in product(PARAMETERS, repeat=2):
        expected = scipy.special.betainc(a, b, [*SHARES, a / (a + b)])
        found = [regularised_beta(a, b, x) for x in (*SHARES, a / (a + b))]
        assert found == pytest.approx(list(expected), rel=1e-10, abs=1e-290), (a, b)


def test_the_beta_quantile_agrees_with_scipy():
    """scipy.special.betaincinv."""
    for a, b in product(PARAMETERS[1:], repeat=2):
        ours = [beta_quantile(a, b, probability) for probability in TAILS]
        assert ours == pytest.approx(list(scipy.special.betaincinv(a, b, TAILS)), rel=1e-10), (a, b)


@pytest.mark.parametrize(("a", "b", "x"), [(10, 10**6, 1e-5), (2, 10**6, 3.4e-6), (1000, 10**5, 0.0103), (7, 3, 0.99)])
def test_the_incomplete_beta_function_is_the_binomial_sum(a, b, x):
    """Counted in sixty digits: closer than scipy comes."""
    with localcontext(prec=60):
        n, share = a + b - 1, Decimal(x)
        chances = [(1 - share) ** n]
        for k in range(a - 1):
            chances.append(chances[-1] * (n - k) / (k + 1) * share / (1 - share))
        exact = float(1 - sum(chances))
    assert regularised_beta(a, b, x) == pytest.approx(exact, rel=1e-13)


@given(st.floats(1e-15, 0.5))
def test_with_one_degree_it_is_the_cauchy_distribution(probability):
    """Whose quantile is a tangent, from far out to the middle."""
    angle = math.pi * (probability - 0.5)
    expected = math.tan(angle) if angle > -1 else -1 / math.tan(math.pi * probability)
    assert student_quantile(probability, 1) == pytest.approx(expected, rel=1e-12)


def test_the_ends_and_the_middle():
    """Nothing lies beyond certainty."""
    assert [student_quantile(p, 4) for p in (0.0, 0.5, 1.0)] == [-math.inf, 0.0, math.inf]
    assert [regularised_beta(2, 3, x) for x in (0.0, 1.0)] == [0.0, 1.0]
    assert [beta_quantile(2, 3, p) for p in (0.0, 1.0)] == [0.0, 1.0]


@given(st.floats(0.05, 1e4), st.floats(0.05, 1e4), st.floats(1e-6, 1 - 1e-6))
def test_the_quantile_inverts_the_probability(a, b, probability):
    """There and back."""
    x = beta_quantile(a, b, probability)
    # Near 1 the next number is far away: the probability lies between those of the neighbours.
    below, above = (regularised_beta(a, b, math.nextafter(x, end)) for end in (0.0, 1.0))
    assert below - 1e-11 <= probability <= above + 1e-11
