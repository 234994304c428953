"""From a table of scores to pairs, order and tiers; looks and extensions are paid for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tiebreak.stats.decision import decide, directional, fitted_scores
from tiebreak.stats.family import holm
from tiebreak.stats.paired import compare_all
from tiebreak.stats.schedule import Look, Schedule

TABLES = arrays.arrays(np.float64, st.tuples(st.integers(2, 5), st.integers(1, 30)), elements=st.sampled_from([0.0, 1.0, np.nan]))


def test_the_fit_is_the_mean_where_nothing_is_missing():
    table = np.random.default_rng(0).random((4, 50))
    assert fitted_scores(table) == pytest.approx(table.mean(axis=1))


def test_the_fit_recovers_scores_whatever_is_missing():
    """score = sample + contestant, exactly; every cell that is left says so."""
    rng = np.random.default_rng(1)
    skills, ease = np.array([0.1, 0.0, -0.2]), rng.random(60)
    table = ease + skills[:, None]
    table[0, rng.random(60) < 0.5] = np.nan
    table[1, :10] = np.nan
    assert fitted_scores(table) == pytest.approx(ease.mean() + skills)


def test_equals_are_equal_in_whatever_order_the_samples_come():
    """Rounding decides nothing: the first of equals comes first."""
    rng = np.random.default_rng(3)
    table = (rng.random((3, 300)) < 0.6).astype(float)
    table[1] = rng.permutation(table[0])
    for _ in range(20):
        shuffled = table[:, rng.permutation(300)]
        scores = fitted_scores(shuffled)
        assert scores[0] == scores[1] == pytest.approx(table[0].mean())


def test_one_without_any_score_has_none():
    assert np.isnan(fitted_scores(np.array([[1.0, 0.0], [np.nan, np.nan]])))[1]


def test_a_finished_run_nobody_looked_into_has_the_plain_tests():
    """Holm over McNemar, as ever."""
    table = (np.random.default_rng(2).random((4, 120)) < [[0.8], [0.6], [0.6], [0.3]]).astype(float)
    plain = compare_all(table)
    found = decide(table)
    assert [pair.p for pair in found.pairs] == [pair.p for pair in plain]
    assert [pair.difference for pair in found.pairs] == pytest.approx([pair.difference for pair in plain])
    assert list(found.corrected) == holm([pair.p for pair in plain])


@given(TABLES)
def test_no_tier_holds_a_separated_pair_and_the_leader_beats_everyone(table):
    found = decide(table)
    rows = [row for tier in found.tiers for row in tier]
    assert sorted(rows) == list(range(len(table)))
    for tier in found.tiers[:-1]:
        assert not any((a, b) in found.better for a in tier for b in tier)
    if found.leader is not None:
        assert all((found.leader, other) in found.better for other in rows if other != found.leader)


# --- looks and extensions ---------------------------------------------------------------------------

TABLE = np.zeros((2, 100))
TABLE[1, 20:22] = 1
TABLE[0, 22:32] = 1
FIXED = compare_all(TABLE)[0].p
"""Ten wins and two losses: 0.039."""
LOOKED = Schedule(looks=(Look(100, (50.0, 50.0)),))


def test_who_looked_leaves_four_fifths_for_the_end():
    assert decide(TABLE).better == {(0, 1)}
    pair = decide(TABLE, schedule=LOOKED).pairs[0]
    assert pair.p == pytest.approx(FIXED / 0.8)
    assert pair.method == "mcnemar"


@pytest.mark.parametrize("look", [Look(100, (100.0, 100.0)), Look(100, (0.0, 50.0)), Look(80, (50.0, 50.0))])
def test_a_look_costs_only_where_the_pair_could_be_compared_early(look):
    """Not at its end, not before both have begun, and not under a plan that was never an end of this run."""
    assert decide(TABLE, schedule=Schedule(looks=(look,))).pairs[0].p == pytest.approx(FIXED)


def test_before_the_end_only_the_anytime_test_speaks():
    pair = decide(TABLE[:, :60], done=[60, 60], planned=100).pairs[0]
    assert pair.method == "anytime"
    assert pair.p > 0.05
    assert pair.samples == 60


def test_only_what_both_have_been_asked_without_a_gap_is_compared():
    """What comes back early from later in the plan is easier than the rest."""
    assert decide(TABLE, done=[100, 25], planned=100).pairs[0].samples == 25


def test_every_extension_is_tested_at_one_percent():
    """The first end keeps its test, the second has a fifth of its error."""
    longer = Schedule(earlier=(50,))
    pair = decide(TABLE, schedule=longer).pairs[0]
    assert pair.p == pytest.approx(min(compare_all(TABLE[:, :50])[0].p, 5 * FIXED))
    assert longer.total == pytest.approx(0.06)
    late = Schedule(earlier=(10,))
    assert decide(TABLE, schedule=late).pairs[0].p == pytest.approx(5 * FIXED)


def test_what_was_shown_once_is_taken_back_where_the_difference_turns():
    """A win of the first end for the other side is no win now."""
    table = np.zeros((2, 100))
    table[1, :10] = 1
    table[0, 10:30] = 1
    before = decide(table[:, :10])
    after = decide(table, schedule=Schedule(earlier=(10,)))
    assert before.better == {(1, 0)}
    assert after.better == set()


@pytest.mark.parametrize(("looked", "bound"), [(True, 0.05), (False, 0.09)])
def test_looking_and_growing_show_no_more_than_they_may(looked, bound):
    """Five looks at a tie, or four extensions of one; the last part of either is the end."""
    rng, runs, wrong = np.random.default_rng(8), 300, 0
    for _ in range(runs):
        table = (rng.random((2, 250)) < 0.7).astype(float)
        ends = [50, 100, 150, 200, 250]
        found = [
            decide(table[:, :end], done=[end, end], planned=250, schedule=Schedule(looks=(Look(250, (50.0, 50.0)),)))
            if looked
            else decide(table[:, :end], schedule=Schedule(earlier=tuple(ends[:place])))
            for place, end in enumerate(ends)
        ]
        wrong += any(decision.better for decision in found)
    assert wrong <= runs * bound + 2.6 * (runs * bound) ** 0.5


# --- readings that differ ---------------------------------------------------------------------------


def test_readings_that_differ_either_way_are_luck_and_those_of_one_side_are_not():
    table = (np.random.default_rng(9).random((2, 200)) < 0.7).astype(float)
    either, one_side = table.copy(), table.copy()
    flipped = np.arange(0, 200, 20)
    either[0, flipped] = 1 - either[0, flipped]
    one_side[1, np.flatnonzero(table[1] == 1)[:20]] = 0
    assert directional(table, either, (0, 1)) > 0.05
    assert directional(table, one_side, (0, 1)) < 0.001
