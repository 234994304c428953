"""What a run will cost, before anything is paid for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from tiebreak.core.contestant import Contestant
from tiebreak.core.model import Price
from tiebreak.engine.plan import Plan

_LOOKED_AT = 50
_LETTERS_PER_TOKEN = 4
_CHOICE_TOKENS = 20
_TEXT_TOKENS = 200
_THOUGHT_TOKENS = 1500
"""What a reasoning model adds to an answer, as a rule of thumb."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The expected cost of a run, contestant by contestant."""

    dollars: dict[str, float]
    """By label, of the contestants whose model has a known price."""
    unknown: tuple[str, ...]
    """Contestants whose hosted model has no known price."""

    @property
    def total_usd(self) -> float:
        """What is known of it."""
        return sum(self.dollars.values())


def estimate(plan: Plan) -> Estimate:
    """Prompts as they are (the first fifty stand for all), answers of usual length."""
    paid = [c for c in plan.spec.contestants if not c.model.local and not c.reference]
    known = {c.label: _dollars(plan, c, c.model.price) for c in paid if c.model.price is not None}
    return Estimate(dollars=known, unknown=tuple(c.label for c in paid if c.model.price is None))


def _dollars(plan: Plan, contestant: Contestant, price: Price) -> float:
    settings = contestant.model.settings
    samples = [plan.shown(sample, contestant) for sample in islice(plan.samples, _LOOKED_AT)]
    sent = sum(len(sample.prompt) for sample in samples) / len(samples) / _LETTERS_PER_TOKEN
    made = sum(_CHOICE_TOKENS if sample.choices else _TEXT_TOKENS for sample in samples) / len(samples)
    if "reasoning_effort" in settings:
        made += _THOUGHT_TOKENS
    made = min(made, float(settings.get("max_tokens", made)))
    per_trial = (sent * price.input_usd + made * price.output_usd) / 1e6
    return per_trial * plan.trials_per_contestant
