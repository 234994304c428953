"""OpenAI, and any server that speaks its chat completions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from tiebreak.core.batch import Batches
from tiebreak.core.message import Reply
from tiebreak.core.model import Request
from tiebreak.core.protocols import Listener
from tiebreak.providers.batches_openai import CompatibleBatches, OpenAIBatches
from tiebreak.providers.http import HttpProvider
from tiebreak.wire import chat, responses

_UNSTREAMED = re.compile(r"o1-pro\b")
"""Models that refuse to be asked for a stream; who listens gets their answer whole."""
_TEXT_ONLY = re.compile(r"(ft:)?(gpt-3\.5|gpt-4($|-0|-32k|-1106)|o1-(mini|preview)|o3-mini|davinci|babbage)")
"""Older models that read nothing but text. A name that is missing here is sent what it gets, and the server decides."""
_WITHOUT_SCHEMA = re.compile(
    r"(ft:)?(gpt-3\.5|gpt-4($|-0|-32k|-1106|-turbo|-vision)|gpt-4o-2024-05-13|o1-(mini|preview)|davinci|babbage)"
)
_HEARS = re.compile(r"-audio\b")
"""Models that take sounds; all others of OpenAI's chat completions refuse them."""
_SEARCHES = "deep-research"
"""Models of this kind refuse to be asked without a source to search in."""


class OpenAI(HttpProvider):
    """Models behind OpenAI's API."""

    name: ClassVar[str] = "openai"
    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    url_variables: ClassVar[tuple[str, ...]] = ("OPENAI_BASE_URL",)
    unsupported: ClassVar[frozenset[str]] = chat.UNSUPPORTED
    verbatim: ClassVar[frozenset[str]] = frozenset({chat.FORMAT})
    default_url: ClassVar[str] = "https://api.openai.com/v1"
    chat_path: ClassVar[str] = "/chat/completions"
    takes_batches: ClassVar[bool] = True

    def headers(self) -> dict[str, str]:
        """The key as a bearer token."""
        key = self._endpoint.api_key
        return {"Authorization": f"Bearer {key}"} if key else {}

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask for one chat completion, or for what a client of the same dialect asks for."""
        if request.verbatim is not None and request.verbatim.dialect == responses.FORMAT:
            return await self.ask("/responses", responses, request, listener)
        return await self.ask(self.chat_path, chat, request, listener)

    def batches(self) -> Batches:
        """Batches of chat completions."""
        return OpenAIBatches(self.account(), endpoint="/v1/chat/completions", speaks=self)

    def body(self, request: Request) -> dict[str, Any]:
        """A request's body in a batch."""
        return self.adapt_body(chat.encode(request))

    def decode(self, data: bytes) -> Reply:
        """An answer's body in a batch."""
        return chat.decode(data)

    def adapt_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """Only OpenAI itself knows, and for its newer models insists on, the newer name of the length limit."""
        if self.base_url == self.default_url and "max_tokens" in body:
            body["max_completion_tokens"] = body.pop("max_tokens")
        return body

    @classmethod
    def dialects(cls, base_url: str) -> frozenset[str]:
        """What is taken as it is; of responses only OpenAI itself is sure to know."""
        is_openai = cls is OpenAI and base_url in ("", cls.default_url)
        return cls.verbatim | {responses.FORMAT} if is_openai else cls.verbatim

    @classmethod
    def lacks(cls, name: str) -> frozenset[str]:
        """What OpenAI's older models cannot take; of other servers' models nothing is known."""
        text_only = {"image", "file"} if _TEXT_ONLY.match(name) else set()
        deaf = set() if _HEARS.search(name) else {"audio"}
        return frozenset(text_only | deaf | ({"schema"} if _WITHOUT_SCHEMA.match(name) else set()))

    async def list_models(self) -> Sequence[str]:
        """Names of the models the server offers."""
        return await self.model_ids("/models")


class Responses(OpenAI):
    """Models behind OpenAI's responses: any that speaks them, and some that speak nothing else."""

    name: ClassVar[str] = "openai-responses"
    unsupported: ClassVar[frozenset[str]] = responses.UNSUPPORTED
    verbatim: ClassVar[frozenset[str]] = frozenset({responses.FORMAT})

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask for one response."""
        if request.stream and _UNSTREAMED.match(request.model):
            request = replace(request, stream=False, verbatim=None)
        body = self.body(request) if request.verbatim is None else None
        return await self.ask("/responses", responses, request, listener, body=body)

    def batches(self) -> Batches:
        """Batches of responses."""
        return OpenAIBatches(self.account(), endpoint="/v1/responses", speaks=self)

    def body(self, request: Request) -> dict[str, Any]:
        """A request's body; a model that searches is given something to search in."""
        body = responses.encode(request)
        if _SEARCHES in request.model:
            body["tools"] = [*body.get("tools", ()), {"type": "web_search_preview"}]
        return body

    def decode(self, data: bytes) -> Reply:
        """An answer's body."""
        return responses.decode(data)


class Compatible(OpenAI):
    """Any other server that speaks chat completions, named by the user: openai-api/<server>/<model>."""

    name: ClassVar[str] = "openai-api"
    key_variables: ClassVar[tuple[str, ...]] = ()
    url_variables: ClassVar[tuple[str, ...]] = ()
    unsupported: ClassVar[frozenset[str]] = chat.UNSUPPORTED - chat.EXTENSIONS
    default_url: ClassVar[str] = ""

    def batches(self) -> Batches:
        """Batches of chat completions, of the size that most servers take."""
        return CompatibleBatches(self.account(), endpoint="/v1/chat/completions", speaks=self)

    @classmethod
    def lacks(cls, name: str) -> frozenset[str]:
        """Of other houses' models nothing is known."""
        return frozenset()
