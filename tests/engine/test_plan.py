"""Which trials a run asks, and in which order."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from support.specs import spec_of

from tiebreak.core.errors import UsageError
from tiebreak.core.model import ModelRef
from tiebreak.engine.plan import make_plan


@pytest.fixture
def planned(tmp_path):
    """A function that plans a run over 60 samples of three unequal categories."""
    path = tmp_path / "data.jsonl"
    categories = ["big"] * 30 + ["middle"] * 20 + ["small"] * 10
    rows = ({"id": f"q{i}", "input": f"Question {i}?", "target": "x", "category": c} for i, c in enumerate(categories))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def _planned(models=("m",), **options):
        refs = tuple(ModelRef(provider="baseline", name=name, label=name) for name in models)
        return make_plan(spec_of(refs, str(path), tmp_path / "run", **options))

    return _planned


def asked(plan, model=0):
    return [(trial.sample.id, trial.repeat) for trial in plan.trials(plan.spec.contestants[model])]


def test_a_longer_run_extends_a_shorter_one(planned):
    """Every limit's samples are the beginning of every larger limit's."""
    whole = asked(planned())
    assert sorted(whole) == sorted((f"q{i}", 0) for i in range(60))
    for limit in (1, 7, 20, 59):
        assert asked(planned(limit=limit)) == whole[:limit]
    assert asked(planned(limit=1000)) == whole


@pytest.mark.parametrize("limit", [6, 12, 18, 30, 48])
def test_every_beginning_is_spread_over_the_categories(planned, limit):
    """As the whole is, to within one sample."""
    plan = planned(limit=limit)
    counts = Counter(trial.sample.category for trial in plan.trials(plan.spec.contestants[0]))
    for category, share in (("big", 1 / 2), ("middle", 1 / 3), ("small", 1 / 6)):
        assert abs(counts[category] - limit * share) <= 1


def test_every_model_is_asked_the_same_in_the_same_order(planned):
    """Position in the run cannot favour one of them."""
    plan = planned(models=("one", "two"), limit=20, repeats=2)
    assert asked(plan, 0) == asked(plan, 1)
    assert len(asked(plan)) == plan.trials_per_contestant == 40


def test_identities_tell_trials_apart_and_are_stable(planned):
    """Model, sample and repeat each make another trial; planning again makes the same ones."""
    plan, again = planned(models=("one", "two"), repeats=2), planned(models=("one", "two"), repeats=2)
    identities = [t.id for c in plan.spec.contestants for t in plan.trials(c)]
    assert len(set(identities)) == len(identities) == 240
    assert identities == [t.id for c in again.spec.contestants for t in again.trials(c)]


def test_a_model_named_twice_is_refused(planned):
    """Its results could not be told apart."""
    with pytest.raises(UsageError, match="'m' is named twice"):
        planned(models=("m", "m"))


def test_a_judge_that_nobody_would_ask_is_refused(tmp_path):
    """Else the report would speak of verdicts that never were."""
    judge = ModelRef(provider="scripted", name="j", label="j")
    spec = spec_of([ModelRef(provider="baseline", name="constant", label="c")], "warmup", tmp_path)
    with pytest.raises(UsageError, match=r"no scorer would ask it .*; add --scorer judge"):
        make_plan(replace(spec, protocol=replace(spec.protocol, judges=(judge,))))
