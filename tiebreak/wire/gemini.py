"""Gemini generateContent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tiebreak.core.message import (
    Finish,
    ImagePart,
    MediaPart,
    Message,
    Part,
    Reply,
    StreamEnd,
    StreamEvent,
    TextDelta,
    TextPart,
    ThinkingDelta,
    ThinkingPart,
    ThinkingSeal,
    TokenLogprob,
    Tool,
    ToolCall,
    ToolCallDelta,
    Usage,
    system,
)
from tiebreak.core.model import Request
from tiebreak.wire import sse
from tiebreak.wire.errors import malformed_answer, reported_error
from tiebreak.wire.reading import StreamReader, bad_request, build_reply, parse, read_request, usage_of
from tiebreak.wire.writing import (
    ENCODER,
    StreamWriter,
    WholeCalls,
    arguments_of,
    arguments_text,
    as_list,
    encode_line,
    instructions,
    raw_arguments,
    reply_parts,
    text_parts,
    tool_names,
    turns,
)

UNSUPPORTED = frozenset({"min_p", "repeat_penalty", "num_ctx", "tool_image"})
"""What this format has no word for."""

FORMAT = "gemini"
_OUR_ID = "unnamed-call-"
"""Begins the ids we give to calls that came without one; they do not go back."""
_SETTINGS = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "seed": "seed",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}
_FILTERED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT")
_FINISH = {"STOP": Finish.STOP, "MAX_TOKENS": Finish.LENGTH} | dict.fromkeys(_FILTERED, Finish.FILTERED)
_FINISH_WORDS = {
    Finish.STOP: "STOP",
    Finish.TOOL: "STOP",
    Finish.LENGTH: "MAX_TOKENS",
    Finish.REFUSED: "SAFETY",
    Finish.FILTERED: "SAFETY",
}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


class _Call(msgspec.Struct, gc=False):
    name: str = ""
    id: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Part(msgspec.Struct, gc=False, rename="camel"):
    text: str = ""
    thought: bool = False
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(msgspec.Struct, gc=False):
    parts: list[_Part] | None = None


class _Likely(msgspec.Struct, gc=False, rename="camel"):
    token: str = ""
    log_probability: float = 0.0


class _Top(msgspec.Struct, gc=False):
    candidates: list[_Likely] = []


class _Logprobs(msgspec.Struct, gc=False, rename="camel"):
    chosen_candidates: list[_Likely] = []
    top_candidates: list[_Top] = []


class _Candidate(msgspec.Struct, gc=False, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    logprobs_result: _Logprobs | None = None


class _Feedback(msgspec.Struct, gc=False, rename="camel"):
    block_reason: str | None = None


class _Usage(msgspec.Struct, gc=False, rename="camel"):
    prompt_token_count: int = 0
    candidates_token_count: int = 0
    thoughts_token_count: int = 0
    cached_content_token_count: int = 0
    tool_use_prompt_token_count: int = 0


class _Reply(msgspec.Struct, gc=False, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    model_version: str = ""
    response_id: str = ""
    error: Any = None


_DECODER = msgspec.json.Decoder(_Reply)

# --- a request -------------------------------------------------------------------------------------


def encode(request: Request) -> dict[str, Any]:
    """The body of a request; the model's name, and whether to stream, go into the address."""
    names = tool_names(request.messages)
    body: dict[str, Any] = {"contents": [_turn(turn, names) for turn in turns(request.messages)]}
    if system_text := instructions(request.messages):
        body["systemInstruction"] = {"parts": [{"text": system_text}]}
    if config := _config(request):
        body["generationConfig"] = config
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_declaration(tool) for tool in request.tools]}]
    if choice := request.tool_choice:
        calling = {"mode": _MODES[choice]} if choice in _MODES else {"mode": "ANY", "allowedFunctionNames": [choice]}
        body["toolConfig"] = {"functionCallingConfig": calling}
    return body


def _config(request: Request) -> dict[str, Any]:
    settings = request.settings
    config = {theirs: settings[ours] for ours, theirs in _SETTINGS.items() if ours in settings}
    if "stop" in settings:
        config["stopSequences"] = as_list(settings["stop"])
    if "reasoning_effort" in settings:
        config["thinkingConfig"] = _thinking(settings["reasoning_effort"])
    if request.schema is not None:
        config["responseMimeType"] = "application/json"
        if request.schema:
            config["responseJsonSchema"] = dict(request.schema)
    if request.logprobs is not None:
        config["responseLogprobs"] = True
        if request.logprobs:
            config["logprobs"] = request.logprobs
    return config


def _thinking(effort: Any) -> dict[str, Any]:
    """A level for the newer models; a number of tokens, or none, for those that are given a budget."""
    if isinstance(effort, int):
        return {"thinkingBudget": effort}
    return {"thinkingBudget": 0} if effort == "none" else {"thinkingLevel": str(effort).upper()}


def _turn(turn: Sequence[Message], names: Mapping[str, str]) -> dict[str, Any]:
    message = turn[0]
    if message.role == "tool":
        return {"role": "user", "parts": [_result(result, names) for result in turn]}
    parts = [spelled for part in message.parts for spelled in _part(part)]
    parts += [_function_call(call) for call in message.tool_calls]
    return {"role": "model" if message.role == "assistant" else "user", "parts": parts or [{"text": ""}]}


def _part(part: Part) -> list[dict[str, Any]]:
    if isinstance(part, TextPart):
        return [{"text": part.text}]
    if isinstance(part, MediaPart):
        if isinstance(part, ImagePart) and part.url:
            return [{"fileData": {"fileUri": part.url} | ({"mimeType": part.media_type} if part.media_type else {})}]
        return [{"inlineData": {"mimeType": part.media_type, "data": part.data_base64}}]
    if part.format != FORMAT:
        return []
    body: dict[str, Any] = {"text": part.text} | ({"thought": True} if part.text else {})
    return [body | ({"thoughtSignature": part.seal} if part.seal else {})]


def _function_call(call: ToolCall) -> dict[str, Any]:
    body: dict[str, Any] = {"name": call.name, "args": arguments_of(call)}
    if not call.id.startswith(_OUR_ID):
        body["id"] = call.id
    return {"functionCall": body} | ({"thoughtSignature": call.seal} if call.seal else {})


def _result(message: Message, names: Mapping[str, str]) -> dict[str, Any]:
    """A result is an object here: the text under a name that says whether the tool did its work."""
    call_id = message.tool_call_id
    body: dict[str, Any] = {"name": names.get(call_id, call_id)}
    if not call_id.startswith(_OUR_ID):
        body["id"] = call_id
    body["response"] = {"error" if message.failed else "output": message.text}
    return {"functionResponse": body}


def _declaration(tool: Tool) -> dict[str, Any]:
    body: dict[str, Any] = {"name": tool.name, "description": tool.description}
    return body | ({"parametersJsonSchema": dict(tool.parameters)} if tool.parameters else {})


# --- a request, read -------------------------------------------------------------------------------


class _InBlob(msgspec.Struct, rename="camel"):
    mime_type: str = ""
    data: str = ""
    file_uri: str = ""


class _InCall(msgspec.Struct):
    name: str
    id: str | None = None
    args: dict[str, Any] | None = None


class _InResult(msgspec.Struct):
    name: str
    id: str | None = None
    response: Any = None


class _InPart(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    inline_data: _InBlob | None = None
    file_data: _InBlob | None = None
    function_call: _InCall | None = None
    function_response: _InResult | None = None


class _InContent(msgspec.Struct):
    parts: list[_InPart] = []
    role: str | None = None


class _InFunction(msgspec.Struct, rename="camel"):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    parameters_json_schema: dict[str, Any] | None = None


class _InTool(msgspec.Struct, rename="camel"):
    function_declarations: list[_InFunction] | None = None


class _InCalling(msgspec.Struct, rename="camel"):
    mode: str | None = None
    allowed_function_names: list[str] | None = None


class _InToolConfig(msgspec.Struct, rename="camel"):
    function_calling_config: _InCalling | None = None


class _InThinking(msgspec.Struct, rename="camel"):
    thinking_budget: int | None = None
    thinking_level: str | None = None


class _InConfig(msgspec.Struct, rename="camel"):
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop_sequences: list[str] | None = None
    thinking_config: _InThinking | None = None
    response_mime_type: str | None = None
    response_json_schema: dict[str, Any] | None = None
    response_schema: dict[str, Any] | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None


class _In(msgspec.Struct, rename="camel"):
    contents: list[_InContent]
    system_instruction: _InContent | None = None
    generation_config: _InConfig | None = None
    tools: list[_InTool] | None = None
    tool_config: _InToolConfig | None = None


_REQUEST_DECODER = msgspec.json.Decoder(_In)
_NOT_OURS = frozenset({"args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"})
"""Fields whose inner names belong to the user."""


def decode_request(body: bytes | Mapping[str, Any], *, model: str = "", stream: bool = False) -> Request:
    """The request in a client's body; the model and whether to stream stood in the address.

    Tools that only Google can run are left out.
    """
    incoming = read_request(_REQUEST_DECODER, body, tidied=_in_camel_case)
    config = incoming.generation_config or _InConfig()
    functions = [one for tool in incoming.tools or () for one in tool.function_declarations or ()]
    system_text = "".join(part.text or "" for part in incoming.system_instruction.parts) if incoming.system_instruction else ""
    return Request(
        model=model,
        messages=(*((system(system_text),) if system_text else ()), *_read_contents(incoming.contents)),
        settings=_read_settings(config),
        tools=tuple(map(_read_tool, functions)),
        tool_choice=_read_choice(incoming.tool_config),
        schema=_read_schema(config),
        logprobs=(config.logprobs or 0) if config.response_logprobs else None,
        stream=stream,
    )


def _in_camel_case(value: Any) -> Any:
    """Names in the one of Google's two spellings that we read; its own client mixes both in one request."""
    if isinstance(value, list):
        return [_in_camel_case(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    renamed = {}
    for name, inner in value.items():
        head, *tail = name.split("_") if isinstance(name, str) else (name,)
        camel = head + "".join(word.capitalize() for word in tail)
        renamed[camel] = inner if camel in _NOT_OURS else _in_camel_case(inner)
    return renamed


def _read_settings(config: _InConfig) -> dict[str, Any]:
    named = msgspec.structs.asdict(config) | {"max_tokens": config.max_output_tokens}
    settings = {ours: named[ours] for ours in _SETTINGS if named[ours] is not None}
    if config.top_k is not None and config.top_k.is_integer():
        settings["top_k"] = int(config.top_k)
    if config.stop_sequences:
        settings["stop"] = config.stop_sequences
    thinking = config.thinking_config
    if thinking is not None and thinking.thinking_level:
        settings["reasoning_effort"] = thinking.thinking_level.lower()
    elif thinking is not None and thinking.thinking_budget is not None:
        settings["reasoning_effort"] = thinking.thinking_budget or "none"
    return settings


def _read_contents(contents: list[_InContent]) -> Iterator[Message]:
    """The conversation; calls without an id are given one, and their results find it again by name."""
    waiting: dict[str, list[str]] = {}
    count = 0
    for content in contents:
        calls = []
        for part in content.parts:
            if part.function_call:
                name, given = part.function_call.name, part.function_call.args or {}
                call_id, seal = part.function_call.id or f"{_OUR_ID}{count}", part.thought_signature or ""
                waiting.setdefault(name, []).append(call_id)
                calls.append(ToolCall(id=call_id, name=name, arguments=arguments_text(given), seal=seal))
                count += 1
        results = [part.function_response for part in content.parts if part.function_response]
        yield from (_read_result(result, waiting) for result in results)
        parts = tuple(ours for part in content.parts for ours in _read_part(part))
        if parts or calls or not results:
            role: Any = "assistant" if content.role == "model" else "user"
            yield Message(role=role, parts=parts, tool_calls=tuple(calls))


def _read_result(result: _InResult, waiting: dict[str, list[str]]) -> Message:
    ids = waiting.get(result.name) or []
    call_id = result.id or (ids[0] if ids else result.name)
    if call_id in ids:
        ids.remove(call_id)
    said = result.response
    failed = isinstance(said, dict) and set(said) == {"error"}
    if isinstance(said, dict) and set(said) in ({"output"}, {"error"}, {"result"}):
        said = next(iter(said.values()))
    text = said if isinstance(said, str) else ENCODER.encode(said).decode()
    return Message(role="tool", parts=text_parts(text), tool_call_id=call_id, failed=failed)


def _read_part(part: _InPart) -> tuple[Part, ...]:
    if part.function_call or part.function_response:
        return ()
    blob = part.inline_data or part.file_data
    if blob:
        return (ImagePart(media_type=blob.mime_type, data_base64=blob.data, url=blob.file_uri),)
    if part.text is None:
        raise bad_request("a part is neither text, nor data, nor a call, nor the result of one")
    seal = part.thought_signature or ""
    if part.thought:
        return (ThinkingPart(text=part.text, seal=seal, format=FORMAT),)
    return (*text_parts(part.text), *((ThinkingPart(seal=seal, format=FORMAT),) if seal else ()))


def _read_tool(tool: _InFunction) -> Tool:
    parameters = tool.parameters_json_schema or _json_schema(tool.parameters or {})
    return Tool(name=tool.name, description=tool.description or "", parameters=parameters)


def _json_schema(schema: Any) -> Any:
    """Google's older spelling of a schema has its types in capitals."""
    if isinstance(schema, list):
        return [_json_schema(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    lowered = {name: _json_schema(inner) for name, inner in schema.items()}
    return lowered | ({"type": schema["type"].lower()} if isinstance(schema.get("type"), str) else {})


def _read_choice(config: _InToolConfig | None) -> str:
    calling = config.function_calling_config if config else None
    if calling is None or calling.mode is None:
        return ""
    if calling.mode == "ANY" and len(calling.allowed_function_names or ()) == 1:
        return (calling.allowed_function_names or [""])[0]
    return next((ours for ours, theirs in _MODES.items() if theirs == calling.mode), "auto")


def _read_schema(config: _InConfig) -> Mapping[str, Any] | None:
    if config.response_mime_type != "application/json":
        return None
    return config.response_json_schema or _json_schema(config.response_schema or {})


# --- a reply ---------------------------------------------------------------------------------------


def decode(data: bytes) -> Reply:
    """The reply in a response's body."""
    reply = parse(_DECODER, data, "a generateContent reply")
    if reply.error is not None:
        raise reported_error({"error": reply.error})
    if not reply.candidates and reply.prompt_feedback is None:
        raise malformed_answer("has neither candidates nor a reason for having none", data)
    usage = _usage(reply.usage_metadata)
    if not reply.candidates:
        return Reply(text="", finish=Finish.FILTERED, usage=usage, model=reply.model_version)
    candidate = reply.candidates[0]
    return build_reply(
        _events(candidate, reply.response_id),
        finish=_FINISH.get(candidate.finish_reason or "STOP", Finish.STOP),
        usage=usage,
        model=reply.model_version,
    )


def _events(candidate: _Candidate, reply_id: str, *, calls: int = 0) -> Iterator[StreamEvent]:
    """What a candidate says; calls that came before it in the stream are counted on."""
    for part in (candidate.content.parts if candidate.content else None) or ():
        seal = part.thought_signature or ""
        if part.function_call is not None:
            call = part.function_call
            call_id, arguments = call.id or f"{_OUR_ID}{reply_id}-{calls}", raw_arguments(call.args)
            yield ToolCallDelta(index=calls, id=call_id, name=call.name, arguments=arguments, seal=seal)
            calls += 1
            continue
        if part.text:
            yield ThinkingDelta(part.text) if part.thought else TextDelta(part.text)
        if seal:
            yield ThinkingSeal(seal=seal, format=FORMAT)
    if candidate.logprobs_result is not None:
        yield TextDelta("", _logprobs(candidate.logprobs_result))


def _logprobs(result: _Logprobs) -> tuple[TokenLogprob, ...]:
    tops = [tuple(TokenLogprob(t.token, t.log_probability) for t in top.candidates) for top in result.top_candidates]
    tops += [()] * (len(result.chosen_candidates) - len(tops))
    chosen = zip(result.chosen_candidates, tops, strict=False)
    return tuple(TokenLogprob(one.token, one.log_probability, top) for one, top in chosen)


def encode_reply(reply: Reply, *, reply_id: str = "") -> dict[str, Any]:
    """The body of a response."""
    parts = [spelled for part in reply_parts(reply, FORMAT) for spelled in _part(part)]
    parts += [_function_call(call) for call in reply.tool_calls]
    body: dict[str, Any] = {"candidates": [_candidate(parts, reply.finish, reply.logprobs)]}
    if reply.usage is not None:
        body["usageMetadata"] = _encode_usage(reply.usage)
    return body | {"modelVersion": reply.model, "responseId": reply_id}


def _candidate(parts: list[dict[str, Any]], finish: Finish | None, logprobs: tuple[TokenLogprob, ...] = ()) -> dict[str, Any]:
    body: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish is not None:
        body["finishReason"] = _FINISH_WORDS[finish]
    if logprobs:
        tops = [{"candidates": [_likely(other) for other in one.top]} for one in logprobs]
        body["logprobsResult"] = {"chosenCandidates": [_likely(one) for one in logprobs], "topCandidates": tops}
    return body


def _likely(one: TokenLogprob) -> dict[str, Any]:
    return {"token": one.token, "logProbability": one.logprob}


def _usage(usage: _Usage | None) -> Usage | None:
    if usage is None:
        return None
    return usage_of(
        input_tokens=usage.prompt_token_count + usage.tool_use_prompt_token_count,
        cached_tokens=usage.cached_content_token_count,
        # Google counts reasoning apart from the candidates; we count everything generated.
        output_tokens=usage.candidates_token_count + usage.thoughts_token_count,
        reasoning_tokens=usage.thoughts_token_count,
    )


def _encode_usage(usage: Usage) -> dict[str, Any]:
    return {
        "promptTokenCount": usage.input_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    }


# --- a stream --------------------------------------------------------------------------------------


class Reader(StreamReader):
    """Reads a streamed reply (`alt=sse`). No event closes it: a finish reason makes it whole, the stream's end ends it."""

    def _events(self, payload: bytes) -> Iterator[StreamEvent]:
        chunk = parse(_DECODER, payload, "a generateContent reply")
        if chunk.error is not None:
            raise reported_error({"error": chunk.error})
        if chunk.model_version:
            self._builder.model = chunk.model_version
        if chunk.usage_metadata is not None:
            self._usage = _usage(chunk.usage_metadata)
        if chunk.candidates:
            candidate = chunk.candidates[0]
            yield from _events(candidate, chunk.response_id, calls=self._builder.call_count)
            if candidate.finish_reason:
                self._finish = _FINISH.get(candidate.finish_reason, Finish.STOP)
        elif chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._finish = Finish.FILTERED


class Writer(StreamWriter):
    """Writes a streamed response. Tool calls go out whole: the format knows no pieces of one."""

    def __init__(self, *, model: str = "", reply_id: str = "") -> None:
        super().__init__(WholeCalls())
        self._tail: dict[str, Any] = {"modelVersion": model, "responseId": reply_id}

    def _pieces(self, event: StreamEvent) -> Iterable[bytes]:
        body = _event_body(event)
        return (sse.event(encode_line(body | self._tail)),) if body else ()


def _event_body(event: StreamEvent) -> dict[str, Any]:
    if isinstance(event, StreamEnd):
        usage = {"usageMetadata": _encode_usage(event.usage)} if event.usage is not None else {}
        return {"candidates": [_candidate([], event.finish)]} | usage
    parts = _event_parts(event)
    logprobs = event.logprobs if isinstance(event, TextDelta) else ()
    return {"candidates": [_candidate(parts, None, logprobs)]} if parts or logprobs else {}


def _event_parts(event: StreamEvent) -> list[dict[str, Any]]:
    if isinstance(event, TextDelta):
        return [{"text": event.text}]
    if isinstance(event, ThinkingDelta):
        return [{"text": event.text, "thought": True}]
    if isinstance(event, ThinkingSeal):
        return [{"text": "", "thoughtSignature": event.seal}] if event.format == FORMAT else []
    if isinstance(event, ToolCallDelta):
        return [_function_call(ToolCall(id=event.id, name=event.name, arguments=event.arguments, seal=event.seal))]
    return []
