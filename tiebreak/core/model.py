"""A model as the user named it, and one call to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tiebreak.core.digest import digest_of
from tiebreak.core.message import Message, Tool
from tiebreak.core.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs, in dollars per million tokens."""

    input_usd: float
    output_usd: float
    cached_usd: float | None = None
    """Read from the provider's cache; None: as other input."""
    cache_write_usd: float | None = None
    """Written to the provider's cache for some minutes; None: as other input."""
    long_cache_write_usd: float | None = None
    """Written to it for an hour; None: as for some minutes."""
    longer: tuple[tuple[int, Price], ...] = ()
    """Prices of longer requests: with more input tokens than the number, everything costs the price beside it."""

    def at(self, input_tokens: int) -> Price:
        """The price of a request of this length."""
        fitting = [price for tokens, price in self.longer if input_tokens > tokens]
        return fitting[-1] if fitting else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an account may send to a model in a minute; None where nothing is declared."""

    rpm: int | None = None
    tpm: int | None = None


_HOUSES = {"openai-responses": "openai"}
"""Providers that are another door to the house of another: the same models, prices and interests."""


_MAKER_IN_NAME = frozenset({"openrouter", "together"})
"""Providers of other houses' models, named `maker/model`."""
_MAKER_UNKNOWN = frozenset({"groq", "fireworks", "vllm", "lmstudio", "llamacpp-server"})
"""Providers of other houses' models, whose names do not say whose."""


def house_of(provider: str) -> str:
    """The provider whose models these are, by whichever door one goes in."""
    return _HOUSES.get(provider, provider)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """A model to benchmark: who serves it, under which name, with which settings."""

    provider: str
    name: str
    """The name the provider's API knows."""
    label: str
    """The name the user typed."""
    family: str = ""
    """The same without its variant: models that differ in settings alone share it."""
    variant: Mapping[str, Any] = field(default_factory=dict)
    """The settings that were typed behind the name, and so tell it from others of its family."""
    display_name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the user set."""
    required: Mapping[str, Any] = field(default_factory=dict)
    """What the provider demands besides: sent where the user set nothing."""
    base_url: str = ""
    key_variable: str = ""
    """The environment variable that holds the key. The key itself is never kept."""
    context_window: int | None = None
    price: Price | None = None
    limits: Limits = Limits()
    categories: tuple[str, ...] = ()
    local: bool = False
    """Runs on this machine: one request at a time unless asked, and costs nothing to call."""
    reference: bool = False
    """A baseline or control: shown as a line to compare with, never ranked."""
    verified: bool = True
    """False when the name is not one we know; the provider may still have it."""
    weights_digest: str = ""

    @property
    def sent(self) -> Mapping[str, Any]:
        """The settings its requests have: what the provider demands, and before that what the user set."""
        return {**self.required, **self.settings} if self.required else self.settings

    @property
    def house(self) -> str:
        """Whose model it is: of a server with models of many, the maker its name begins with, or else nobody's but its own."""
        if self.provider in _MAKER_UNKNOWN:
            return self.spelled_out
        return self.name.partition("/")[0] if self.provider in _MAKER_IN_NAME else house_of(self.provider)

    @property
    def spelled_out(self) -> str:
        """The unambiguous way to name this model on the command line."""
        return f"{self.provider}/{self.name}"

    @property
    def digest(self) -> str:
        """Identity of everything about the model that affects its answers."""
        return digest_of(
            {
                "provider": self.provider,
                "name": self.name,
                "settings": dict(self.sent),
                "base_url": self.base_url,
                "weights": self.weights_digest,
            }
        )


class Verbatim(Record, frozen=True, kw_only=True):
    """A request in the words of the program that made it, for a provider that understands them."""

    dialect: str
    """The wire format it is written in."""
    body: bytes
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Those that change what the body means, such as the name of a beta."""
    query: str = ""
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """What the user set: put in the place of what the program asks for."""
    whole: bool = True
    """Nothing was left out of the body."""


class Request(Record, frozen=True, kw_only=True):
    """One call to a model, in our words; the wire formats spell it for each provider."""

    model: str
    messages: tuple[Message, ...]
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """temperature, top_p, top_k, min_p, max_tokens, stop, seed, frequency_penalty, presence_penalty,
    reasoning_effort (a word, or a number of tokens); only what was asked for."""
    tools: tuple[Tool, ...] = ()
    tool_choice: str = ""
    """auto, none, required, or the name of the tool to call; empty: as the provider thinks fit."""
    schema: Mapping[str, Any] | None = None
    """JSON schema the answer must follow; empty: any JSON."""
    logprobs: int | None = None
    """How many likely tokens to report at each place, with their log-probabilities; 0: the chosen token alone."""
    stream: bool = False
    options: tuple[str, ...] = ()
    """Labels a right answer must be one of. Only baselines read them; no model is sent them."""
    repeat: int = 0
    """The repeat number, from 0."""
    nonce: str = ""
    """The trial's identity, so that a random baseline is random and yet repeatable."""
    verbatim: Verbatim | None = None
    """Sent instead of everything above by a provider of the same dialect: nothing is lost in translation."""
