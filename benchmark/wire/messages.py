"""Anthropic messages."""

from __future__ import annotations

from typing import Any

import msgspec

from benchmark.core.message import Finish, Reply, Usage
from benchmark.core.model import Request
from benchmark.wire.faults import malformed

DEFAULT_MAX_TOKENS = 4096
"""The format needs a limit; this one is sent, and shown, when the user gave none."""

_FINISH = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOL,
    "refusal": Finish.REFUSED,
}


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Reply(msgspec.Struct):
    content: list[_Block]
    stop_reason: str | None = None
    usage: _Usage | None = None
    model: str = ""


_DECODER = msgspec.json.Decoder(_Reply)


def encode(request: Request) -> dict[str, Any]:
    """The body of a request."""
    settings = request.settings
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": settings.get("max_tokens", DEFAULT_MAX_TOKENS),
        "messages": [{"role": m.role, "content": m.text} for m in request.messages if m.role != "system"],
    }
    instructions = "\n\n".join(m.text for m in request.messages if m.role == "system")
    if instructions:
        body["system"] = instructions
    for name in ("temperature", "top_p", "top_k"):
        if name in settings:
            body[name] = settings[name]
    if "stop" in settings:
        stop = settings["stop"]
        body["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
    return body


def decode(data: bytes) -> Reply:
    """The reply in a response's body."""
    try:
        reply = _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise malformed(f"is not a message ({error})", data) from None
    return Reply(
        text="".join(block.text for block in reply.content if block.type == "text"),
        finish=_FINISH.get(reply.stop_reason or "end_turn", Finish.STOP),
        thinking="".join(block.thinking for block in reply.content),
        usage=_usage(reply.usage),
        model=reply.model,
    )


def _usage(usage: _Usage | None) -> Usage | None:
    if usage is None:
        return None
    cached = usage.cache_read_input_tokens or 0
    # Anthropic counts cached tokens apart from input_tokens; we count everything sent.
    sent = usage.input_tokens + cached + (usage.cache_creation_input_tokens or 0)
    return Usage(input_tokens=sent, cached_tokens=cached, output_tokens=usage.output_tokens)
