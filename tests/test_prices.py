"""What models cost."""

from __future__ import annotations

import pytest

from tiebreak.core.model import ModelRef, Price
from tiebreak.prices import with_price


def priced(provider: str, name: str, **more: object) -> Price | None:
    return with_price(ModelRef(provider=provider, name=name, label=name, **more)).price  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("openai", "gpt-4o-mini"),
        ("openai-responses", "gpt-5-codex"),
        ("anthropic", "claude-3-opus-20240229"),
        ("google", "gemini-1.5-flash"),
    ],
)
def test_listed_models_have_a_price(provider: str, name: str) -> None:
    price = priced(provider, name)
    assert price is not None
    assert 0 < (price.cached_usd or 0) < price.input_usd < price.output_usd


def test_what_is_not_known_is_unknown_and_never_nothing() -> None:
    assert priced("openai", "nobody-knows") is None
    assert priced("openai", "gpt-4o-mini", base_url="http://127.0.0.1:9/v1") is None
    assert priced("openai-responses", "o3-deep-research") is None  # its searches are charged on top
    assert priced("ollama", "gpt-4o-mini", local=True) is None


def test_price_of_the_user_stands() -> None:
    own = Price(input_usd=1, output_usd=2)
    assert priced("openai", "gpt-4o-mini", price=own) is own
