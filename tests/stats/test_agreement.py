"""How far judges agree: Krippendorff's alpha."""

import random

import pytest

from tiebreak.stats.agreement import krippendorff_alpha

# The data of Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability": four observers, twelve units.
UNITS = [
    *([1, 1, 1], [2, 2, 3, 2], [3, 3, 3, 3], [3, 3, 3, 3], [2, 2, 2, 2], [1, 2, 3, 4]),
    *([4, 4, 4, 4], [1, 1, 2, 1], [2, 2, 2, 2], [5, 5, 5], [1, 1], [3]),
]


def test_the_example_of_krippendorff():
    found = krippendorff_alpha(UNITS)
    assert found.alpha == pytest.approx(0.849, abs=0.0005)
    assert found.units == 11
    assert found.low < found.alpha < found.high <= 1


def test_full_agreement_is_one_and_chance_is_about_nought():
    assert krippendorff_alpha([[0, 0], [1, 1], [1, 1]]).alpha == 1
    rng = random.Random(1)
    found = krippendorff_alpha([[float(rng.random() < 0.5), float(rng.random() < 0.5)] for _ in range(400)])
    assert found.low < 0 < found.high
    assert found.high - found.low < 0.25


def test_who_always_says_the_same_shows_no_agreement():
    """It cannot be told from habit."""
    assert krippendorff_alpha([[1, 1], [1, 1], [1, 1]]) is None
    assert krippendorff_alpha([[1], [0]]) is None


def test_answers_to_one_sample_stand_or_fall_together():
    """Ten copies of every verdict make the interval no shorter."""
    rng = random.Random(2)
    units = [[float(rng.random() < 0.7), float(rng.random() < 0.7)] for _ in range(40)]
    once = krippendorff_alpha(units)
    copied = krippendorff_alpha([unit for unit in units for _ in range(10)], [n for n in range(40) for _ in range(10)])
    assert copied.high - copied.low > 0.8 * (once.high - once.low)
