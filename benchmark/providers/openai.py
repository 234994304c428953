"""OpenAI, and any server that speaks its chat completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from benchmark.core.message import Reply
from benchmark.core.model import Request
from benchmark.providers.http import HttpProvider
from benchmark.wire import chat
from benchmark.wire.faults import malformed


class OpenAI(HttpProvider):
    """Models behind OpenAI's API."""

    name: ClassVar[str] = "openai"
    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    url_variables: ClassVar[tuple[str, ...]] = ("OPENAI_BASE_URL",)
    local: ClassVar[bool] = False
    reference: ClassVar[bool] = False
    unsupported: ClassVar[frozenset[str]] = chat.UNSUPPORTED
    """Settings and abilities its requests have no word for."""
    default_url: ClassVar[str] = "https://api.openai.com/v1"

    def headers(self) -> dict[str, str]:
        """The key as a bearer token."""
        key = self._endpoint.api_key
        return {"Authorization": f"Bearer {key}"} if key else {}

    async def generate(self, request: Request) -> Reply:
        """Ask for one chat completion."""
        # Only OpenAI itself knows (and for its newer models insists on) the newer name.
        limit_name = "max_completion_tokens" if self.base_url == self.default_url else "max_tokens"
        body = chat.encode(request, limit_name=limit_name)
        return await self.ask("/chat/completions", body, chat, stream=request.stream)

    async def list_models(self) -> Sequence[str]:
        """Names of the models the server offers."""
        data = await self.get("/models")
        try:
            return [model["id"] for model in msgspec.json.decode(data)["data"]]
        except (msgspec.DecodeError, KeyError, TypeError):
            raise malformed("is not a list of models", data) from None


class Compatible(OpenAI):
    """Any other server that speaks chat completions, named by the user: openai-api/<server>/<model>."""

    name: ClassVar[str] = "openai-api"
    key_variables: ClassVar[tuple[str, ...]] = ()
    url_variables: ClassVar[tuple[str, ...]] = ()
    unsupported: ClassVar[frozenset[str]] = chat.UNSUPPORTED - chat.EXTENSIONS
    default_url: ClassVar[str] = ""
