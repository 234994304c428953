"""Whether more repeats or more samples would help: in the verdict of a run with repeats, and nowhere else."""

import asyncio
import json
import random

import pytest
from support import planted

from tiebreak.core.contestant import Contestant
from tiebreak.core.model import ModelRef
from tiebreak.core.run import Pace, Protocol, RunSpec
from tiebreak.pipeline import run_benchmark
from tiebreak.report.verdict import claims

SAMPLES = 120


@pytest.fixture
def summary_with(tmp_path):
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({"input": f"{i}", "target": "yes"}) + "\n" for i in range(SAMPLES)))

    def run(says, repeats):
        planted.answers["says"] = says
        models = [ModelRef(provider=planted.PROVIDER, name=name, label=name) for name in ("a", "b")]
        spec = RunSpec(
            protocol=Protocol(dataset=str(tmp_path / "q.jsonl"), repeats=repeats),
            contestants=tuple(Contestant(label=model.label, model=model) for model in models),
            pace=Pace(max_connections=1),
            results_dir=tmp_path / f"run{repeats}",
        )
        try:
            return asyncio.run(run_benchmark(spec))
        finally:
            del planted.answers["says"]

    return run


def wavering(model, question):
    """Answers that change from call to call, on every sample alike; a few calls of b fail."""
    if model == "b" and int(question) < 3:
        return "failed"
    return "yes" if CHANCE.random() < (0.6 if model == "a" else 0.5) else "no"


CHANCE = random.Random(1)


def test_verdict_says_what_would_narrow_the_interval(summary_with):
    summary = summary_with(wavering, 4)
    (claim,) = [claim for claim in claims(summary) if claim.kind == "noise"]
    assert {claim.facts["first"], claim.facts["second"]} == {"a", "b"}
    assert claim.facts["repeats_share"] > 0.8
    assert "twice the repeats would narrow the interval by" in claim.sentence
    # Three of 120 samples failed: all right or all wrong is three samples' worth, less what the mean says of them.
    assert 0.01 < claim.facts["failures_move"] < 0.03
    assert "Failed trials could move the difference by up to" in claim.sentence


def test_answers_that_never_change_leave_it_all_to_the_samples(summary_with):
    summary = summary_with(lambda model, question: "yes" if int(question) % (3 if model == "a" else 2) else "no", 2)
    (claim,) = [claim for claim in claims(summary) if claim.kind == "noise"]
    assert claim.facts["repeats_share"] == 0
    assert claim.facts["failures_move"] == 0
    assert "Failed trials" not in claim.sentence


def test_without_repeats_nothing_is_said(summary_with):
    summary = summary_with(lambda model, question: "yes" if int(question) % 3 else "no", 1)
    assert summary.noise is None
    assert "noise" not in {claim.kind for claim in claims(summary)}


def test_of_repeated_samples_no_number_of_single_answers_is_told(summary_with):
    """One answer of four judged otherwise does not change its sample from right to wrong."""
    says = lambda model, question: "yes" if int(question) % (3 if model == "a" else 2) else "no"  # noqa: E731
    once, repeated = summary_with(says, 1), summary_with(says, 2)
    assert once.comparisons[0].changes_to_overturn is not None
    assert repeated.comparisons[0].changes_to_overturn is None
    assert "fragile" not in {claim.kind for claim in claims(repeated)}
