"""Many models at once."""

from support.packages import need_packages

need_packages("statsmodels")

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from tiebreak.stats.family import holm, pareto_front, rank_interval, tiers


@pytest.mark.parametrize("count", [1, 2, 3, 6, 15, 45])
def test_holms_correction_agrees_with_statsmodels(count):
    """statsmodels.stats.multitest.multipletests(method="holm"), equal and extreme probabilities among them."""
    ps = [*np.random.default_rng(count).random(count) ** 3, 0.01, 0.01, 0.0, 1.0]
    assert holm(ps) == pytest.approx(list(multipletests(ps, method="holm")[1]), abs=1e-9)


def test_no_tests_need_no_correction():
    assert holm([]) == []


def _beats(*pairs):
    return lambda a, b: (a, b) in pairs


def test_a_tier_holds_those_whom_nobody_left_is_shown_to_beat():
    """A beats B, and C is level with both: A and C are at the top, and B is not among them."""
    assert tiers("ABC", _beats(("A", "B"))) == [["A", "C"], ["B"]]
    better = _beats(("A", "C"), ("A", "D"), ("B", "D"))
    assert tiers("ABCD", better) == [["A", "B"], ["C", "D"]]
    assert tiers("ABCD", _beats()) == [["A", "B", "C", "D"]]
    assert tiers("", better) == []


def test_tests_that_go_round_in_a_circle_leave_one_tier():
    """Each pair may have answered other samples; whoever renders the tier says that it contradicts itself."""
    assert tiers("ABCD", _beats(("A", "B"), ("B", "C"), ("C", "D"), ("D", "B"))) == [["A"], ["B", "C", "D"]]


@given(st.sets(st.tuples(st.sampled_from("ABCDE"), st.sampled_from("ABCDE")).filter(lambda pair: pair[0] < pair[1])))
def test_no_tier_holds_a_separated_pair(pairs):
    """Whoever is shown to beat whom, as long as it does not go round."""
    found = tiers("EDCBA", lambda a, b: (a, b) in pairs)
    assert sorted(name for tier in found for name in tier) == list("ABCDE")
    assert not any((a, b) in pairs for tier in found for a in tier for b in tier)


def test_ranks_that_are_possible():
    """Second or third when one is shown better and nothing else is known of three."""
    better = _beats(("A", "B"))
    assert rank_interval("A", ["B", "C"], better) == (1, 2)
    assert rank_interval("B", ["A", "C"], better) == (2, 3)
    assert rank_interval("C", ["A", "B"], better) == (1, 3)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_the_front_is_what_nothing_dominates(points):
    """Against the definition, one by one."""
    named = [(str(i), float(c), float(q)) for i, (c, q) in enumerate(points)]

    def beaten(p):
        return any(o[1] <= p[1] and o[2] >= p[2] and (o[1] < p[1] or o[2] > p[2]) for o in named)

    assert sorted(pareto_front(named)) == sorted(p[0] for p in named if not beaten(p))


def test_the_front_goes_from_cheap_to_dear():
    costs = {"a": 3.0, "b": 1.0, "c": 2.0}
    assert pareto_front([(n, c, c / 10) for n, c in costs.items()]) == ["b", "c", "a"]
    assert np.all(np.diff([costs[n] for n in ["b", "c", "a"]]) > 0)
