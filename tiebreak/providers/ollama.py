"""Ollama, through its own API: the compatible one ignores the context size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import Reply
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Endpoint, Listener
from tiebreak.providers.http import HttpProvider
from tiebreak.wire import ollama

_BRIM = 0.98
_LETTERS_PER_TOKEN_AT_MOST = 8
_LETTERS_PER_TOKEN_AT_LEAST = 3


class Ollama(HttpProvider):
    """Models of an Ollama server, by default the one on this machine."""

    name: ClassVar[str] = "ollama"
    url_variables: ClassVar[tuple[str, ...]] = ("OLLAMA_HOST", "OLLAMA_BASE_URL")
    local: ClassVar[bool] = True
    unsupported: ClassVar[frozenset[str]] = ollama.UNSUPPORTED
    default_url: ClassVar[str] = "http://127.0.0.1:11434"

    def __init__(self, endpoint: Endpoint) -> None:
        # OLLAMA_HOST is also what the server listens on: "all interfaces" is no address to call.
        super().__init__(replace(endpoint, base_url=endpoint.base_url.replace("0.0.0.0", "127.0.0.1")))  # noqa: S104

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask for one answer."""
        reply = await self.ask("/api/chat", ollama, request, listener)
        refuse_truncated(request, reply, request.settings.get("num_ctx", ollama.DEFAULT_CONTEXT_TOKENS))
        return reply

    async def open(self, model: ModelRef) -> None:
        """Have the weights loaded, with the context the questions will have, so that no answer pays for it."""
        await super().open(model)
        await self.post("/api/chat", ollama.encode(Request(model=model.name, messages=(), settings=model.settings)))

    async def list_models(self) -> Sequence[str]:
        """Names of the installed models that can chat."""
        return tuple(await self.weights())

    async def weights(self) -> Mapping[str, str]:
        """The installed models that can chat, each with the digest of its weights: a tag may move to others."""
        return ollama.decode_tags(await self.get("/api/tags"))


def refuse_truncated(request: Request, reply: Reply, context_tokens: int) -> None:
    """Ollama cuts a prompt that is too long and answers what is left, behind a good status: that is no answer.

    A prompt that fills the context to the brim was cut (or has no room for an answer); so was one of which fewer
    tokens were read than its letters can make, where it may not have fitted.
    """
    read = reply.usage.input_tokens if reply.usage else 0
    letters = sum(len(message.text) for message in request.messages)
    filled = read >= context_tokens * _BRIM
    shortened = 0 < read < letters / _LETTERS_PER_TOKEN_AT_MOST and letters / _LETTERS_PER_TOKEN_AT_LEAST > context_tokens
    if filled or shortened:
        raise ProviderError(
            f"the prompt was cut to {read} tokens by a context of {context_tokens}; give it more with @num_ctx=N",
            kind=FailureKind.CONTEXT_LENGTH,
        )
