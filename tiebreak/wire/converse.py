"""Amazon Bedrock's Converse format: one spelling for the models of every maker there. Answers come whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tiebreak.core.message import (
    FilePart,
    Finish,
    ImagePart,
    MediaPart,
    Message,
    Part,
    Reply,
    StreamEvent,
    TextDelta,
    TextPart,
    ThinkingDelta,
    ThinkingPart,
    ThinkingSeal,
    Tool,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from tiebreak.core.model import Request
from tiebreak.wire.reading import build_reply, parse, usage_of
from tiebreak.wire.writing import arguments_of, arguments_text, as_list, instructions, turns

FORMAT = "converse"
_NO_SETTINGS = {"seed", "frequency_penalty", "presence_penalty", "top_k", "min_p", "repeat_penalty", "num_ctx", "logprobs"}
UNSUPPORTED = frozenset(_NO_SETTINGS | {"audio", "schema"})
"""What this format has no word for."""

_SETTINGS = {"max_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP"}
_FINISH = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOL,
    "guardrail_intervened": Finish.FILTERED,
    "content_filtered": Finish.FILTERED,
}
_UNNAMED = "document"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9 \-()\[\]]+|\s{2,}")
"""A document's name may have letters, digits, single spaces, hyphens and brackets."""


# --- a request -------------------------------------------------------------------------------------


def encode(request: Request) -> dict[str, Any]:
    """The body of a request; the model stands in the address."""
    settings = request.settings
    body: dict[str, Any] = {"messages": [_turn(turn) for turn in turns(request.messages)]}
    if told := instructions(request.messages):
        body["system"] = [{"text": told}]
    limits: dict[str, Any] = {name: settings[own] for own, name in _SETTINGS.items() if own in settings}
    if "stop" in settings:
        limits["stopSequences"] = as_list(settings["stop"])
    if limits:
        body["inferenceConfig"] = limits
    if request.tools:
        body["toolConfig"] = {"tools": [{"toolSpec": _tool(tool)} for tool in request.tools], **_choice(request.tool_choice)}
    if (effort := settings.get("reasoning_effort")) is not None:
        body["additionalModelRequestFields"] = _thinking(effort)
    return body


def _choice(choice: str) -> dict[str, Any]:
    if not choice or choice == "none":
        return {}
    found: dict[str, dict[str, Any]] = {"auto": {"auto": {}}, "required": {"any": {}}}
    return {"toolChoice": found.get(choice, {"tool": {"name": choice}})}


def _thinking(effort: str | int) -> dict[str, Any]:
    """In the words of each maker's own format, which this one passes on: a number of tokens is Anthropic's."""
    if isinstance(effort, int):
        return {"thinking": {"type": "enabled", "budget_tokens": effort}}
    return {"reasoning_effort": effort}


def _turn(turn: Sequence[Message]) -> dict[str, Any]:
    if turn[0].role == "tool":
        return {"role": "user", "content": [_result(message) for message in turn]}
    blocks = [block for part in turn[0].parts for block in _block(part)]
    return {"role": turn[0].role, "content": blocks + [_tool_use(call) for call in turn[0].tool_calls]}


def _block(part: Part) -> list[dict[str, Any]]:
    """A part as a block, or as none: the server refuses empty text, and reasoning that it did not sign."""
    if isinstance(part, TextPart):
        return [{"text": part.text}] if part.text else []
    if isinstance(part, ImagePart):
        return [{"image": _source(part)}]
    if isinstance(part, FilePart):
        name = _NOT_IN_NAMES.sub(" ", part.name).strip() or _UNNAMED
        return [{"document": {"name": name, **_source(part)}}]
    if not isinstance(part, ThinkingPart) or part.format != FORMAT or not part.seal:
        return []
    if part.redacted:
        return [{"reasoningContent": {"redactedContent": part.seal}}]
    return [{"reasoningContent": {"reasoningText": {"text": part.text, "signature": part.seal}}}]


def _source(part: MediaPart) -> dict[str, Any]:
    return {"format": part.media_type.rpartition("/")[2], "source": {"bytes": part.data_base64}}


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": call.id, "name": call.name, "input": arguments_of(call)}}


def _result(message: Message) -> dict[str, Any]:
    blocks = [block for part in message.parts for block in _block(part)] or [{"text": "(nothing)"}]
    body = {"toolUseId": message.tool_call_id, "content": blocks}
    return {"toolResult": body | ({"status": "error"} if message.failed else {})}


def _tool(tool: Tool) -> dict[str, Any]:
    body: dict[str, Any] = {"name": tool.name, "inputSchema": {"json": dict(tool.parameters) or {"type": "object"}}}
    return body | ({"description": tool.description} if tool.description else {})


# --- a reply ---------------------------------------------------------------------------------------


class _ReasoningText(msgspec.Struct, gc=False):
    text: str = ""
    signature: str = ""


class _Reasoning(msgspec.Struct, rename="camel", gc=False):
    reasoning_text: _ReasoningText | None = None
    redacted_content: str = ""


class _ToolUse(msgspec.Struct, rename="camel", gc=False):
    tool_use_id: str
    name: str
    input: Any = None


class _Block(msgspec.Struct, rename="camel", gc=False):
    text: str = ""
    reasoning_content: _Reasoning | None = None
    tool_use: _ToolUse | None = None


class _Message(msgspec.Struct, gc=False):
    content: list[_Block]


class _Output(msgspec.Struct, gc=False):
    message: _Message


class _Usage(msgspec.Struct, rename="camel", gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None


class _Metrics(msgspec.Struct, rename="camel", gc=False):
    latency_ms: float | None = None


class _Reply(msgspec.Struct, rename="camel", gc=False):
    output: _Output
    stop_reason: str = ""
    usage: _Usage | None = None
    metrics: _Metrics | None = None


_DECODER = msgspec.json.Decoder(_Reply)


def decode(data: bytes) -> Reply:
    """A reply. Who answered is not said in it."""
    found = parse(_DECODER, data, "a reply of the Converse format")
    finish = _FINISH.get(found.stop_reason, Finish.STOP)
    return build_reply(_events(found.output.message.content), finish=finish, usage=_usage(found.usage), model="")


def _events(blocks: Sequence[_Block]) -> Iterator[StreamEvent]:
    calls = 0
    for block in blocks:
        if block.reasoning_content is not None:
            yield from _reasoning(block.reasoning_content)
        elif block.tool_use is not None:
            use = block.tool_use
            yield ToolCallDelta(index=calls, id=use.tool_use_id, name=use.name, arguments=arguments_text(use.input or {}))
            calls += 1
        elif block.text:
            yield TextDelta(block.text)


def _reasoning(found: _Reasoning) -> Iterator[StreamEvent]:
    if found.redacted_content:
        yield ThinkingSeal(seal=found.redacted_content, format=FORMAT, redacted=True)
    if found.reasoning_text is not None:
        yield ThinkingDelta(found.reasoning_text.text)
        if found.reasoning_text.signature:
            yield ThinkingSeal(seal=found.reasoning_text.signature, format=FORMAT)


def _usage(found: _Usage | None) -> Usage | None:
    """Tokens read from a cache or written to it are not among the input tokens here; with us they are."""
    if found is None:
        return None
    read, written = found.cache_read_input_tokens or 0, found.cache_write_input_tokens or 0
    return usage_of(
        input_tokens=(found.input_tokens or 0) + read + written,
        cached_tokens=read,
        cache_write_tokens=written,
        output_tokens=found.output_tokens,
    )
