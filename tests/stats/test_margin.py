"""The cheapest that is good enough: seldom false, and found before the end where it is as good."""

import numpy as np
import pytest

from tiebreak.stats.margin import choose_within, margin_of
from tiebreak.stats.sequential import above_p


def drawn(rng, skills, samples, differing=0.2):
    """Right or wrong, alike but for a share of the samples."""
    alike = rng.random(samples) < max(skills)
    own = rng.random((len(skills), samples)) < np.array(skills)[:, None]
    return np.where(rng.random(samples) < 2 * differing, own, alike * np.ones((len(skills), 1), dtype=bool)).astype(float)


def chosen(table, margin, looks=25):
    """Look again and again, and take the first choice that is settled."""
    samples = table.shape[1]
    for rows in np.geomspace(30, samples, looks).astype(int):
        found = choose_within(table[:, :rows], [1.0, 2.0, 4.0][: len(table)], margin, done=[rows] * len(table))
        if found.settled:
            return found.fit, rows
    return found.fit, samples


def test_what_is_worse_than_the_margin_is_seldom_called_good_enough():
    """The cheap one is exactly at the margin: to call it good enough is just false."""
    false = sum(chosen(own_worlds(seed, gap=0.05), 0.05)[0] == 0 for seed in range(200))
    assert false <= 16, "more than 5 % by the exact binomial test"


def own_worlds(seed, gap):
    rng = np.random.default_rng(seed)
    return (rng.random((2, 600)) < np.array([[0.7 - gap], [0.7]])).astype(float)


def test_equals_are_shown_to_be_good_enough_before_the_end():
    found = [chosen(drawn(np.random.default_rng(seed), [0.7, 0.7], 2000), 0.05) for seed in range(40)]
    assert sum(fit == 0 for fit, _ in found) >= 36
    assert np.mean([rows for _, rows in found]) <= 0.8 * 2000


def test_the_best_itself_is_good_enough_where_nobody_cheaper_is():
    fit, rows = chosen(drawn(np.random.default_rng(1), [0.5, 0.5, 0.8], 2000, differing=0.5), 0.05)
    assert fit == 2
    assert rows < 2000


def test_nothing_is_claimed_of_a_few_samples():
    table = np.ones((2, 10))
    assert choose_within(table, [1.0, 2.0], 0.02, done=[10, 10]).fit is None


def test_bet_never_goes_below_nothing():
    assert 0 < above_p(np.array([-1.0] * 50 + [1.0] * 50), 0.9) <= 1
    assert 0 < above_p(np.array([1.0] * 50 + [-1.0] * 50), -0.9) <= 1
    assert above_p(np.array([]), 0.0) == 1.0


@pytest.mark.parametrize("typed", ["0", "100", "-2", "nan", "two"])
def test_margin_that_is_none(typed):
    with pytest.raises(ValueError, match=r"margin|could not convert"):
        margin_of(typed)
