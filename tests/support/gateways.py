"""Whoever answers at a gateway in tests: a provider itself, without an engine between."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from tiebreak.core.errors import UsageError
from tiebreak.providers.anthropic import Anthropic
from tiebreak.providers.google import Google
from tiebreak.providers.ollama import Ollama
from tiebreak.providers.openai import OpenAI, Responses


class Asking:
    """Answers from a provider itself, and remembers what it was asked."""

    def __init__(self, provider, name, *, verbatim=True, **settings):
        self.provider = provider
        self.name = name
        self.verbatim = verbatim
        self.settings = settings
        self.asked = []
        self.replies = []
        self.probes = []
        self.given_up = 0

    def speaks(self, dialect):
        spoken = getattr(self.provider, "dialects", None)
        return self.verbatim and spoken is not None and dialect in spoken(self.provider.base_url)

    async def permit(self, request):
        if not request.options:
            raise UsageError("nobody is here to be asked for leave")
        return request.options[0].id

    def probed(self, what):
        self.probes.append(what)

    async def answer(self, request, listener):
        self.asked.append(request)
        verbatim = request.verbatim and replace(request.verbatim, settings=self.settings)
        request = replace(request, model=self.name, verbatim=verbatim)
        try:
            reply = await self.provider.generate(request, listener)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        self.replies.append(reply)
        return reply


PROVIDERS = {
    "openai": (OpenAI, "/v1"),
    "openai-responses": (Responses, "/v1"),
    "anthropic": (Anthropic, ""),
    "google": (Google, ""),
    "ollama": (Ollama, ""),
}
OWN = {"openai": "chat", "openai-responses": "responses", "anthropic": "messages", "google": "gemini", "ollama": "ollama"}
"""The dialect each speaks."""


def url_of(gateway):
    """Where a client finds it."""
    host, port = gateway.address
    return f"http://{host}:{port}"
