"""Ollama's native chat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tiebreak.core.message import (
    Finish,
    ImagePart,
    Message,
    Reply,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingPart,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from tiebreak.core.model import Request
from tiebreak.wire import sse
from tiebreak.wire.errors import malformed_answer, reported_error
from tiebreak.wire.openai_common import Logprob, decode_logprobs, function
from tiebreak.wire.reading import StreamReader, build_reply, parse, usage_of
from tiebreak.wire.writing import arguments_of, raw_arguments, tool_names

DEFAULT_CONTEXT_TOKENS = 8192
"""Sent as num_ctx: left to itself Ollama cuts a longer prompt silently, at a size that depends on the machine."""
UNSUPPORTED = frozenset({"tool_choice", "image_url", "file", "audio"})
"""What this format has no word for."""

FORMAT = "ollama"
_OUR_ID = "unnamed-call-"
"""Begins the ids we give to calls that came without one; they do not go back."""
_SAME_NAME = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "stop", "num_ctx"),
    *("repeat_penalty", "frequency_penalty", "presence_penalty"),
)
_OPTIONS = {name: name for name in _SAME_NAME} | {"max_tokens": "num_predict"}
_NANOSECONDS = 1e-9


class _Function(msgspec.Struct, gc=False):
    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _Call(msgspec.Struct, gc=False):
    function: _Function
    id: str = ""


class _Message(msgspec.Struct, gc=False):
    content: str = ""
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Reply(msgspec.Struct, gc=False):
    message: _Message
    done: bool
    done_reason: str = "stop"
    model: str = ""
    total_duration: int = 0
    load_duration: int = 0
    prompt_eval_count: int = 0
    prompt_eval_cached_count: int = 0
    eval_count: int = 0
    logprobs: list[Logprob] | None = None
    error: Any = None


class _Tag(msgspec.Struct):
    name: str
    digest: str = ""
    capabilities: list[str] | None = None


class _Tags(msgspec.Struct):
    models: list[_Tag] = []


_DECODER = msgspec.json.Decoder(_Reply)
_TAGS_DECODER = msgspec.json.Decoder(_Tags)

# --- a request -------------------------------------------------------------------------------------


def encode(request: Request) -> dict[str, Any]:
    """The body of a request."""
    settings = request.settings
    options: dict[str, Any] = {"num_ctx": DEFAULT_CONTEXT_TOKENS}
    options |= {theirs: settings[ours] for ours, theirs in _OPTIONS.items() if ours in settings}
    names = tool_names(request.messages)
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [_message(message, names) for message in request.messages],
        "stream": request.stream,
        "options": options,
    }
    if "reasoning_effort" in settings:
        effort = settings["reasoning_effort"]
        body["think"] = False if effort == "none" else effort
    if request.tools:
        body["tools"] = [{"type": "function", "function": function(tool)} for tool in request.tools]
    if request.schema is not None:
        body["format"] = dict(request.schema) or "json"
    if request.logprobs is not None:
        body["logprobs"] = True
        if request.logprobs:
            body["top_logprobs"] = request.logprobs
    return body


def _message(message: Message, names: Mapping[str, str]) -> dict[str, Any]:
    body: dict[str, Any] = {"role": message.role, "content": message.text}
    images = [part.data_base64 for part in message.parts if isinstance(part, ImagePart)]
    if images:
        body["images"] = images
    thinking = "".join(p.text for p in message.parts if isinstance(p, ThinkingPart) and p.format == FORMAT)
    if thinking:
        body["thinking"] = thinking
    if message.tool_calls:
        body["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    if message.role == "tool":
        call_id = message.tool_call_id
        body["tool_name"] = names.get(call_id, call_id)
        if not call_id.startswith(_OUR_ID):
            body["tool_call_id"] = call_id
    return body


def _tool_call(call: ToolCall) -> dict[str, Any]:
    named = {} if call.id.startswith(_OUR_ID) else {"id": call.id}
    return named | {"function": {"name": call.name, "arguments": arguments_of(call)}}


# --- a reply ---------------------------------------------------------------------------------------


def decode(data: bytes) -> Reply:
    """The reply in a response's body."""
    reply = parse(_DECODER, data, "a chat reply")
    if not reply.done:
        raise malformed_answer("ends before it is done", data)
    usage, seconds = _usage(reply), _seconds(reply)
    return build_reply(_events(reply), finish=_finish(reply), usage=usage, model=reply.model, model_seconds=seconds)


def _events(reply: _Reply, *, calls: int = 0) -> Iterator[StreamEvent]:
    """What a reply, or a line of one, says; calls that came before it in the stream are counted on."""
    message = reply.message
    if message.thinking:
        yield ThinkingDelta(message.thinking)
    if message.content or reply.logprobs:
        yield TextDelta(message.content, decode_logprobs(reply.logprobs))
    for index, call in enumerate(message.tool_calls or (), calls):
        arguments = raw_arguments(call.function.arguments)
        yield ToolCallDelta(index=index, id=call.id or f"{_OUR_ID}{index}", name=call.function.name, arguments=arguments)


def _finish(reply: _Reply) -> Finish:
    return Finish.LENGTH if reply.done_reason == "length" else Finish.STOP


def _usage(reply: _Reply) -> Usage | None:
    sent = reply.prompt_eval_count or 0
    # Nobody pays for either: a count that cannot be is no reason to lose the others.
    cached = min(sent, reply.prompt_eval_cached_count or 0)
    return usage_of(input_tokens=sent, cached_tokens=cached, output_tokens=reply.eval_count)


def _seconds(reply: _Reply) -> float | None:
    seconds = (reply.total_duration - reply.load_duration) * _NANOSECONDS
    return seconds if seconds > 0 else None


# --- a stream --------------------------------------------------------------------------------------


class Reader(StreamReader):
    """Reads a streamed reply: one JSON object a line, of which only the last says that the answer is whole."""

    splitter = sse.Lines

    def _events(self, payload: bytes) -> Iterator[StreamEvent]:
        if not payload or payload.isspace():
            return
        line = parse(_DECODER, payload, "a line of a chat reply")
        if line.error is not None:
            raise reported_error({"error": line.error})
        if line.model:
            self._builder.model = line.model
        yield from _events(line, calls=self._builder.call_count)
        if line.done:
            self._builder.model_seconds = _seconds(line)
            self._finish, self._usage = _finish(line), _usage(line)
            yield from self._end()


# --- the models ------------------------------------------------------------------------------------


def decode_tags(data: bytes) -> dict[str, str]:
    """The installed models that can chat here, with the digests of their weights: no embedding models, nothing in the cloud."""
    tags = parse(_TAGS_DECODER, data, "a list of models")
    return {tag.name: tag.digest for tag in tags.models if _can_chat(tag)}


def _can_chat(tag: _Tag) -> bool:
    if tag.name.endswith((":cloud", "-cloud")):
        return False
    if tag.capabilities is not None:
        return "completion" in tag.capabilities
    return "embed" not in tag.name
