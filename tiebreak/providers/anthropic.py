"""Anthropic."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tiebreak.core.batch import Batches
from tiebreak.core.message import Reply
from tiebreak.core.model import Request
from tiebreak.core.protocols import Listener
from tiebreak.providers.batches_anthropic import AnthropicBatches
from tiebreak.providers.http import HttpProvider
from tiebreak.wire import messages

_LONGEST_ANSWERS = (
    (r"claude-(opus|sonnet)-4-[6-9]", 128_000),
    (r"claude-(opus|sonnet|haiku)-4-5", 64_000),
    (r"claude-opus-4", 32_000),
    (r"claude-sonnet-4", 64_000),
    (r"claude-3-7", 64_000),
    (r"claude-3-5", 8_192),
    (r"claude-(3|2|instant)", 4_096),
    (r"claude", 64_000),
)
"""Most tokens of an answer, as Anthropic's overview of its models lists them. The first that fits."""

_TEXT_ONLY = re.compile(r"claude-(2|instant)")
_WITHOUT_SCHEMA = re.compile(r"claude-(2|3|instant|(opus|sonnet)-4-(0|2025))")


class Anthropic(HttpProvider):
    """Models behind Anthropic's messages API."""

    name: ClassVar[str] = "anthropic"
    key_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY",)
    url_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_BASE_URL",)
    unsupported: ClassVar[frozenset[str]] = messages.UNSUPPORTED
    verbatim: ClassVar[frozenset[str]] = frozenset({messages.FORMAT})
    default_url: ClassVar[str] = "https://api.anthropic.com"
    takes_batches: ClassVar[bool] = True

    @classmethod
    def required_settings(cls, name: str) -> Mapping[str, Any]:
        """The format wants a limit on every answer: the model's own, so that it is stopped no sooner than others are."""
        known = (tokens for pattern, tokens in _LONGEST_ANSWERS if re.match(pattern, name))
        return {"max_tokens": next(known, messages.DEFAULT_MAX_TOKENS)}

    @classmethod
    def lacks(cls, name: str) -> frozenset[str]:
        """What older models cannot take: structured output came after the first of the fourth generation."""
        text_only = {"image", "file", "tools"} if _TEXT_ONLY.match(name) else set()
        return frozenset(text_only | ({"schema"} if _WITHOUT_SCHEMA.match(name) else set()))

    def headers(self) -> dict[str, str]:
        """The key and the version of the format we speak."""
        return {"x-api-key": self._endpoint.api_key, "anthropic-version": "2023-06-01"}

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask for one message."""
        return await self.ask("/v1/messages", messages, request, listener)

    def batches(self) -> Batches:
        """Batches of messages."""
        return AnthropicBatches(self.account())

    async def list_models(self) -> Sequence[str]:
        """Names of the models the account may use."""
        return await self.model_ids("/v1/models?limit=1000")
