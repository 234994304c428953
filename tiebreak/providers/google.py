"""Google's Gemini API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import quote

import msgspec

from tiebreak.core.batch import Batches
from tiebreak.core.message import Reply
from tiebreak.core.model import Request
from tiebreak.core.protocols import Listener
from tiebreak.providers.batches_google import GoogleBatches
from tiebreak.providers.http import HttpProvider
from tiebreak.wire import gemini
from tiebreak.wire.reading import parse

_GENERATES = "generateContent"


class _Model(msgspec.Struct, rename="camel"):
    name: str
    supported_generation_methods: list[str] = msgspec.field(default_factory=lambda: [_GENERATES])


class _Models(msgspec.Struct):
    models: list[_Model]


_MODELS = msgspec.json.Decoder(_Models)


class Google(HttpProvider):
    """Gemini models by API key."""

    name: ClassVar[str] = "google"
    key_variables: ClassVar[tuple[str, ...]] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    url_variables: ClassVar[tuple[str, ...]] = ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_BASE_URL")
    unsupported: ClassVar[frozenset[str]] = gemini.UNSUPPORTED
    verbatim: ClassVar[frozenset[str]] = frozenset({gemini.FORMAT})
    default_url: ClassVar[str] = "https://generativelanguage.googleapis.com"
    takes_batches: ClassVar[bool] = True

    def headers(self) -> dict[str, str]:
        """The key, in a header: addresses end up in logs."""
        return {"x-goog-api-key": self._endpoint.api_key}

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask for one answer."""
        action = "streamGenerateContent?alt=sse" if request.stream else _GENERATES
        return await self.ask(f"/v1beta/models/{quote(request.model, safe='')}:{action}", gemini, request, listener)

    def batches(self) -> Batches:
        """Batches by files."""
        return GoogleBatches(self.account())

    async def list_models(self) -> Sequence[str]:
        """Names of the models that can generate text."""
        listed = parse(_MODELS, await self.get("/v1beta/models?pageSize=1000"), "a list of models").models
        return [model.name.removeprefix("models/") for model in listed if _GENERATES in model.supported_generation_methods]
