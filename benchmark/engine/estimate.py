"""What a run will cost, before anything is paid for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from benchmark.core.model import ModelRef
from benchmark.engine.plan import Plan

_LOOKED_AT = 50
_LETTERS_PER_TOKEN = 4
_CHOICE_TOKENS = 20
_TEXT_TOKENS = 200
_THOUGHT_TOKENS = 1500
"""What a reasoning model adds to an answer, as a rule of thumb."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The expected cost of a run, model by model."""

    dollars: dict[str, float]
    """By label, of the models whose price is known."""
    unknown: tuple[str, ...]
    """Hosted models of unknown price."""

    @property
    def total_usd(self) -> float:
        """What is known of it."""
        return sum(self.dollars.values())


def estimate(plan: Plan) -> Estimate:
    """Prompts as they are (the first fifty stand for all), answers of usual length."""
    paid = [model for model in plan.spec.models if not model.local and not model.reference]
    known = {model.label: _dollars(plan, model) for model in paid if model.price is not None}
    return Estimate(dollars=known, unknown=tuple(model.label for model in paid if model.price is None))


def _dollars(plan: Plan, model: ModelRef) -> float:
    assert model.price is not None
    samples = [trial.sample for trial in islice(plan.trials(model), _LOOKED_AT)]
    sent = sum(len(sample.prompt) for sample in samples) / len(samples) / _LETTERS_PER_TOKEN
    made = sum(_CHOICE_TOKENS if sample.choices else _TEXT_TOKENS for sample in samples) / len(samples)
    if "reasoning_effort" in model.settings:
        made += _THOUGHT_TOKENS
    made = min(made, float(model.settings.get("max_tokens", made)))
    per_trial = (sent * model.price.input_usd + made * model.price.output_usd) / 1e6
    return per_trial * plan.trials_per_model
