"""Verdicts on pairs of answers: who is preferred, and what position and length do to the verdicts."""

import math

import numpy as np
import pytest
from support.preference_world import PreferenceWorld, Said
from support.voted_world import too_few

from tiebreak.stats.preferences import Verdict, fit_preferences

BIASED = {"position": 0.8, "length": 0.5, "errors": 0.1}


def fitted(said: list[Said], contestants: int):
    return fit_preferences(
        [Verdict(first=s.first, second=s.second, points=s.points, longer=s.longer, cluster=s.sample) for s in said], contestants
    )


def both_orders(sample, a, b, points, longer=0.0):
    return [Said(a, b, points, longer, sample), Said(b, a, 1 - points, -longer, sample)]


def test_without_biases_the_fit_is_the_log_odds_of_the_wins():
    said = [one for i in range(100) for one in both_orders(i, 0, 1, float(i < 70))]
    found = fitted(said, 2)
    assert found.pairs[0].preferred.share == pytest.approx(0.7, abs=3e-3)
    assert found.position.share == pytest.approx(0.5, abs=1e-9)
    assert found.length is None
    assert found.leader == 0


def test_position_and_length_are_taken_out():
    """With plenty of verdicts the planted effects come back."""
    world = PreferenceWorld((0.6, 0.0), (-0.5, 0.5), samples=4000, position=0.8, length=0.5)
    found = fitted(world.draw(np.random.default_rng(3)), 2)
    assert found.length is not None
    planted = {found.position: 0.8, found.length: 0.5, found.pairs[0].preferred: 0.6}
    for share, effect in planted.items():
        assert share.low < 1 / (1 + math.exp(-effect)) < share.high


def test_the_order_of_verdicts_and_the_names_do_not_matter():
    said = PreferenceWorld((0.5, 0.0, -0.5), samples=40).draw(np.random.default_rng(1))
    turned = [Said(2 - s.first, 2 - s.second, s.points, s.longer, 1000 - s.sample) for s in reversed(said)]
    one, other = fitted(said, 3), fitted(turned, 3)
    assert [s.share for s in one.strengths] == pytest.approx([s.share for s in reversed(other.strengths)], abs=1e-8)
    assert sorted(p.corrected for p in one.pairs) == pytest.approx(sorted(p.corrected for p in other.pairs), abs=2e-3)


def test_a_winner_that_is_always_longer_by_as_much_is_no_winner():
    said = [one for i in range(50) for one in both_orders(i, 0, 1, 1.0, longer=2.0)]
    found = fitted(said, 2)
    assert not found.better
    assert found.pairs[0].p == 1.0


def test_someone_who_always_wins_has_an_interval_and_leads():
    said = [one for i in range(20) for one in both_orders(i, 0, 1, 1.0)]
    found = fitted(said, 2)
    share = found.pairs[0].preferred
    assert found.leader == 0
    assert 0.7 < share.low < share.share < share.high < 1.0


def test_one_sample_says_nothing_of_the_judge():
    found = fitted(both_orders(0, 0, 1, 1.0), 2)
    assert (found.position.low, found.position.high) == (0.0, 1.0)
    assert not found.better


def test_people_see_one_order_and_the_position_effect_allows_for_that():
    said = [Said(0, 1, float(i % 2), 0.0, i) for i in range(30)]
    found = fitted(said, 2)
    assert found.position.low < 0.4
    assert found.position.high > 0.6


def test_few_samples_show_nothing():
    """Five wins of five are no proof: luck does as much once in sixteen times."""
    said = [one for i in range(5) for one in both_orders(i, 0, 1, 1.0)]
    assert not fitted(said, 2).better


def test_one_who_was_never_compared_is_in_no_tier():
    said = [one for i in range(10) for one in both_orders(i, 0, 2, 1.0)]
    found = fitted(said, 3)
    assert found.strengths[1] is None
    assert sorted(row for tier in found.tiers for row in tier) == [0, 2]


@pytest.mark.parametrize(
    ("world", "runs"),
    [
        (PreferenceWorld((0.0, 0.0), (0.5, -0.5), samples=60, **BIASED), 60),
        (PreferenceWorld((0.0,) * 3, (0.5, 0.0, -0.5), samples=60, ties=0.2, **BIASED), 30),
    ],
)
def test_judges_with_planted_biases_make_no_more_false_verdicts_than_allowed(world, runs):
    """And the intervals of both effects hold the truth. Large simulations are in perf/preferences.py."""
    rng = np.random.default_rng(11)
    position, length = (1 / (1 + math.exp(-effect)) for effect in world.fitted_effects(samples=4000))
    found = [fitted(world.draw(rng), len(world.strengths)) for _ in range(runs)]
    assert too_few(sum(not one.better for one in found), runs) > 0.01
    assert too_few(sum(one.position.low <= position <= one.position.high for one in found), runs) > 0.01
    assert too_few(sum(one.length.low <= length <= one.length.high for one in found), runs) > 0.01


def test_a_15_point_preference_is_found_at_200_samples():
    world = PreferenceWorld((math.log(0.65 / 0.35), 0.0), (-0.3, 0.3), position=0.8, length=0.5)
    rng = np.random.default_rng(5)
    found = sum((0, 1) in fitted(world.draw(rng), 2).better for _ in range(30))
    assert found >= 25
