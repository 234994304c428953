"""Anthropic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from benchmark.core.message import Reply
from benchmark.core.model import Request
from benchmark.core.protocols import Listener
from benchmark.providers.http import HttpProvider
from benchmark.wire import messages
from benchmark.wire.faults import malformed


class Anthropic(HttpProvider):
    """Models behind Anthropic's messages API."""

    name: ClassVar[str] = "anthropic"
    key_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY",)
    url_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_BASE_URL",)
    local: ClassVar[bool] = False
    reference: ClassVar[bool] = False
    unsupported: ClassVar[frozenset[str]] = messages.UNSUPPORTED
    """Settings and abilities its requests have no word for."""
    implied: ClassVar[Mapping[str, int]] = {"max_tokens": messages.DEFAULT_MAX_TOKENS}
    """Sent when the user gave none, because the format needs it."""
    default_url: ClassVar[str] = "https://api.anthropic.com"

    def headers(self) -> dict[str, str]:
        """The key and the version of the format we speak."""
        return {"x-api-key": self._endpoint.api_key, "anthropic-version": "2023-06-01"}

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask for one message."""
        if request.verbatim is not None and request.verbatim.dialect == "messages":
            return await self.pass_on("/v1/messages", messages, request, listener)
        return await self.ask("/v1/messages", messages.encode(request), messages, request, listener)

    @classmethod
    def dialects(cls, base_url: str) -> frozenset[str]:
        """What is taken as it is."""
        return frozenset({"messages"})

    async def list_models(self) -> Sequence[str]:
        """Names of the models the account may use."""
        data = await self.get("/v1/models?limit=1000")
        try:
            return [model["id"] for model in msgspec.json.decode(data)["data"]]
        except (msgspec.DecodeError, KeyError, TypeError):
            raise malformed("is not a list of models", data) from None
