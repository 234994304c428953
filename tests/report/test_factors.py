"""Effects of factors and the held-out choice through engine and store: the same decisions as the pure functions make."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from support import planted

from tiebreak.contestants import LineUp
from tiebreak.core.contestant import Prompting
from tiebreak.core.model import ModelRef
from tiebreak.core.run import Pace, Protocol, RunSpec
from tiebreak.pipeline import run_benchmark
from tiebreak.report.summary import Summary
from tiebreak.report.verdict import claims
from tiebreak.stats.factors import effects
from tiebreak.stats.holdout import choose, halves

MODELS, PROMPTS, TEMPERATURES = ("m0", "m1", "m2"), ("p0", "p1", "p2"), (0.0, 1.0)
SAMPLES, RUNS, PARTS = 200, 50, 5
GROUP = 4


def world(rng: np.random.Generator) -> np.ndarray:
    """Right or wrong, contestants × samples: additive effects on the logit scale, hard and easy groups of samples."""
    ease = np.repeat(rng.normal(0, 1, SAMPLES // GROUP), GROUP) + rng.normal(0, 0.5, SAMPLES)
    skills = [0.5 * m + 0.4 * p - 0.2 * t for m, p, t in product(range(3), range(3), range(2))]
    chances = 1 / (1 + np.exp(-(np.array(skills)[:, None] - 0.7 + ease[None, :])))
    return (rng.random(chances.shape) < chances).astype(float)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    rows = ({"id": f"s{i:03}", "input": f"Question {i:03}", "target": "yes", "group": f"g{i // GROUP}"} for i in range(SAMPLES))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run_of(scores: np.ndarray, dataset: Path, folder: Path) -> Summary:
    """A whole run whose models answer as the table says."""
    rows = {key: place for place, key in enumerate(product(MODELS, PROMPTS, TEMPERATURES))}
    planted.answers["is_right"] = lambda model, temperature, system, question: bool(
        scores[rows[model, system, temperature], int(question.removeprefix("Question "))]
    )
    models = [ModelRef(provider=planted.PROVIDER, name=name, label=name) for name in MODELS]
    prompts = [Prompting(name=name, system=name) for name in PROMPTS]
    line_up = LineUp(models=models, prompts=prompts, settings=[{"temperature": t} for t in TEMPERATURES])
    spec = RunSpec(
        protocol=Protocol(dataset=str(dataset), choose_on="half"),
        contestants=line_up.contestants(),
        pace=Pace(max_workers=4, max_connections=64),
        results_dir=folder,
    )
    return asyncio.run(run_benchmark(spec))


@pytest.mark.parametrize("part", range(PARTS))
def test_engine_and_store_decide_as_the_pure_functions_do(part: int, dataset: Path, tmp_path: Path) -> None:
    """Fifty runs of 3 models × 3 prompts × 2 temperatures, 200 samples in groups: every effect and every choice."""
    rng = np.random.default_rng(100 + part)
    groups = [i // GROUP for i in range(SAMPLES)]
    keys = [f"g{i // GROUP}" for i in range(SAMPLES)]
    for number in range(RUNS // PARTS):
        scores = world(rng)
        summary = run_of(scores, dataset, tmp_path / f"run_{number}")
        # In the order of the contestants: models with their settings, then prompts.
        order = [(m, p, t) for m, t, p in product(MODELS, TEMPERATURES, PROMPTS)]
        table = scores[[list(product(MODELS, PROMPTS, TEMPERATURES)).index(key) for key in order]]
        for factor, place in (("model", 0), ("prompt", 1), ("settings", 2)):
            levels = [str(key[place]) if place < 2 else f"temperature={key[2]}" for key in order]
            others = [key[:place] + key[place + 1 :] for key in order]
            found = next(f for f in summary.factors if f.name == factor)
            wanted = {frozenset((e.first, e.second)): e for e in effects(table, levels, others, groups)}
            assert len(found.effects) == len(wanted)
            for effect in found.effects:
                pure = wanted[frozenset((effect.first, effect.second))]
                assert (effect.first, effect.separated) == (pure.first, pure.separated)
                assert (effect.difference, effect.low, effect.high) == pytest.approx((pure.difference, pure.low, pure.high))
                assert effect.p_corrected == pytest.approx(pure.p_corrected, abs=0.01)
        choice = choose(table, halves(keys, 0), groups)
        assert choice is not None
        assert summary.chosen is not None
        assert summary.chosen.label == summary.contestants[choice.contestant].label
        assert summary.chosen.score == pytest.approx(choice.score.mean)
        assert [r.better for r in summary.chosen.rivals] == [r.separated and r.difference > 0 for r in choice.rivals]


def two_by_two(dataset: Path, folder: Path, says: Callable[[str, str, int], str], *scorers: str) -> Summary:
    """A run of two models and two prompts; what is said depends on the model, the prompt and the number of the sample."""

    def said(model: str, question: str) -> str:
        prompt, _, rest = question.partition(": Question ")
        return says(model, prompt, int(rest))

    planted.answers["says"] = said
    models = [ModelRef(provider=planted.PROVIDER, name=name, label=name) for name in ("m0", "m1")]
    prompts = [Prompting(name=name, template=f"{name}: {{question}}") for name in ("plain", "terse")]
    spec = RunSpec(
        protocol=Protocol(dataset=str(dataset), chosen_scorers=scorers),
        contestants=LineUp(models=models, prompts=prompts, settings=[{}]).contestants(),
        pace=Pace(max_connections=32),
        results_dir=folder,
    )
    try:
        return asyncio.run(run_benchmark(spec))
    finally:
        del planted.answers["says"]


def prompt_effect(summary: Summary) -> tuple[bool, tuple[str, ...], str]:
    (effect,) = next(factor for factor in summary.factors if factor.name == "prompt").effects
    (sentence,) = [c.sentence for c in claims(summary) if c.kind == "effect" and c.facts["factor"] == "prompt"]
    return effect.separated, effect.depends_on, sentence


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    path = tmp_path / "alone.jsonl"
    rows = ({"id": f"s{i:03}", "input": f"Question {i:03}", "target": "yes"} for i in range(SAMPLES))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_effect_that_failures_make_is_not_claimed(alone: Path, tmp_path: Path) -> None:
    """Where both prompts answered one is better; but it fails on as many samples that the other has right."""

    def says(model: str, prompt: str, number: int) -> str:
        if prompt == "terse" and number % 12 in (0, 5):
            return "yes" if number % 12 == 0 else "failed"
        return "no" if number % 3 == 0 else "yes"

    def better(model: str, prompt: str, number: int) -> str:
        return "failed" if number % 20 == 1 else "no" if number % (3 if prompt == "plain" else 9) == 0 else "yes"

    separated, depends, sentence = prompt_effect(two_by_two(alone, tmp_path / "one", says))
    assert (separated, depends) == (False, ("failures",))
    assert "but not if failed trials count as wrong: none is claimed" in sentence
    separated, depends, sentence = prompt_effect(two_by_two(alone, tmp_path / "other", better))
    assert (separated, depends) == (True, ())
    assert "terse is better than plain" in sentence


def test_effect_that_one_reading_makes_is_not_claimed(alone: Path, tmp_path: Path) -> None:
    """The first rule likes one prompt's answers on every eighth sample, the second does not."""

    def says(model: str, prompt: str, number: int) -> str:
        if prompt == "terse" and number % 8 == 0:
            return "yes no"
        return "no no" if number % 4 == 0 else "yes yes"

    separated, depends, sentence = prompt_effect(two_by_two(alone, tmp_path / "run", says, planted.SCORER))
    assert (separated, depends) == (False, ("reading",))
    assert "but not if answers are read by the second rule" in sentence
