"""Google's Gemini API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import quote

import msgspec

from benchmark.core.message import Reply
from benchmark.core.model import Request
from benchmark.core.protocols import Listener
from benchmark.providers.http import HttpProvider
from benchmark.wire import gemini
from benchmark.wire.faults import malformed


class Google(HttpProvider):
    """Gemini models by API key."""

    name: ClassVar[str] = "google"
    key_variables: ClassVar[tuple[str, ...]] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    url_variables: ClassVar[tuple[str, ...]] = ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_BASE_URL")
    local: ClassVar[bool] = False
    reference: ClassVar[bool] = False
    unsupported: ClassVar[frozenset[str]] = gemini.UNSUPPORTED
    """Settings and abilities its requests have no word for."""
    default_url: ClassVar[str] = "https://generativelanguage.googleapis.com"

    def headers(self) -> dict[str, str]:
        """The key, in a header: addresses end up in logs."""
        return {"x-goog-api-key": self._endpoint.api_key}

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask for one answer."""
        action = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
        path = f"/v1beta/models/{quote(request.model, safe='')}:{action}"
        if request.verbatim is not None and request.verbatim.dialect == "gemini":
            return await self.pass_on(path, gemini, request, listener)
        return await self.ask(path, gemini.encode(request), gemini, request, listener)

    @classmethod
    def dialects(cls, base_url: str) -> frozenset[str]:
        """What is taken as it is."""
        return frozenset({"gemini"})

    async def list_models(self) -> Sequence[str]:
        """Names of the models that can generate text."""
        data = await self.get("/v1beta/models?pageSize=1000")
        try:
            found = msgspec.json.decode(data)["models"]
            able = [m for m in found if "generateContent" in m.get("supportedGenerationMethods", ["generateContent"])]
            return [model["name"].removeprefix("models/") for model in able]
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
            raise malformed("is not a list of models", data) from None
