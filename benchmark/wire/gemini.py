"""Gemini generateContent."""

from __future__ import annotations

from typing import Any

import msgspec

from benchmark.core.message import Finish, Reply, Usage
from benchmark.core.model import Request
from benchmark.wire.faults import malformed

_SETTINGS = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "seed": "seed",
}
_FINISH = {
    "STOP": Finish.STOP,
    "MAX_TOKENS": Finish.LENGTH,
    "SAFETY": Finish.FILTERED,
    "RECITATION": Finish.FILTERED,
    "BLOCKLIST": Finish.FILTERED,
    "PROHIBITED_CONTENT": Finish.FILTERED,
    "SPII": Finish.FILTERED,
}


class _Part(msgspec.Struct):
    text: str = ""
    thought: bool = False


class _Content(msgspec.Struct):
    parts: list[_Part] = []


class _Candidate(msgspec.Struct):
    content: _Content | None = None
    finish_reason: str | None = msgspec.field(default=None, name="finishReason")


class _Feedback(msgspec.Struct):
    block_reason: str | None = msgspec.field(default=None, name="blockReason")


class _Usage(msgspec.Struct, rename="camel"):
    prompt_token_count: int = 0
    candidates_token_count: int = 0
    thoughts_token_count: int = 0
    cached_content_token_count: int = 0


class _Reply(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] = []
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    model_version: str = ""


_DECODER = msgspec.json.Decoder(_Reply)


def encode(request: Request) -> dict[str, Any]:
    """The body of a request; the model's name goes into the address."""
    body: dict[str, Any] = {
        "contents": [
            {"role": "model" if m.role == "assistant" else "user", "parts": [{"text": m.text}]}
            for m in request.messages
            if m.role != "system"
        ]
    }
    instructions = "\n\n".join(m.text for m in request.messages if m.role == "system")
    if instructions:
        body["systemInstruction"] = {"parts": [{"text": instructions}]}
    settings = request.settings
    config = {theirs: settings[ours] for ours, theirs in _SETTINGS.items() if ours in settings}
    if "stop" in settings:
        stop = settings["stop"]
        config["stopSequences"] = [stop] if isinstance(stop, str) else list(stop)
    if config:
        body["generationConfig"] = config
    return body


def decode(data: bytes) -> Reply:
    """The reply in a response's body."""
    try:
        reply = _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise malformed(f"is not a generateContent reply ({error})", data) from None
    if not reply.candidates and reply.prompt_feedback is None:
        raise malformed("has neither candidates nor a reason for having none", data)
    usage = _usage(reply.usage_metadata)
    if not reply.candidates:
        return Reply(text="", finish=Finish.FILTERED, usage=usage, model=reply.model_version)
    candidate = reply.candidates[0]
    parts = candidate.content.parts if candidate.content else []
    return Reply(
        text="".join(part.text for part in parts if not part.thought),
        finish=_FINISH.get(candidate.finish_reason or "STOP", Finish.STOP),
        thinking="".join(part.text for part in parts if part.thought),
        usage=usage,
        model=reply.model_version,
    )


def _usage(usage: _Usage | None) -> Usage | None:
    if usage is None:
        return None
    return Usage(
        input_tokens=usage.prompt_token_count,
        cached_tokens=usage.cached_content_token_count,
        output_tokens=usage.candidates_token_count + usage.thoughts_token_count,
        reasoning_tokens=usage.thoughts_token_count,
    )
