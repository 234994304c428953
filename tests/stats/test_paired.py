"""Is a difference more than luck?"""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.stats.paired import exact_sign_test


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


def test_large_counts_are_no_trouble():
    """A million samples give a probability, not an overflow."""
    assert exact_sign_test(500_000, 500_000) == pytest.approx(1.0)
    assert 0.0 <= exact_sign_test(100_000, 90_000) < 1e-9
