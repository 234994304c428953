"""What a run will cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.specs import spec_of

from tiebreak.core.model import ModelRef, Price
from tiebreak.engine.estimate import estimate
from tiebreak.engine.plan import make_plan
from tiebreak.readiness import expected_cost, in_dollars

PRICED = ModelRef(provider="openai", name="a", label="a", price=Price(input_usd=1.0, output_usd=10.0))
UNPRICED = ModelRef(provider="openai", name="b", label="b")
LOCAL = ModelRef(provider="ollama", name="c", label="c", local=True)


def _estimated(*models: ModelRef, **spec: object):
    return estimate(make_plan(spec_of(models, "truthfulness", Path(), **spec)))  # type: ignore[arg-type]


def test_only_what_has_a_price_is_counted_and_the_rest_is_named() -> None:
    found = _estimated(PRICED, UNPRICED, LOCAL)
    assert set(found.dollars) == {"a"}
    assert found.unknown == ("b",)
    # 365 questions of some 60 tokens each, answers of 40, of 2 at least and of 400 at most.
    assert found.total.likely == pytest.approx(365 * (62 * 1.0 + 40 * 10.0) / 1e6, rel=0.15)
    assert found.total.low == pytest.approx(365 * (62 * 1.0 + 2 * 10.0) / 1e6, rel=0.15)
    assert found.total.high == pytest.approx(365 * (62 * 1.0 + 400 * 10.0) / 1e6, rel=0.15)


def test_more_trials_cost_more_and_a_lower_limit_less() -> None:
    once = _estimated(PRICED).total.likely
    assert _estimated(PRICED, repeats=3).total.likely == pytest.approx(3 * once)
    assert _estimated(replace(PRICED, settings={"max_tokens": 5})).total.likely < once
    assert _estimated(replace(PRICED, settings={"reasoning_effort": "high"})).total.likely > 5 * once


def test_the_judge_is_in_it() -> None:
    """It reads every question and every answer of every contestant."""
    judge = ModelRef(provider="anthropic", name="j", label="j", price=Price(input_usd=1.0, output_usd=10.0))
    plan = make_plan(spec_of((PRICED, LOCAL), "truthfulness", Path()))
    judged = replace(plan, spec=replace(plan.spec, protocol=replace(plan.spec.protocol, judges=(judge,))))
    found = estimate(judged)
    assert list(found.dollars) == ["a", "judge j"]
    each = (62 + 400 + 40) * 1.0 + 100 * 10.0
    assert found.dollars["judge j"].likely == pytest.approx(2 * 365 * each / 1e6, rel=0.1)
    unpriced = replace(judged, spec=replace(judged.spec, protocol=replace(judged.spec.protocol, judges=(UNPRICED,))))
    assert estimate(unpriced).unknown == ("judge b",)


def test_a_small_amount_is_told_readably() -> None:
    assert expected_cost(_estimated(PRICED)).startswith("Expected cost: about $0.17, between $0.03")
    assert in_dollars(0.0036) == "$0.0036"
    assert in_dollars(2.6e-06) == "less than $0.001"
    assert in_dollars(1234.5) == "$1,234.50"
