"""What a run will cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.specs import spec_of

from tiebreak.core.model import ModelRef, Price
from tiebreak.engine.estimate import estimate
from tiebreak.engine.plan import make_plan

PRICED = ModelRef(provider="openai", name="a", label="a", price=Price(input_usd=1.0, output_usd=10.0))
UNPRICED = ModelRef(provider="openai", name="b", label="b")
LOCAL = ModelRef(provider="ollama", name="c", label="c", local=True)


def _estimated(*models: ModelRef, **spec: object):
    return estimate(make_plan(spec_of(models, "truthfulness", Path(), **spec)))  # type: ignore[arg-type]


def test_only_what_has_a_price_is_counted_and_the_rest_is_named() -> None:
    found = _estimated(PRICED, UNPRICED, LOCAL)
    assert set(found.dollars) == {"a"}
    assert found.unknown == ("b",)
    # 365 questions of some 60 to 100 tokens each, answers of 20.
    assert found.total_usd == pytest.approx(365 * (80 * 1.0 + 20 * 10.0) / 1e6, rel=0.15)


def test_more_trials_cost_more_and_a_lower_limit_less() -> None:
    once = _estimated(PRICED).total_usd
    assert _estimated(PRICED, repeats=3).total_usd == pytest.approx(3 * once)
    assert _estimated(replace(PRICED, settings={"max_tokens": 5})).total_usd < once
    assert _estimated(replace(PRICED, settings={"reasoning_effort": "high"})).total_usd > 5 * once
