"""What models cost."""

from __future__ import annotations

import msgspec
import pytest

from tiebreak.core.message import Usage
from tiebreak.core.model import ModelRef, Price
from tiebreak.engine.budget import cost_of
from tiebreak.prices import with_price
from tiebreak.wire import messages


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


LONG = {"input_tokens": 250_000, "output_tokens": 4_000}
SHORT = {"input_tokens": 12_000, "output_tokens": 700}


@pytest.mark.parametrize("size", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize(
    "cache", [{}, {"cache_read_tokens": 5_000}, {"cache_write_tokens": 6_000}], ids=["plain", "read", "written"]
)
@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("openai", "gpt-4o-mini"),
        ("openai", "gpt-5.4"),
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-opus-4-1"),
        ("google", "gemini-2.5-pro"),
    ],
)
def test_a_bill_is_what_the_price_list_says(provider: str, name: str, cache: dict[str, int], size: dict[str, int]) -> None:
    """Also of cache writes, and of prompts so long that everything costs more."""
    import genai_prices

    model = with_price(ModelRef(provider=provider, name=name, label=name))
    usage = Usage(**size, cached_tokens=cache.get("cache_read_tokens", 0), cache_write_tokens=cache.get("cache_write_tokens", 0))
    listed = genai_prices.calc_price(genai_prices.Usage(**size, **cache), model_ref=name, provider_id=provider)
    assert cost_of(usage, model) == pytest.approx(float(listed.total_price), rel=1e-12)


def test_cache_writes_of_a_reply_are_billed_as_such() -> None:
    """Anthropic's: a write costs a quarter more than input, one for an hour twice as much."""
    written = {"cache_creation_input_tokens": 3_000, "cache_creation": {"ephemeral_1h_input_tokens": 1_000}}
    body = {"content": [], "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 2_000, **written}}
    usage = messages.decode(msgspec.json.encode(body)).usage
    model = with_price(ModelRef(provider="anthropic", name="claude-sonnet-4-5", label="claude"))
    assert usage is not None
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (5_010, 2_000, 3_000)
    assert cost_of(usage, model) == pytest.approx((10 * 3 + 2_000 * 0.3 + 2_000 * 3.75 + 1_000 * 6 + 5 * 15) / 1e6)
