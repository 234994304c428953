"""How sure a score is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.stats.intervals import wilson


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (1, 1, 0.2065, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_wilsons_interval_has_the_known_values(right, n, low, high):
    """Values from the literature and by hand."""
    assert wilson(right / n, n) == pytest.approx((low, high), abs=5e-5)


def test_nothing_asked_is_nothing_known():
    """The interval is everything."""
    assert wilson(0.0, 0) == (0.0, 1.0)


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_mean_and_has_a_width(counted):
    """Never outside 0 to 1, never of no width, and the same mirrored."""
    right, n = counted
    low, high = wilson(right / n, n)
    assert 0.0 <= low <= right / n <= high <= 1.0
    assert low < high
    assert wilson(1 - right / n, n) == pytest.approx((1 - high, 1 - low), abs=1e-9)
