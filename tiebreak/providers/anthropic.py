"""Anthropic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tiebreak.core.message import Reply
from tiebreak.core.model import Request
from tiebreak.core.protocols import Listener
from tiebreak.providers.http import HttpProvider
from tiebreak.wire import messages


class Anthropic(HttpProvider):
    """Models behind Anthropic's messages API."""

    name: ClassVar[str] = "anthropic"
    key_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY",)
    url_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_BASE_URL",)
    unsupported: ClassVar[frozenset[str]] = messages.UNSUPPORTED
    verbatim: ClassVar[frozenset[str]] = frozenset({messages.FORMAT})
    implied: ClassVar[Mapping[str, Any]] = {"max_tokens": messages.DEFAULT_MAX_TOKENS}
    """Sent when the user gave none, because the format needs it."""
    default_url: ClassVar[str] = "https://api.anthropic.com"

    def headers(self) -> dict[str, str]:
        """The key and the version of the format we speak."""
        return {"x-api-key": self._endpoint.api_key, "anthropic-version": "2023-06-01"}

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask for one message."""
        return await self.ask("/v1/messages", messages, request, listener)

    async def list_models(self) -> Sequence[str]:
        """Names of the models the account may use."""
        return await self.model_ids("/v1/models?limit=1000")
