"""Servers of chat completions that are reached by name: hosted ones, and those people run themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tiebreak.core.message import Reply
from tiebreak.core.model import Request
from tiebreak.core.protocols import Listener
from tiebreak.providers.openai import Compatible
from tiebreak.wire import chat, openrouter


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What its documentation says of one server."""

    url: str
    """The base address of its chat completions."""
    source: str
    """The page that says so."""
    local: bool = False
    extensions: frozenset[str] = frozenset()
    """Settings that OpenAI does not know and this server does."""
    spelling: Mapping[str, str] = field(default_factory=dict)
    """Settings that this server calls by another name."""
    batches: bool = False
    """Whether it takes batches as OpenAI does."""
    refuses: frozenset[str] = frozenset()
    """Fields that OpenAI knows and this server answers with an error."""


_SAMPLING = frozenset({"top_k", "min_p", "repeat_penalty"})
_REPETITION = {"repeat_penalty": "repetition_penalty"}

SERVERS: Mapping[str, Server] = {
    "openrouter": Server(
        url="https://openrouter.ai/api/v1",
        source="https://openrouter.ai/docs/quickstart",
        extensions=_SAMPLING,
        spelling=_REPETITION,
    ),
    "groq": Server(url="https://api.groq.com/openai/v1", source="https://console.groq.com/docs/openai", batches=True),
    "mistral": Server(
        url="https://api.mistral.ai/v1",
        source="https://docs.mistral.ai/api",
        spelling={"seed": "random_seed"},
        refuses=frozenset({"stream_options"}),
    ),
    "deepseek": Server(url="https://api.deepseek.com", source="https://api-docs.deepseek.com"),
    "xai": Server(url="https://api.x.ai/v1", source="https://docs.x.ai/docs/api-reference"),
    "together": Server(
        url="https://api.together.ai/v1",
        source="https://docs.together.ai/docs/inference/openai-compatibility",
        batches=True,
        extensions=_SAMPLING,
        spelling=_REPETITION,
    ),
    "fireworks": Server(
        url="https://api.fireworks.ai/inference/v1",
        source="https://docs.fireworks.ai/tools-sdks/openai-compatibility",
        extensions=_SAMPLING,
        spelling=_REPETITION,
    ),
    "vllm": Server(
        url="http://127.0.0.1:8000/v1",
        source="https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
        local=True,
        extensions=_SAMPLING,
        spelling=_REPETITION,
    ),
    "lmstudio": Server(
        url="http://127.0.0.1:1234/v1",
        source="https://lmstudio.ai/docs/developer/openai-compat",
        local=True,
        extensions=frozenset({"top_k", "repeat_penalty"}),
    ),
    "llamacpp-server": Server(
        url="http://127.0.0.1:8080/v1",
        source="https://github.com/ggml-org/llama.cpp/tree/master/tools/server",
        local=True,
        extensions=_SAMPLING,
    ),
}
"""The servers by the name people type. `<NAME>_API_KEY` holds the key, `<NAME>_BASE_URL` another address."""


class NamedServer(Compatible):
    """A server of the table; a subclass is one by its name."""

    server: ClassVar[Server]

    def __init_subclass__(cls) -> None:
        server, prefix = SERVERS[cls.name], cls.name.upper().replace("-", "_")
        cls.server = server
        cls.default_url = server.url
        cls.local = server.local
        cls.takes_batches = server.batches
        cls.unsupported = chat.UNSUPPORTED - server.extensions
        cls.key_variables = (f"{prefix}_API_KEY",)
        cls.url_variables = (f"{prefix}_BASE_URL",)

    def adapt_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body in this server's own words."""
        spelling, refuses = self.server.spelling, self.server.refuses
        return {spelling.get(name, name): value for name, value in body.items() if name not in refuses}


class OpenRouter(NamedServer):
    """Models of many makers behind one key: openrouter/<maker>/<model>. It says what each answer cost."""

    name: ClassVar[str] = "openrouter"

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask for one chat completion, with its cost."""
        return await self.ask(self.chat_path, openrouter, request, listener)


class Groq(NamedServer):
    """Open models on Groq's own chips."""

    name: ClassVar[str] = "groq"


class Mistral(NamedServer):
    """Mistral's models."""

    name: ClassVar[str] = "mistral"


class DeepSeek(NamedServer):
    """DeepSeek's models."""

    name: ClassVar[str] = "deepseek"


class XAI(NamedServer):
    """xAI's models."""

    name: ClassVar[str] = "xai"


class Together(NamedServer):
    """Open models served by Together: together/<maker>/<model>."""

    name: ClassVar[str] = "together"


class Fireworks(NamedServer):
    """Open models served by Fireworks: fireworks/accounts/fireworks/models/<model>."""

    name: ClassVar[str] = "fireworks"


class VLLM(NamedServer):
    """Models of a vLLM server, by default the one on this machine."""

    name: ClassVar[str] = "vllm"


class LMStudio(NamedServer):
    """Models of LM Studio's server, by default the one on this machine."""

    name: ClassVar[str] = "lmstudio"


class LlamaServer(NamedServer):
    """The model of llama.cpp's llama-server, by default the one on this machine."""

    name: ClassVar[str] = "llamacpp-server"
