"""What a model costs: the user's own price, else genai-prices' table, else unknown. Never a guess."""

from __future__ import annotations

from dataclasses import replace

from tiebreak.core.model import ModelRef, Price

_PROVIDERS = {"openai": "openai", "openai-responses": "openai", "anthropic": "anthropic", "google": "google"}
"""Our providers with a price list, by the name it has there."""
_CHARGED_APART = "deep-research"
"""Models of this kind search as they see fit, and each search is charged on top of the tokens."""
_SAMPLE_TOKENS = 1000
"""Few enough for the first tier of prices that grow with the length of the prompt."""


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

    def dollars_per_million(usage: Usage) -> float:
        price = calc_price(usage, model_ref=name, provider_id=_PROVIDERS[provider])
        return float(price.total_price) * 1_000_000 / _SAMPLE_TOKENS

    try:
        return Price(
            input_usd=dollars_per_million(Usage(input_tokens=_SAMPLE_TOKENS)),
            output_usd=dollars_per_million(Usage(output_tokens=_SAMPLE_TOKENS)),
            cached_usd=dollars_per_million(Usage(input_tokens=_SAMPLE_TOKENS, cache_read_tokens=_SAMPLE_TOKENS)),
        )
    except LookupError:
        return None
