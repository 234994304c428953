"""Ollama, through its own API: the compatible one ignores the context size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from benchmark.core.message import Reply
from benchmark.core.model import Request
from benchmark.core.protocols import Endpoint
from benchmark.providers.http import HttpProvider
from benchmark.wire import ollama


class Ollama(HttpProvider):
    """Models of an Ollama server, by default the one on this machine."""

    name: ClassVar[str] = "ollama"
    key_variables: ClassVar[tuple[str, ...]] = ()
    url_variables: ClassVar[tuple[str, ...]] = ("OLLAMA_HOST", "OLLAMA_BASE_URL")
    local: ClassVar[bool] = True
    reference: ClassVar[bool] = False
    unsupported: ClassVar[frozenset[str]] = ollama.UNSUPPORTED
    """Settings and abilities its requests have no word for."""
    default_url: ClassVar[str] = "http://127.0.0.1:11434"

    def __init__(self, endpoint: Endpoint) -> None:
        # OLLAMA_HOST is also what the server listens on: "all interfaces" is no address to call.
        super().__init__(replace(endpoint, base_url=endpoint.base_url.replace("0.0.0.0", "127.0.0.1")))  # noqa: S104

    async def generate(self, request: Request) -> Reply:
        """Ask for one answer."""
        return ollama.decode(await self.post("/api/chat", ollama.encode(request)))

    async def list_models(self) -> Sequence[str]:
        """Names of the installed models that can chat."""
        return ollama.decode_tags(await self.get("/api/tags"))
