"""Percentiles by nearest rank."""

import pytest

from benchmark.stats.intervals import percentile


@pytest.mark.parametrize(("percent", "value"), [(50, 5), (95, 10), (99, 10), (10, 1), (0, 1), (100, 10)])
def test_percentile_is_a_value_that_was_measured(percent, value):
    """The smallest that so many do not exceed."""
    assert percentile(list(range(1, 11)), percent) == value


def test_single_value_is_every_percentile():
    """There is nothing else to say."""
    assert percentile([3.5], 99) == 3.5
