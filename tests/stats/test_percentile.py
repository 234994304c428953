"""Percentiles by nearest rank."""

import random
from array import array

import pytest

from tiebreak.stats import intervals
from tiebreak.stats.intervals import at_ranks, percentiles


@pytest.mark.parametrize(("percent", "value"), [(50, 5), (95, 10), (99, 10), (10, 1), (11, 2), (0, 1), (100, 10)])
def test_nearest_rank(percent, value):
    """The smallest value that so many percent do not exceed."""
    assert percentiles([3, 1, 2, 10, 9, 8, 7, 4, 5, 6], [percent]) == [value]


def test_single_value_is_every_percentile():
    """Nothing is interpolated."""
    assert percentiles([3.5], (50, 99)) == [3.5, 3.5]


def test_many_values_are_found_without_sorting_them_all_at_once(monkeypatch):
    """Merged from sorted parts, the same values stand at the same places."""
    monkeypatch.setattr(intervals, "_SORTED_AT_ONCE", 10)
    values = array("d", (random.Random(1).choice([0.5, random.Random(i).random()]) for i in range(137)))
    ranks = [0, 1, 68, 135, 136, 1]
    assert at_ranks(values, ranks) == [sorted(values)[rank] for rank in ranks]
