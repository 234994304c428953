"""Scores corrected by people's votes hold the true mean as often as they say. Larger simulations: perf/corrected.py."""

from statistics import fmean

import pytest
from support.voted_world import GradedWorld, VotedWorld, too_few

from tiebreak.stats.corrected import correct_mean

RUNS = 120


def found_in(world, runs=RUNS):
    return [correct_mean(*draw) for draw in world.draws(runs, seed=7)]


def widths(found):
    return fmean(one.high - one.low for one in found), fmean(one.by_votes.high - one.by_votes.low for one in found)


@pytest.mark.parametrize(
    "world",
    [
        VotedWorld(0.9, 0.05, 0.05, 2000, 50),
        VotedWorld(0.95, 0.02, 0.02, 2000, 50),
        VotedWorld(0.7, 0.1, 0.1, 2000, 50),
        VotedWorld(0.7, 0.02, 0.3, 300, 50),
        GradedWorld(0.8, 0.2, 0.2, 500, 50),
    ],
    ids=str,
)
def test_the_interval_holds_the_mean_95_times_of_100(world):
    found = found_in(world)
    covered = sum(one.low <= world.mean <= one.high for one in found)
    assert too_few(covered, len(found)) > 0.01
    assert fmean(one.mean for one in found) == pytest.approx(world.mean, abs=0.02)
    off = fmean(fmean(verdicts) for verdicts, _ in world.draws(RUNS, seed=7)) - world.mean
    assert fmean(one.bias for one in found) == pytest.approx(off, abs=0.02)


def test_a_good_judge_makes_the_interval_shorter():
    corrected, alone = widths(found_in(VotedWorld(0.7, 0.1, 0.1, 2000, 50), 40))
    assert corrected < 0.8 * alone


@pytest.mark.parametrize("mean", [0.5, 0.7, 0.9, 0.97])
def test_a_useless_judge_makes_it_hardly_longer(mean):
    corrected, alone = widths(found_in(VotedWorld(mean, 0.5, 0.5, 1000, 50), 40))
    assert corrected < 1.05 * alone


def test_without_votes_nothing_is_corrected():
    assert correct_mean([1.0, 0.0, 1.0], {}) is None


def test_where_everything_was_voted_on_the_votes_alone_count():
    verdicts = [1.0] * 30
    votes = {place: float(place % 3 > 0) for place in range(30)}
    found = correct_mean(verdicts, votes)
    assert (found.mean, found.low, found.high) == (found.by_votes.mean, found.by_votes.low, found.by_votes.high)
    assert found.bias == pytest.approx(1 / 3)
    assert found.bias_low == found.bias_high == pytest.approx(1 / 3)


def test_right_and_wrong_are_treated_alike():
    (verdicts, votes), *_ = VotedWorld(0.8, 0.1, 0.2, 300, 40).draws(1, seed=3)
    one = correct_mean(verdicts, votes)
    other = correct_mean([1 - v for v in verdicts], {place: 1 - vote for place, vote in votes.items()})
    assert (other.mean, other.low, other.high) == pytest.approx((1 - one.mean, 1 - one.high, 1 - one.low), abs=1e-5)


@pytest.mark.parametrize("verdict", [0.0, 1.0])
def test_a_judge_that_always_says_the_same_leaves_the_votes(verdict):
    votes = {place: float(place % 5 > 0) for place in range(50)}
    found = correct_mean([verdict] * 500, votes)
    assert found.mean == pytest.approx(0.8)
    assert found.high - found.low == pytest.approx(found.by_votes.high - found.by_votes.low, rel=0.1)


def test_a_part_nobody_voted_on_may_be_anything():
    """Its size is all that is known of it: the interval reaches as far."""
    verdicts = [1.0] * 80 + [0.0] * 20
    found = correct_mean(verdicts, dict.fromkeys(range(30), 1.0))
    assert found.high > 0.99
    assert found.low < 0.8


def test_votes_of_one_group_stand_or_fall_together():
    (verdicts, votes), *_ = VotedWorld(0.7, 0.2, 0.2, 400, 60).draws(1, seed=5)
    plain = correct_mean(verdicts, votes)
    pairs = correct_mean(
        [v for v in verdicts for _ in range(2)],
        {2 * place + copy: vote for place, vote in votes.items() for copy in range(2)},
        [place for place in range(400) for _ in range(2)],
    )
    assert pairs.high - pairs.low > 0.9 * (plain.high - plain.low)
