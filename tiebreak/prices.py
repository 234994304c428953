"""What a model costs: the user's own price, else genai-prices' table, else unknown. Never a guess."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tiebreak.core.model import ModelRef, Price

_PROVIDERS = {
    **{"openai": "openai", "openai-responses": "openai", "anthropic": "anthropic", "google": "google"},
    **{"vertex": "google", "bedrock": "aws"},
}
"""Our providers with a price list, by the name it has there."""
_CHARGED_APART = "deep-research"
"""Models of this kind search as they see fit, and each search is charged on top of the tokens."""


def with_price(model: ModelRef) -> ModelRef:
    """The model with its price, where there is one to know.

    A local model has none. The list holds at the provider's own address: what another server charges we cannot know.
    """
    if model.price is not None or model.local or model.base_url or model.provider not in _PROVIDERS:
        return model
    if _CHARGED_APART in model.name:
        return model
    return replace(model, price=_listed(model.provider, model.name))


def _listed(provider: str, name: str) -> Price | None:
    # Takes a third of a second to import: paid only by those who have something to pay.
    from genai_prices import Usage, calc_price

    try:
        listed = calc_price(Usage(input_tokens=0), model_ref=name, provider_id=_PROVIDERS[provider]).model_price
    except LookupError:
        return None
    if getattr(listed, "input_mtok", None) is None:
        return None
    starts = sorted({tier.start for price in vars(listed).values() for tier in getattr(price, "tiers", ())})
    longer = tuple((start, _price(listed, start + 1)) for start in starts)
    return replace(_price(listed, 0), longer=longer)


def _price(listed: Any, input_tokens: int) -> Price:
    """The list's price for a request of this length."""

    def dollars(name: str) -> float | None:
        price = getattr(listed, name, None)
        if price is None:
            return None
        passed = [tier.price for tier in getattr(price, "tiers", ()) if input_tokens > tier.start]
        return float(passed[-1] if passed else getattr(price, "base", price))

    return Price(
        input_usd=dollars("input_mtok") or 0.0,
        output_usd=dollars("output_mtok") or 0.0,
        cached_usd=dollars("cache_read_mtok"),
        cache_write_usd=dollars("cache_write_mtok"),
        long_cache_write_usd=dollars("cache_write_1h_mtok"),
    )
