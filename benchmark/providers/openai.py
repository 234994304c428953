"""OpenAI, and any server that speaks its chat completions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from benchmark.core.message import Reply
from benchmark.core.model import Request
from benchmark.core.protocols import Listener
from benchmark.providers.http import HttpProvider, Wire
from benchmark.wire import chat, responses
from benchmark.wire.faults import malformed

_VERBATIM: dict[str, tuple[str, Wire]] = {"chat": ("/chat/completions", chat), "responses": ("/responses", responses)}
_UNSTREAMED = re.compile(r"o1-pro\b")
"""Models that refuse to be asked for a stream; who listens gets their answer whole."""
_SEARCHES = "deep-research"
"""Models of this kind refuse to be asked without a source to search in."""


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

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask for one chat completion, or for what a client of the same dialect asks for."""
        if request.verbatim is not None and request.verbatim.dialect in ("chat", "responses"):
            path, wire = _VERBATIM[request.verbatim.dialect]
            return await self.pass_on(path, wire, request, listener)
        # Only OpenAI itself knows (and for its newer models insists on) the newer name.
        limit_name = "max_completion_tokens" if self.base_url == self.default_url else "max_tokens"
        body = chat.encode(request, limit_name=limit_name)
        return await self.ask("/chat/completions", body, chat, request, listener)

    def spelled(self, body: dict[str, Any]) -> dict[str, Any]:
        """OpenAI itself wants the length limit under its newer name."""
        if self.base_url == self.default_url and "max_tokens" in body:
            body["max_completion_tokens"] = body.pop("max_tokens")
        return body

    @classmethod
    def dialects(cls, base_url: str) -> frozenset[str]:
        """What is taken as it is; of responses only OpenAI itself is sure to know."""
        return frozenset({"chat", "responses"} if base_url in ("", OpenAI.default_url) else {"chat"})

    async def list_models(self) -> Sequence[str]:
        """Names of the models the server offers."""
        data = await self.get("/models")
        try:
            return [model["id"] for model in msgspec.json.decode(data)["data"]]
        except (msgspec.DecodeError, KeyError, TypeError):
            raise malformed("is not a list of models", data) from None


class Responses(OpenAI):
    """Models behind OpenAI's responses: any that speaks them, and some that speak nothing else."""

    name: ClassVar[str] = "openai-responses"
    unsupported: ClassVar[frozenset[str]] = responses.UNSUPPORTED

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask for one response."""
        if request.stream and _UNSTREAMED.match(request.model):
            request = replace(request, stream=False, verbatim=None)
        if request.verbatim is not None and request.verbatim.dialect == "responses":
            return await self.pass_on("/responses", responses, request, listener)
        body = responses.encode(request)
        if _SEARCHES in request.model:
            body["tools"] = [*body.get("tools", ()), {"type": "web_search_preview"}]
        return await self.ask("/responses", body, responses, request, listener)

    @classmethod
    def dialects(cls, base_url: str) -> frozenset[str]:
        """What is taken as it is."""
        return frozenset({"responses"})


class Compatible(OpenAI):
    """Any other server that speaks chat completions, named by the user: openai-api/<server>/<model>."""

    name: ClassVar[str] = "openai-api"
    key_variables: ClassVar[tuple[str, ...]] = ()
    url_variables: ClassVar[tuple[str, ...]] = ()
    unsupported: ClassVar[frozenset[str]] = chat.UNSUPPORTED - chat.EXTENSIONS
    default_url: ClassVar[str] = ""

    @classmethod
    def dialects(cls, base_url: str) -> frozenset[str]:
        """What is taken as it is."""
        return frozenset({"chat"})
