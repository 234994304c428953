"""Choosing on one half of the samples and testing on the other."""

from support.packages import need_packages

need_packages("statsmodels")

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from tiebreak.stats.holdout import choose, halves
from tiebreak.stats.intervals import estimate_mean
from tiebreak.stats.paired import compare_all

NAN = float("nan")


def _ids(count):
    return [f"sample-{i}" for i in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100, 201])
def test_samples_without_groups_are_halved(count):
    """As even as can be, whatever the seed."""
    for seed in range(5):
        assert abs(2 * sum(halves(_ids(count), seed)) - count) <= 1


def test_the_split_is_always_the_same():
    """A change of this value would change what old runs said."""
    assert "".join("ct"[not on] for on in halves(_ids(20), 7)) == "ctccctcttcctcctttttc"


@given(st.lists(st.text(max_size=3), max_size=60), st.integers(), st.randoms())
def test_the_split_depends_on_keys_and_seed_only(keys, seed, random):
    """Not on the order; and samples with one key stay together."""
    side = dict(zip(keys, halves(keys, seed), strict=True))
    assert halves(keys, seed) == [side[key] for key in keys]
    shuffled = random.sample(keys, len(keys))
    assert halves(shuffled, seed) == [side[key] for key in shuffled]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=9), st.integers(0, 1000))
def test_halves_are_as_even_as_groups_allow(sizes, seed):
    """Never more than the largest group apart; and the larger half at most 7/6 of the best there is (Graham 1969)."""
    keys = [f"group-{i}" for i, size in enumerate(sizes) for _ in range(size)]
    larger = max(Counter(halves(keys, seed)).values())
    best = min(max(half, sum(sizes) - half) for half in (np.dot(sizes, on) for on in product((0, 1), repeat=len(sizes))))
    assert larger <= 7 / 6 * best
    assert 2 * larger - sum(sizes) <= max(sizes)


def test_every_sample_is_chosen_on_as_often_as_tested_on():
    """Over many seeds, and independently of its neighbour."""
    drawn = np.array([halves(_ids(20), seed) for seed in range(4000)])
    assert np.all(np.abs(drawn.mean(axis=0) - 0.5) < 0.035)
    # Of the other nineteen, ten are in the other half.
    together = np.mean(drawn[:, :1] == drawn[:, 1:], axis=0)
    assert np.all(np.abs(together - 9 / 19) < 0.035)


def test_groups_of_every_size_are_in_both_halves():
    """Ten groups of five and a hundred single samples: five of the groups, and fifty of the samples, in each."""
    keys = [f"group-{i // 5}" for i in range(50)] + _ids(100)
    split = halves(keys, 3)
    assert (sum(split[:50]), sum(split[50:])) == (25, 50)


def _table(seed=1, samples=60, missing=0.0):
    rng = np.random.default_rng(seed)
    table = (rng.random((5, samples)) < 0.6 + 0.05 * np.arange(5)[:, None]).astype(float)
    table[rng.random(table.shape) < missing] = NAN
    return table


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_the_chosen_is_described_by_the_testing_half(missing):
    """Score, interval and comparisons are those of the other samples alone."""
    table = _table(missing=missing)
    on = np.array(halves(_ids(60), 1))
    choice = choose(table, list(on))
    common = on & ~np.isnan(table).any(axis=0)
    means = table[:, common].mean(axis=1)
    order = sorted(range(5), key=lambda i: -means[i])
    own = table[choice.contestant]

    assert (choice.contestant, choice.runner_up, choice.chosen_on) == (order[0], order[1], common.sum())
    assert choice.score == estimate_mean([float(v) for v in own[~on] if not np.isnan(v)])
    assert choice.score_where_chosen == pytest.approx(np.nanmean(own[on]))
    assert choice.optimism == pytest.approx(np.nanmean(own[on]) - np.nanmean(own[~on]))
    expected = {}
    for pair in compare_all(table[:, ~on]):
        if choice.contestant in (pair.first, pair.second):
            ahead = pair.first == choice.contestant
            expected[pair.second if ahead else pair.first] = (pair, 1 if ahead else -1)
    assert {rival.contestant for rival in choice.rivals} == set(expected)
    corrected = multipletests([expected[rival.contestant][0].p for rival in choice.rivals], method="holm")[1]
    for rival, p in zip(choice.rivals, corrected, strict=True):
        pair, sign = expected[rival.contestant]
        assert rival.difference == pytest.approx(sign * pair.difference)
        assert sorted((rival.low, rival.high)) == pytest.approx(sorted((sign * pair.low, sign * pair.high)))
        assert (rival.p, rival.samples) == (pair.p, pair.samples)
        assert rival.p_corrected == pytest.approx(p, abs=1e-9)


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_what_is_claimed_does_not_depend_on_how_the_choice_was_made(seed):
    """Other scores on the choosing half that lead to the same choice lead to the same claims."""
    table = _table(seed, samples=40)
    on = np.arange(40) < 20
    choice = choose(table, list(on))
    table[choice.contestant, :20] = 1.0
    again = choose(table, list(on))
    if again.contestant == choice.contestant:
        assert (again.score, again.rivals) == (choice.score, choice.rivals)


def test_the_first_of_equals_is_chosen():
    """Also where rounding would say otherwise."""
    assert choose(np.ones((3, 4)), [True, True, False, False]).contestant == 0
    thirds = np.array([[0.1, 0.2, 0.3, 0.0], [0.3, 0.2, 0.1, 1.0]])
    choice = choose(thirds, [True, True, True, False])
    assert (choice.contestant, choice.runner_up) == (0, 1)


def test_a_chosen_one_that_disappoints_is_seen_to():
    """Best on the choosing half, worst on the other: the difference is negative, and shown."""
    table = np.array([[1.0] * 20 + [0.0] * 20, [0.0] * 20 + [1.0] * 20])
    choice = choose(table, [True] * 20 + [False] * 20)
    (rival,) = choice.rivals
    assert (choice.contestant, choice.score.mean, choice.optimism) == (0, 0.0, 1.0)
    assert (rival.difference, rival.separated) == (-1.0, True)


def test_one_contestant_is_chosen_without_rivals():
    choice = choose(np.array([[1.0, 0.0, 1.0, 1.0]]), [True, True, False, False])
    assert (choice.contestant, choice.runner_up, choice.rivals, choice.score.mean) == (0, None, (), 1.0)


def test_nothing_is_chosen_where_nothing_can_be():
    """No common sample to choose on; nothing to test on; nobody there; or a half that is empty."""
    both = [True, False]
    assert choose(np.array([[1.0, 1.0], [NAN, 1.0]]), both) is None
    assert choose(np.array([[1.0, NAN], [0.0, 1.0]]), both) is None
    assert choose(np.zeros((0, 2)), both) is None
    assert choose(np.ones((2, 2)), [True, True]) is None
    assert choose(np.ones((2, 2)), [False, False]) is None


def test_a_rival_without_common_samples_is_not_in_the_test():
    """Nothing is known of the pair, and it costs no certainty."""
    table = np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, NAN, NAN]])
    choice = choose(table, [True, False, False])
    assert [rival.contestant for rival in choice.rivals] == [1]


def test_a_group_in_both_halves_is_a_mistake():
    """What is common to its samples would be in the choice and in the test."""
    table = np.ones((2, 4))
    with pytest.raises(ValueError, match="both halves"):
        choose(table, [True, True, False, False], [0, 1, 1, 2])
    assert choose(table, [True, True, False, False], [0, 0, 1, 1]).score.clusters == 1
