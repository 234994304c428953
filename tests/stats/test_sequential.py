"""A test that may be looked at any number of times."""

from support.packages import need_packages

need_packages("scipy")

import math

import numpy as np
import pytest
from scipy.special import betaln

from tiebreak.stats.sequential import anytime_p

RUNS = 400


def stake(wins, losses):
    """2ⁿ·B(½ + wins, ½ + losses)/B(½, ½), by scipy."""
    return math.exp((wins + losses) * math.log(2) + betaln(0.5 + wins, 0.5 + losses) - betaln(0.5, 0.5))


def test_wins_and_losses_have_the_stake_of_the_formula():
    """The best moment so far counts, not the last; samples without a difference or a score are no bets."""
    p, sign = anytime_p(np.array([1.0, np.nan, 1, 0, 1, 1, 1, 1, 1, -1]))
    assert p == pytest.approx(1 / stake(7, 0))
    assert sign == 1
    assert anytime_p(np.array([-1.0] * 9))[1] == -1
    assert anytime_p(np.array([0.0, np.nan])) == (1.0, 0)
    assert anytime_p(np.array([])) == (1.0, 0)


def test_a_group_is_one_bet():
    """Ten samples that stand or fall together say as much as one; it is bet on when its last sample has come."""
    alone = anytime_p(np.array([1.0, 1, 1, -1, 1]))
    together = anytime_p(np.repeat([1.0, 1, 1, -1, 1], 10), np.repeat(np.arange(5), 10))
    assert together == alone
    split = anytime_p(np.array([1.0, -1, 1, 1]), np.array([0, 1, 1, 0]))
    assert split == anytime_p(np.array([0.0, 1.0]))


@pytest.mark.parametrize("kind", ["right or wrong", "graded", "groups"])
def test_luck_seldom_makes_rich(kind):
    """Of runs without a difference at most 5 % reach 1/0.05 at any moment."""
    rng = np.random.default_rng(5)
    draws = {
        "right or wrong": lambda: (rng.choice([1.0, -1.0, 0.0], 300, p=[0.1, 0.1, 0.8]), None),
        "graded": lambda: (rng.random(300) - rng.random(300), None),
        "groups": lambda: (np.repeat(rng.choice([1.0, -1.0, 0.0], 60), 5), np.repeat(np.arange(60), 5)),
    }
    assert np.mean([anytime_p(*draws[kind]())[0] < 0.05 for _ in range(RUNS)]) <= 0.05


def test_a_difference_is_found_early():
    """Ten points on 500 samples of which a fifth differ: nearly always, by all of them."""
    rng = np.random.default_rng(6)
    found = [anytime_p(rng.choice([1.0, -1.0, 0.0], 500, p=[0.15, 0.05, 0.8])) for _ in range(100)]
    assert sum(p < 0.05 and sign == 1 for p, sign in found) >= 93
