"""Ollama's native chat."""

from __future__ import annotations

from typing import Any

import msgspec

from benchmark.core.message import Finish, Reply, Usage
from benchmark.core.model import Request
from benchmark.wire.faults import malformed

DEFAULT_CONTEXT_TOKENS = 8192
"""Sent as num_ctx: left to itself Ollama cuts a longer prompt silently, at a size that depends on the machine."""

_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "seed": "seed",
    "stop": "stop",
    "max_tokens": "num_predict",
    "num_ctx": "num_ctx",
    "repeat_penalty": "repeat_penalty",
}
_NANOSECONDS = 1e-9


class _Message(msgspec.Struct):
    content: str = ""
    thinking: str = ""


class _Reply(msgspec.Struct):
    message: _Message
    done: bool
    done_reason: str = "stop"
    model: str = ""
    total_duration: int = 0
    load_duration: int = 0
    prompt_eval_count: int = 0
    eval_count: int = 0


class _Tag(msgspec.Struct):
    name: str
    digest: str = ""
    capabilities: list[str] | None = None


class _Tags(msgspec.Struct):
    models: list[_Tag] = []


_DECODER = msgspec.json.Decoder(_Reply)


def encode(request: Request) -> dict[str, Any]:
    """The body of a request."""
    settings = request.settings
    options: dict[str, Any] = {"num_ctx": DEFAULT_CONTEXT_TOKENS}
    options |= {theirs: settings[ours] for ours, theirs in _OPTIONS.items() if ours in settings}
    return {
        "model": request.model,
        "messages": [{"role": m.role, "content": m.text} for m in request.messages],
        "stream": False,
        "options": options,
    }


def decode(data: bytes) -> Reply:
    """The reply in a response's body."""
    try:
        reply = _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise malformed(f"is not a chat reply ({error})", data) from None
    if not reply.done:
        raise malformed("ends before it is done", data)
    return Reply(
        text=reply.message.content,
        finish=Finish.LENGTH if reply.done_reason == "length" else Finish.STOP,
        thinking=reply.message.thinking,
        usage=Usage(input_tokens=reply.prompt_eval_count, output_tokens=reply.eval_count),
        model=reply.model,
        model_seconds=(reply.total_duration - reply.load_duration) * _NANOSECONDS or None,
    )


def decode_tags(data: bytes) -> list[str]:
    """Names of the installed models that can chat here: no embedding models, nothing in the cloud."""
    try:
        tags = msgspec.json.decode(data, type=_Tags)
    except (msgspec.DecodeError, RecursionError) as error:
        raise malformed(f"is not a list of models ({error})", data) from None
    return [tag.name for tag in tags.models if _can_chat(tag)]


def _can_chat(tag: _Tag) -> bool:
    if tag.name.endswith((":cloud", "-cloud")):
        return False
    if tag.capabilities is not None:
        return "completion" in tag.capabilities
    return "embed" not in tag.name
