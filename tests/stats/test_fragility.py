"""The fewest changed verdicts that overturn a pair, against trying every change."""

from itertools import combinations, product

import pytest

from tiebreak.stats.family import SURE, holm
from tiebreak.stats.fragility import fewest_changes
from tiebreak.stats.paired import exact_sign_test


def by_brute_force(first, second, others):
    """Turn every set of verdicts round, the smallest sets first."""
    cells = [(row, column) for row in range(2) for column in range(len(first))]
    shown = is_shown(first, second, others)
    for size in range(1, len(cells) + 1):
        for changed in combinations(cells, size):
            rows = [list(first), list(second)]
            for row, column in changed:
                rows[row][column] = 1 - rows[row][column]
            if is_shown(*rows, others) != shown:
                return size
    return None


def is_shown(first, second, others):
    wins = sum(a > b for a, b in zip(first, second, strict=True))
    losses = sum(a < b for a, b in zip(first, second, strict=True))
    return holm([exact_sign_test(wins, losses), *others])[0] < SURE


@pytest.mark.parametrize("others", [(), (0.5,), (0.001, 0.2)])
def test_equals_brute_force_on_small_runs(others):
    checked = 0
    for wins, losses, ties in product(range(0, 9), range(0, 3), range(0, 3)):
        if not 6 <= wins + losses + ties <= 9:
            continue
        first = [1] * wins + [0] * losses + [1] * ties
        second = [0] * wins + [1] * losses + [1] * ties
        if by_brute_force_is_slow(first, second, others):
            continue
        assert fewest_changes(wins, losses, ties, others=others) == by_brute_force(first, second, others), (wins, losses, ties)
        checked += 1
    assert checked > 20


def by_brute_force_is_slow(first, second, others):
    """More than three changes among eighteen verdicts are too many to try."""
    wins = sum(a > b for a, b in zip(first, second, strict=True))
    losses = sum(a < b for a, b in zip(first, second, strict=True))
    found = fewest_changes(wins, losses, len(first) - wins - losses, others=others)
    return found is None or found > 4


@pytest.mark.parametrize(
    ("wins", "losses", "ties", "fewest"), [(6, 0, 0, 1), (20, 5, 100, 4), (50, 50, 100, 19), (60, 20, 0, 22)]
)
def test_known_cases(wins, losses, ties, fewest):
    """6:0 is p = 0.031, 5:0 is 0.063."""
    found = fewest_changes(wins, losses, ties)
    assert found == fewest
