"""OpenAI chat completions, also spoken by most other servers."""

from __future__ import annotations

from typing import Any

import msgspec

from benchmark.core.message import Finish, Message, Reply, Usage
from benchmark.core.model import Request
from benchmark.wire.faults import malformed

_PLAIN_SETTINGS = ("temperature", "top_p", "seed", "stop", "reasoning_effort", "frequency_penalty", "presence_penalty")
_FINISH = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_calls": Finish.TOOL,
    "function_call": Finish.TOOL,
    "content_filter": Finish.FILTERED,
}


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Part(msgspec.Struct):
    text: str = ""


class _Message(msgspec.Struct):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None
    model: str = ""


_DECODER = msgspec.json.Decoder(_Reply)


def encode(request: Request, *, limit_name: str = "max_tokens") -> dict[str, Any]:
    """The body of a request. OpenAI itself wants the length limit under another name."""
    body: dict[str, Any] = {"model": request.model, "messages": [_message(m) for m in request.messages]}
    settings = request.settings
    for name in _PLAIN_SETTINGS:
        if name in settings:
            body[name] = settings[name]
    if "max_tokens" in settings:
        body[limit_name] = settings["max_tokens"]
    return body


def decode(data: bytes) -> Reply:
    """The reply in a response's body."""
    try:
        reply = _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise malformed(f"is not a chat completion ({error})", data) from None
    if not reply.choices:
        return Reply(text="", usage=_usage(reply.usage), model=reply.model)
    choice = reply.choices[0]
    message = choice.message
    return Reply(
        text=_text(message.content) or message.refusal or "",
        finish=Finish.REFUSED if message.refusal else _FINISH.get(choice.finish_reason or "stop", Finish.STOP),
        thinking=message.reasoning_content or message.reasoning or "",
        usage=_usage(reply.usage),
        model=reply.model,
    )


def _message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "content": message.text}


def _text(content: str | list[_Part] | None) -> str:
    if isinstance(content, list):
        return "".join(part.text for part in content)
    return content or ""


def _usage(usage: _Usage | None) -> Usage | None:
    if usage is None or usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    sent, made = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input_tokens=usage.prompt_tokens,
        cached_tokens=(sent.cached_tokens or 0) if sent else 0,
        output_tokens=usage.completion_tokens,
        reasoning_tokens=(made.reasoning_tokens or 0) if made else 0,
    )
