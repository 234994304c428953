"""Whether a contestant still answers as it did: seldom a false alarm, however long the history, and changes are found."""

from itertools import product

import numpy as np
import pytest

from tiebreak.stats import drift
from tiebreak.stats.distributions import regularised_beta
from tiebreak.stats.drift import drifts

HISTORIES = 150
RUNS = 30


def history(rng, *, runs=RUNS, samples=60, moving=1.0, change=None, lost=0.0, swapped=False):
    """Right or wrong by run; a share of the samples varies from run to run, and from one run on some are lost."""
    chances = np.where(rng.random(samples) < moving, rng.random(samples), rng.random(samples) < 0.7)
    later = rng.permutation(chances) if swapped else np.where(rng.random(samples) < lost, 0.0, chances)
    of_run = [later if change is not None and run >= change else chances for run in range(runs)]
    return [{str(sample): float(right) for sample, right in enumerate(rng.random(samples) < own)} for own in of_run]


@pytest.mark.parametrize("moving", [0.0, 0.3, 1.0])
def test_quiet_histories_seldom_give_an_alarm(moving):
    rng = np.random.default_rng(7)
    false = sum(bool(drifts(history(rng, moving=moving), {})) for _ in range(HISTORIES))
    p = 1.0 if false == 0 else regularised_beta(false, HISTORIES - false + 1, 0.05)
    assert p >= 0.01, f"{false} of {HISTORIES}"


def test_quiet_histories_of_grades_groups_and_missing_samples():
    rng = np.random.default_rng(8)
    false = 0
    for _ in range(60):
        by_group = rng.random((RUNS, 12)).round(1)
        runs = [{f"{g}-{n}": float(own[g]) for g, n in product(range(12), range(4)) if rng.random() < 0.9} for own in by_group]
        false += bool(drifts(runs, {f"{g}-{n}": f"g{g}" for g, n in product(range(12), range(4))}))
    assert false <= 8


def test_without_groups_such_samples_would_give_false_alarms():
    """The test above can fail: four samples that always agree are no four observations."""
    rng = np.random.default_rng(8)
    runs = [{f"{g}-{n}": float(v > 0.5) for g, v in enumerate(rng.random(5)) for n in range(40)} for _ in range(60)]
    assert drifts(runs, {})
    assert not drifts(runs, {f"{g}-{n}": f"g{g}" for g in range(5) for n in range(40)})


@pytest.mark.parametrize(("lost", "within"), [(0.2, 6), (0.4, 2)])
def test_another_model_under_the_same_name_is_found(lost, within):
    rng = np.random.default_rng(9)
    delays = []
    for _ in range(20):
        (first, *_) = drifts(history(rng, samples=200, moving=0.3, change=10, lost=lost), {})
        assert first.since >= 8
        delays.append(first.shown - 9)
    assert np.mean(np.array(delays) <= within) >= 0.8, delays


def test_one_that_is_as_good_elsewhere_is_found_by_its_answers():
    rng = np.random.default_rng(10)
    found = [drifts(history(rng, samples=200, moving=0.0, change=8, swapped=True), {}) for _ in range(10)]
    assert sum(bool(own) and own[0].since == 8 for own in found) >= 9


def test_history_begins_again_with_a_change():
    rng = np.random.default_rng(11)
    one, other = history(rng, samples=300, moving=0.2, runs=12), history(rng, samples=300, moving=0.2, runs=12)
    found = drifts([*one, *other, *one], {})
    assert [drift.since for drift in found] == [12, 24]


@pytest.mark.parametrize("runs", [[], [{}], [{"a": 1.0}], [{"a": 1.0}, {}], [{"a": 1.0}, {"b": 0.0}], [{"a": 0.5}] * 9])
def test_histories_without_anything_to_compare_show_nothing(runs):
    assert drifts(runs, {}) == []


def test_long_sums_are_the_same_by_either_way(monkeypatch):
    """And many graded samples take no minutes."""
    rng = np.random.default_rng(12)
    histories = [[int(v) for v in rng.integers(0, 61, 4)] for _ in range(60)]
    by_hand = drift._tails(histories)
    monkeypatch.setattr(drift, "_LONG", 2)
    assert drift._tails(histories) == pytest.approx(by_hand, abs=1e-12)
    monkeypatch.undo()
    runs = [{str(i): float(v) for i, v in enumerate(rng.random(8000))} for _ in range(3)]
    assert drifts(runs, {}) == []
