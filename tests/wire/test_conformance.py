"""The official client and ours, put before the same answers of the same server, understand the same."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, web
from support import ollama_wire as ollama
from support.packages import need_packages
from support.streams import encode_stream

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import (
    Finish,
    Message,
    Reply,
    StreamEnd,
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
    system,
    user,
)
from tiebreak.core.model import Request
from tiebreak.core.protocols import Endpoint
from tiebreak.providers.anthropic import Anthropic
from tiebreak.providers.google import Google
from tiebreak.providers.http import HttpProvider
from tiebreak.providers.ollama import Ollama
from tiebreak.providers.openai import OpenAI
from tiebreak.wire import chat, gemini, messages, responses
from tiebreak.wire.errors import http_error

Json = dict[str, Any]


# --- what is said ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """An answer, before anybody spells it."""

    name: str
    text: str = ""
    thinking: str = ""
    seal: str = ""
    calls: tuple[tuple[str, str, Json], ...] = ()
    finish: Finish = Finish.STOP
    sent: int = 11
    cached: int = 0
    made: int = 7
    reasoned: int = 0

    @property
    def usage(self) -> Usage:
        return Usage(input_tokens=self.sent, cached_tokens=self.cached, output_tokens=self.made, reasoning_tokens=self.reasoned)


CASES = (
    Said("plain", "Paris is the capital of France."),
    Said("unicode", 'Grüße, 世界 \N{GRINNING FACE}\u200d\N{ROCKET} "quoted" \\ back\n\ttab \u2028 שלום é'),
    Said("empty"),
    Said("long", "word " * 3000),
    Said("spaces", "  two spaces, then lines\r\n\n\nand data: [DONE] inside\n\n"),
    Said("cut at the limit", "It was a dark and", finish=Finish.LENGTH),
    Said("filtered", "I was about to", finish=Finish.FILTERED),
    Said("refused", "I cannot help with that.", finish=Finish.REFUSED),
    Said("one call", calls=(("call_1", "weather", {"city": "Paris"}),), finish=Finish.TOOL),
    Said(
        "two calls", calls=(("call_1", "weather", {"city": "Paris"}), ("call_2", "weather", {"city": "Rome"})), finish=Finish.TOOL
    ),
    Said("call and words", "Let me look.", calls=(("call_1", "weather", {"city": "Paris"}),), finish=Finish.TOOL),
    Said("call without arguments", calls=(("call_1", "now", {}),), finish=Finish.TOOL),
    Said(
        "nested arguments",
        calls=(
            ("call_1", "edit", {"path": "a/b.py", "edits": [{"old": 'x = "ü"\n', "new": "", "n": 2}], "dry": False, "at": None}),
        ),
        finish=Finish.TOOL,
    ),
    Said("json", '{"answer": 42, "because": ["six", "by", "nine"]}'),
    Said("from the cache", "Yes.", sent=1200, cached=1024),
    Said("reasoned", "42", thinking="Six by nine.", made=90, reasoned=80),
    Said("sealed reasoning", "42", thinking="Hm, hm.", seal="c2VhbGVk", made=9, reasoned=8),
    Said(
        "sealed call", thinking="I need a tool.", seal="c2VhbGVk", calls=(("call_1", "now", {}),), finish=Finish.TOOL, reasoned=3
    ),
    Said("nothing counted", "free", sent=0, made=0),
)


def _pieces(text: str) -> list[str]:
    size = max(3, len(text) // 40)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _sse(*events: Json | str, named: bool = False) -> bytes:
    found = []
    for event in events:
        head = f"event: {event['type']}\n" if named and isinstance(event, dict) else ""
        found.append(f"{head}data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return "".join(found).encode()


# --- chat completions, as OpenAI's servers write them ----------------------------------------------


def _chat_usage(said: Said) -> Json:
    return {
        "prompt_tokens": said.sent,
        "completion_tokens": said.made,
        "total_tokens": said.sent + said.made,
        "prompt_tokens_details": {"cached_tokens": said.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": said.reasoned, "audio_tokens": 0, "accepted_prediction_tokens": 0},
    }


_CHAT_FINISH = {
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.TOOL: "tool_calls",
    Finish.FILTERED: "content_filter",
    Finish.REFUSED: "stop",
}


def chat_whole(said: Said) -> bytes:
    refused = said.finish is Finish.REFUSED
    message: Json = {"role": "assistant", "content": None if refused or (said.calls and not said.text) else said.text}
    message |= {"refusal": said.text if refused else None, "annotations": []}
    if said.calls:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}} for i, n, a in said.calls
        ]
    if said.thinking:
        message["reasoning_content"] = said.thinking
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _CHAT_FINISH[said.finish]}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "m-2026", "service_tier": "default"}
    return json.dumps(head | {"choices": [choice], "usage": _chat_usage(said), "system_fingerprint": "fp_1"}).encode()


def chat_stream(said: Said) -> bytes:
    head = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "m-2026",
        "system_fingerprint": "fp",
    }

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return head | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}], "usage": None}

    key = "refusal" if said.finish is Finish.REFUSED else "content"
    found: list[Json | str] = [chunk({"role": "assistant", "content": "", "refusal": None})]
    found += [chunk({"reasoning_content": piece}) for piece in _pieces(said.thinking)]
    found += [chunk({key: piece}) for piece in _pieces(said.text)]
    for index, (call_id, name, arguments) in enumerate(said.calls):
        start = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        found.append(chunk({"tool_calls": [start]}))
        found += [chunk({"tool_calls": [{"index": index, "function": {"arguments": p}}]}) for p in _pieces(json.dumps(arguments))]
    found.append(chunk({}, _CHAT_FINISH[said.finish]))
    found.append(head | {"choices": [], "usage": _chat_usage(said)})
    return _sse(*found, "[DONE]")


def _chat_streamed(client: Any, asked: Json) -> Any:
    import openai

    with client.chat.completions.stream(**asked) as events:
        try:
            return events.get_final_completion()
        except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
            # Here the official client gives up; what it gathered so far is what it understood.
            return events.current_completion_snapshot


def chat_official(client: Any, model: str, *, stream: bool) -> Json:
    asked: Json = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    if stream:
        answer = _chat_streamed(client, asked | {"stream_options": {"include_usage": True}})
    else:
        answer = client.chat.completions.create(**asked)
    choice = answer.choices[0]
    message, usage = choice.message, answer.usage
    finish = {v: k for k, v in _CHAT_FINISH.items() if k is not Finish.REFUSED}[choice.finish_reason]
    return {
        "text": message.content or message.refusal or "",
        "calls": [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or ()],
        "finish": Finish.REFUSED if message.refusal else finish,
        "usage": (
            usage.prompt_tokens,
            usage.prompt_tokens_details.cached_tokens,
            usage.completion_tokens,
            usage.completion_tokens_details.reasoning_tokens,
        ),
    }


# --- responses -------------------------------------------------------------------------------------


def _responses_items(said: Said) -> list[Json]:
    found: list[Json] = []
    if said.thinking or said.seal:
        summary = [{"type": "summary_text", "text": said.thinking}]
        found.append({"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": said.seal or None})
    if said.text or not said.calls:
        content: Json = {"type": "output_text", "annotations": [], "logprobs": [], "text": said.text}
        if said.finish is Finish.REFUSED:
            content = {"type": "refusal", "refusal": said.text}
        found.append({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [content]})
    for number, (call_id, name, arguments) in enumerate(said.calls):
        call = {"id": f"fc_{number}", "type": "function_call", "status": "completed", "call_id": call_id, "name": name}
        found.append(call | {"arguments": json.dumps(arguments)})
    return found


def _responses_body(said: Said, items: list[Json], *, done: bool = True) -> Json:
    reasons = {Finish.LENGTH: "max_output_tokens", Finish.FILTERED: "content_filter"}
    whole = said.finish not in reasons
    body: Json = {"id": "resp_1", "object": "response", "created_at": 1700000000, "error": None, "instructions": None}
    body["status"] = ("completed" if whole else "incomplete") if done else "in_progress"
    body["incomplete_details"] = None if whole or not done else {"reason": reasons[said.finish]}
    body |= {"model": "m-2026", "output": items, "parallel_tool_calls": True, "previous_response_id": None, "store": False}
    body |= {
        "reasoning": {"effort": None, "summary": None},
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tools": [],
    }
    usage = {
        "input_tokens": said.sent,
        "input_tokens_details": {"cached_tokens": said.cached, "cache_write_tokens": 0},
        "output_tokens": said.made,
        "output_tokens_details": {"reasoning_tokens": said.reasoned},
        "total_tokens": said.sent + said.made,
    }
    return body | {
        "tool_choice": "auto",
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if done else None,
        "metadata": {},
    }


def responses_whole(said: Said) -> bytes:
    return json.dumps(_responses_body(said, _responses_items(said))).encode()


def responses_stream(said: Said) -> bytes:
    found: list[Json] = []

    def add(name: str, **fields: Any) -> None:
        found.append({"type": name, "sequence_number": len(found)} | fields)

    add("response.created", response=_responses_body(said, [], done=False))
    add("response.in_progress", response=_responses_body(said, [], done=False))
    items = _responses_items(said)
    for index, item in enumerate(items):
        at = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            _stream_message(add, item, at)
        elif item["type"] == "reasoning":
            add("response.output_item.added", output_index=index, item=item | {"summary": [], "encrypted_content": None})
            part = {"type": "summary_text", "text": ""}
            add("response.reasoning_summary_part.added", summary_index=0, part=part, **at)
            for piece in _pieces(said.thinking):
                add("response.reasoning_summary_text.delta", summary_index=0, delta=piece, **at)
            add("response.reasoning_summary_text.done", summary_index=0, text=said.thinking, **at)
            add("response.reasoning_summary_part.done", summary_index=0, part=part | {"text": said.thinking}, **at)
        else:
            add("response.output_item.added", output_index=index, item=item | {"arguments": "", "status": "in_progress"})
            for piece in _pieces(item["arguments"]):
                add("response.function_call_arguments.delta", delta=piece, **at)
            add("response.function_call_arguments.done", arguments=item["arguments"], **at)
        add("response.output_item.done", output_index=index, item=item)
    last = _responses_body(said, items)
    add(f"response.{last['status']}", response=last)
    return _sse(*found, named=True)


def _stream_message(add: Callable[..., None], item: Json, at: Json) -> None:
    part = item["content"][0]
    add("response.output_item.added", output_index=at["output_index"], item=item | {"content": [], "status": "in_progress"})
    key = "refusal" if part["type"] == "refusal" else "text"
    name = "refusal" if key == "refusal" else "output_text"
    extra: Json = {} if key == "refusal" else {"logprobs": []}
    add("response.content_part.added", content_index=0, part=part | {key: ""}, **at)
    for piece in _pieces(part[key]):
        add(f"response.{name}.delta", content_index=0, delta=piece, **extra, **at)
    add(f"response.{name}.done", content_index=0, **{key: part[key]}, **extra, **at)
    add("response.content_part.done", content_index=0, part=part, **at)


def responses_official(client: Any, model: str, *, stream: bool) -> Json:
    if stream:
        with client.responses.stream(model=model, input="hi") as events:
            answer = [event.response for event in events if event.type in ("response.completed", "response.incomplete")][-1]
    else:
        answer = client.responses.create(model=model, input="hi")
    refusals = [c.refusal for i in answer.output if i.type == "message" for c in i.content if c.type == "refusal"]
    calls = [(i.call_id, i.name, json.loads(i.arguments)) for i in answer.output if i.type == "function_call"]
    finish = Finish.TOOL if calls else Finish.REFUSED if refusals else Finish.STOP
    if answer.status == "incomplete":
        finish = Finish.FILTERED if answer.incomplete_details.reason == "content_filter" else Finish.LENGTH
    thoughts = [i for i in answer.output if i.type == "reasoning"]
    usage = answer.usage
    return {
        "text": answer.output_text or "".join(refusals),
        "calls": calls,
        "finish": finish,
        "thinking": "".join(s.text for item in thoughts for s in item.summary),
        "seals": [item.encrypted_content for item in thoughts if item.encrypted_content],
        "usage": (
            usage.input_tokens,
            usage.input_tokens_details.cached_tokens,
            usage.output_tokens,
            usage.output_tokens_details.reasoning_tokens,
        ),
    }


# --- messages --------------------------------------------------------------------------------------

_MESSAGES_FINISH = {Finish.STOP: "end_turn", Finish.LENGTH: "max_tokens", Finish.TOOL: "tool_use", Finish.REFUSED: "refusal"}


def _messages_blocks(said: Said) -> list[Json]:
    found: list[Json] = []
    if said.thinking:
        found.append({"type": "thinking", "thinking": said.thinking, "signature": said.seal})
    if said.text:
        found.append({"type": "text", "text": said.text, "citations": None})
    return found + [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in said.calls]


def _messages_usage(said: Said) -> Json:
    written = min(4, said.sent - said.cached)
    return {
        "input_tokens": said.sent - said.cached - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": said.cached,
        "output_tokens": said.made,
        "output_tokens_details": {"thinking_tokens": said.reasoned},
        "service_tier": "standard",
    }


def _messages_body(said: Said) -> Json:
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-2026", "stop_sequence": None}
    return body | {"content": [], "stop_reason": None, "usage": _messages_usage(said) | {"output_tokens": 1}}


def messages_whole(said: Said) -> bytes:
    body = _messages_body(said) | {"content": _messages_blocks(said), "usage": _messages_usage(said)}
    return json.dumps(body | {"stop_reason": _MESSAGES_FINISH[said.finish]}).encode()


def messages_stream(said: Said) -> bytes:
    start = _messages_body(said)
    del start["usage"]["output_tokens_details"]
    found: list[Json] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(_messages_blocks(said)):
        blank: Json = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}, "tool_use": {"input": {}}}[
            block["type"]
        ]
        found.append({"type": "content_block_start", "index": index, "content_block": block | blank})
        deltas: list[Json] = [{"type": "thinking_delta", "thinking": p} for p in _pieces(block.get("thinking", ""))]
        deltas += [{"type": "signature_delta", "signature": block["signature"]}] if block.get("signature") else []
        deltas += [{"type": "text_delta", "text": p} for p in _pieces(block.get("text", ""))]
        if block["type"] == "tool_use":
            text = json.dumps(block["input"]) if block["input"] else ""
            deltas += [{"type": "input_json_delta", "partial_json": p} for p in ["", *_pieces(text)]]
        found += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        found.append({"type": "content_block_stop", "index": index})
    usage = {"output_tokens": said.made, "output_tokens_details": {"thinking_tokens": said.reasoned}}
    stop = {"stop_reason": _MESSAGES_FINISH[said.finish], "stop_sequence": None}
    found.append({"type": "message_delta", "delta": stop, "usage": usage})
    return _sse(*found, {"type": "message_stop"}, named=True)


def messages_official(client: Any, model: str, *, stream: bool) -> Json:
    asked: Json = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 100}
    if stream:
        with client.messages.stream(**asked) as events:
            answer = events.get_final_message()
    else:
        answer = client.messages.create(**asked)
    usage = answer.usage
    thoughts = [b for b in answer.content if b.type == "thinking"]
    return {
        "text": "".join(b.text for b in answer.content if b.type == "text"),
        "calls": [(b.id, b.name, b.input) for b in answer.content if b.type == "tool_use"],
        "finish": {v: k for k, v in _MESSAGES_FINISH.items()}[answer.stop_reason],
        "thinking": "".join(b.thinking for b in thoughts),
        "seals": [b.signature for b in thoughts if b.signature],
        "usage": (
            usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens,
            usage.cache_read_input_tokens,
            usage.output_tokens,
            usage.output_tokens_details.thinking_tokens,
        ),
    }


# --- Gemini ----------------------------------------------------------------------------------------

_GEMINI_FINISH = {Finish.STOP: "STOP", Finish.TOOL: "STOP", Finish.LENGTH: "MAX_TOKENS", Finish.FILTERED: "SAFETY"}


def _gemini_calls(said: Said) -> list[Json]:
    calls: list[Json] = [{"functionCall": {"id": i, "name": n, "args": a}} for i, n, a in said.calls]
    if calls and said.seal:
        calls[0]["thoughtSignature"] = said.seal
    return calls


def _gemini_usage(said: Said) -> Json:
    counted = {"promptTokenCount": said.sent, "cachedContentTokenCount": said.cached, "thoughtsTokenCount": said.reasoned}
    # Counts of nothing are left out, as protocol buffers do.
    counted = {name: count for name, count in counted.items() if count}
    return counted | {"candidatesTokenCount": said.made - said.reasoned, "totalTokenCount": said.sent + said.made}


def _gemini_chunk(parts: list[Json], said: Said, *, last: bool) -> Json:
    candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if last:
        candidate |= {"finishReason": _GEMINI_FINISH[said.finish], "avgLogprobs": -0.1}
    return {"candidates": [candidate], "usageMetadata": _gemini_usage(said), "modelVersion": "m-2026", "responseId": "r-1"}


def gemini_whole(said: Said) -> bytes:
    parts: list[Json] = [{"text": said.thinking, "thought": True}] if said.thinking else []
    if said.text:
        parts.append({"text": said.text} | ({"thoughtSignature": said.seal} if said.seal and not said.calls else {}))
    return json.dumps(_gemini_chunk(parts + _gemini_calls(said), said, last=True)).encode()


def gemini_stream(said: Said) -> bytes:
    parts: list[Json] = [{"text": piece, "thought": True} for piece in _pieces(said.thinking)]
    parts += [{"text": piece} for piece in _pieces(said.text)] + _gemini_calls(said)
    closing: list[Json] = [{"text": "", "thoughtSignature": said.seal}] if said.seal and not said.calls else [{"text": ""}]
    chunks = [_gemini_chunk([part], said, last=False) for part in parts]
    text = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in [*chunks, _gemini_chunk(closing, said, last=True)])
    return text.encode()


def gemini_official(client: Any, model: str, *, stream: bool) -> Json:
    import base64

    if stream:
        answers = list(client.models.generate_content_stream(model=model, contents="hi"))
    else:
        answers = [client.models.generate_content(model=model, contents="hi")]
    parts = [p for a in answers for c in a.candidates or () for p in (c.content.parts if c.content else None) or ()]
    usage = next(a.usage_metadata for a in reversed(answers) if a.usage_metadata)
    calls = [(p.function_call.id, p.function_call.name, p.function_call.args or {}) for p in parts if p.function_call]
    reason = next(c.finish_reason for a in reversed(answers) for c in a.candidates if c.finish_reason)
    finish = {"STOP": Finish.STOP, "MAX_TOKENS": Finish.LENGTH, "SAFETY": Finish.FILTERED}[reason.value]
    return {
        "text": "".join(p.text or "" for p in parts if not p.thought),
        "calls": calls,
        "finish": Finish.TOOL if calls and finish is Finish.STOP else finish,
        "thinking": "".join(p.text or "" for p in parts if p.thought),
        "seals": [base64.b64encode(p.thought_signature).decode() for p in parts if p.thought_signature],
        "usage": (
            usage.prompt_token_count or 0,
            usage.cached_content_token_count or 0,
            (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
            usage.thoughts_token_count or 0,
        ),
    }


# --- Ollama ----------------------------------------------------------------------------------------


def _ollama_calls(said: Said) -> list[Json]:
    return [{"id": i, "function": {"index": k, "name": n, "arguments": a}} for k, (i, n, a) in enumerate(said.calls)]


def _ollama_line(message: Json, **more: Any) -> Json:
    head = {"model": "m-2026", "created_at": "2026-10-10T10:10:10.123456789Z"}
    return head | {"message": {"role": "assistant", "content": ""} | message, "done": False} | more


def _ollama_end(said: Said) -> Json:
    counted = {"prompt_eval_count": said.sent, "prompt_eval_cached_count": said.cached, "eval_count": said.made}
    counted = {name: count for name, count in counted.items() if count}
    reason = "length" if said.finish is Finish.LENGTH else "stop"
    return {
        "done": True,
        "done_reason": reason,
        "total_duration": 5_000_000,
        "load_duration": 1_000_000,
        "eval_duration": 9,
    } | counted


def ollama_whole(said: Said) -> bytes:
    message: Json = {"content": said.text}
    message |= {"thinking": said.thinking} if said.thinking else {}
    message |= {"tool_calls": _ollama_calls(said)} if said.calls else {}
    return json.dumps(_ollama_line(message, **_ollama_end(said))).encode()


def ollama_stream(said: Said) -> bytes:
    found = [_ollama_line({"thinking": piece}) for piece in _pieces(said.thinking)]
    found += [_ollama_line({"content": piece}) for piece in _pieces(said.text)]
    found += [_ollama_line({"tool_calls": [call]}) for call in _ollama_calls(said)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in [*found, _ollama_line({}, **_ollama_end(said))])


def ollama_official(client: Any, model: str, *, stream: bool) -> Json:
    answers = client.chat(model, messages=[{"role": "user", "content": "hi"}], stream=stream)
    answers = list(answers) if stream else [answers]
    last = answers[-1]
    calls = [(c.function.name, dict(c.function.arguments)) for a in answers for c in a.message.tool_calls or ()]
    finish = Finish.LENGTH if last.done_reason == "length" else Finish.TOOL if calls else Finish.STOP
    return {
        "text": "".join(a.message.content or "" for a in answers),
        "calls": calls,
        "finish": finish,
        "thinking": "".join(a.message.thinking or "" for a in answers),
        "usage": (last.prompt_eval_count or 0, last.eval_count or 0),
    }


# --- the two clients -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dialect:
    name: str
    module: Any
    whole: Callable[[Said], bytes]
    stream: Callable[[Said], bytes]
    official: Callable[..., Json]
    lacking: frozenset[Finish]
    """Finishes the format has no word for."""
    provider: type[HttpProvider]
    path: str
    stream_path: str
    base: str = ""

    def __str__(self) -> str:
        return self.name


DIALECTS = (
    Dialect(
        "chat", chat, chat_whole, chat_stream, chat_official, frozenset(), OpenAI, "/chat/completions", "/chat/completions", "/v1"
    ),
    Dialect(
        "responses",
        responses,
        responses_whole,
        responses_stream,
        responses_official,
        frozenset(),
        OpenAI,
        "/responses",
        "/responses",
        "/v1",
    ),
    Dialect(
        "messages",
        messages,
        messages_whole,
        messages_stream,
        messages_official,
        frozenset({Finish.FILTERED}),
        Anthropic,
        "/v1/messages",
        "/v1/messages",
    ),
    Dialect(
        "gemini",
        gemini,
        gemini_whole,
        gemini_stream,
        gemini_official,
        frozenset({Finish.REFUSED}),
        Google,
        "/v1beta/models/{model}:generateContent",
        "/v1beta/models/{model}:streamGenerateContent?alt=sse",
    ),
    Dialect(
        "ollama",
        ollama,
        ollama_whole,
        ollama_stream,
        ollama_official,
        frozenset({Finish.REFUSED, Finish.FILTERED}),
        Ollama,
        "/api/chat",
        "/api/chat",
    ),
)


@dataclass
class Canned:
    """Answers by the name of the model asked for; keeps what it was asked."""

    answers: dict[str, tuple[int, bytes, dict[str, str]]] = field(default_factory=dict)
    asked: dict[str, Json] = field(default_factory=dict)
    url: str = ""

    def put(
        self, body: bytes, *, status: int = 200, kind: str = "application/json", headers: dict[str, str] | None = None
    ) -> str:
        model = f"case-{len(self.answers)}"
        self.answers[model] = (status, body, {"Content-Type": kind} | (headers or {}))
        return model

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        model = body.get("model") or request.path.rpartition("/")[2].partition(":")[0]
        self.asked[model] = body
        status, data, headers = self.answers[model]
        if headers["Content-Type"] == "application/json":
            return web.Response(status=status, body=data, headers=headers)
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        for start in range(0, len(data), 997):
            await response.write(data[start : start + 997])
        await response.write_eof()
        return response


@pytest.fixture(scope="module")
def canned() -> Iterator[Canned]:
    server = Canned()
    loop = asyncio.new_event_loop()
    ready, done = threading.Event(), asyncio.Event()

    async def serve() -> None:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/{tail:.*}", server.answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()
        await done.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    yield server
    loop.call_soon_threadsafe(done.set)
    thread.join(10)
    loop.close()


@pytest.fixture(scope="module")
def clients(canned: Canned) -> Iterator[dict[str, Any]]:
    """The official clients, their retries off."""
    need_packages("anthropic", "ollama", "openai", "google.genai")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import anthropic
        import ollama as official_ollama
        import openai
        from google import genai

        openai_client = openai.OpenAI(base_url=f"{canned.url}/v1", api_key="x", max_retries=0)
        found = {
            "chat": openai_client,
            "responses": openai_client,
            "messages": anthropic.Anthropic(base_url=canned.url, api_key="x", max_retries=0),
            "gemini": genai.Client(api_key="x", http_options={"base_url": canned.url}),
            "ollama": official_ollama.Client(host=canned.url),
        }
        yield found
        for client in found.values():
            client.close()
        gc.collect()


async def _ask(dialect: Dialect, url: str, model: str, *, stream: bool) -> Reply:
    request = Request(model=model, messages=(user("hi"),), stream=stream)
    body = dialect.module.encode(request)
    provider = dialect.provider(Endpoint(base_url=url + dialect.base, api_key="x"))
    try:
        if not stream and dialect.name != "responses":
            return await provider.generate(request)  # type: ignore[attr-defined,no-any-return]
        if not stream:
            return responses.decode(await provider.post(dialect.path, body))
    finally:
        await provider.close()
    async with (
        ClientSession() as session,
        session.post(url + dialect.base + dialect.stream_path.format(model=model), data=msgspec.json.encode(body)) as response,
    ):
        if response.status != 200:
            raise http_error(response.status, await response.read(), response.headers)
        reader = dialect.module.Reader()
        async for chunk in response.content.iter_any():
            reader.feed(chunk)
        return reader.finish()  # type: ignore[no-any-return]


def _ours(dialect: Dialect, canned: Canned, model: str, *, stream: bool) -> Json:
    reply = asyncio.run(_ask(dialect, canned.url, model, stream=stream))
    assert reply.usage is not None
    usage = reply.usage
    found: Json = {
        "text": reply.text,
        "calls": [(call.id, call.name, call.parsed()) for call in reply.tool_calls],
        "finish": reply.finish,
        "thinking": reply.thinking,
        "seals": [p.seal for p in reply.parts if isinstance(p, ThinkingPart) and p.seal]
        + [c.seal for c in reply.tool_calls if c.seal],
        "usage": (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens),
    }
    return found


def _comparable(found: Json, theirs: Json) -> Json:
    """Ours, as far as the official client goes: it has no word for some of it."""
    kept = {name: found[name] for name in theirs}
    if len(theirs["usage"]) == 2:
        kept["usage"] = (found["usage"][0], found["usage"][2])
        kept["calls"] = [call[1:] for call in found["calls"]]
    return kept


def _as_reply(said: Said, name: str) -> Reply:
    sealed = bool(said.seal) and name in ("responses", "messages", "gemini")
    on_call = sealed and name == "gemini" and bool(said.calls)
    parts: tuple[Any, ...] = ()
    if sealed and not on_call:
        parts = (ThinkingPart(text=said.thinking, seal=said.seal, format=name), *((TextPart(said.text),) if said.text else ()))
    calls = tuple(
        ToolCall(id=i, name=n, arguments=json.dumps(a), seal=said.seal if on_call and k == 0 else "")
        for k, (i, n, a) in enumerate(said.calls)
    )
    return Reply(
        text=said.text,
        thinking=said.thinking,
        tool_calls=calls,
        finish=said.finish,
        usage=said.usage,
        model="m-2026",
        parts=parts,
    )


def _as_events(said: Said, name: str) -> Iterator[StreamEvent]:
    reply = _as_reply(said, name)
    yield from map(ThinkingDelta, _pieces(said.thinking))
    if reply.parts:
        yield ThinkingSeal(seal=said.seal, format=name)
    yield from map(TextDelta, _pieces(said.text))
    for index, call in enumerate(reply.tool_calls):
        yield ToolCallDelta(index=index, id=call.id, name=call.name, seal=call.seal)
        yield from (ToolCallDelta(index=index, arguments=piece) for piece in _pieces(call.arguments))
    yield StreamEnd(finish=said.finish, usage=said.usage)


PAIRS = [(d, s) for d in DIALECTS for s in CASES if s.finish not in d.lacking]
each_case = pytest.mark.parametrize(("dialect", "said"), PAIRS, ids=lambda value: getattr(value, "name", ""))


def _check(dialect: Dialect, said: Said, theirs: Json, ours: Json) -> None:
    assert _comparable(ours, theirs) == theirs
    assert ours["text"] == said.text
    assert [call[1:] for call in ours["calls"]] == [call[1:] for call in said.calls]
    assert ours["finish"] is said.finish
    assert ours["thinking"] == said.thinking
    reasoned = 0 if dialect.name == "ollama" else said.reasoned
    assert ours["usage"] == (said.sent, said.cached, said.made, reasoned)
    if dialect.name in ("responses", "messages", "gemini"):
        assert ours["seals"] == ([said.seal] if said.seal else [])


@each_case
def test_whole_answers_are_understood_alike(dialect: Dialect, said: Said, canned: Canned, clients: dict[str, Any]) -> None:
    model = canned.put(dialect.whole(said))
    theirs = dialect.official(clients[dialect.name], model, stream=False)
    _check(dialect, said, theirs, _ours(dialect, canned, model, stream=False))


@each_case
def test_streamed_answers_are_understood_alike(dialect: Dialect, said: Said, canned: Canned, clients: dict[str, Any]) -> None:
    kind = "application/x-ndjson" if dialect.name == "ollama" else "text/event-stream"
    model = canned.put(dialect.stream(said), kind=kind)
    theirs = dialect.official(clients[dialect.name], model, stream=True)
    _check(dialect, said, theirs, _ours(dialect, canned, model, stream=True))


@each_case
def test_answers_that_we_write_are_understood(dialect: Dialect, said: Said, canned: Canned, clients: dict[str, Any]) -> None:
    """The official client reads what we write as a server, whole and streamed."""
    model = canned.put(msgspec.json.encode(dialect.module.encode_reply(_as_reply(said, dialect.name))))
    theirs = dialect.official(clients[dialect.name], model, stream=False)
    _check(dialect, said, theirs, _ours(dialect, canned, model, stream=False))
    if said.finish is Finish.REFUSED and dialect.name in ("chat", "responses"):
        return
    kind = "application/x-ndjson" if dialect.name == "ollama" else "text/event-stream"
    model = canned.put(b"".join(encode_stream(dialect.module, _as_events(said, dialect.name), model="m-2026")), kind=kind)
    theirs = dialect.official(clients[dialect.name], model, stream=True)
    _check(dialect, said, theirs, _ours(dialect, canned, model, stream=True))


# --- log-probabilities -----------------------------------------------------------------------------

_TOKENS = [("Par", -0.25, [("Par", -0.25), ("Lon", -1.5)]), ("is", -0.125, [("is", -0.125)])]


def _openai_tokens() -> list[Json]:
    return [
        {"token": t, "logprob": p, "bytes": None, "top_logprobs": [{"token": o, "logprob": q, "bytes": None} for o, q in top]}
        for t, p, top in _TOKENS
    ]


def _with_logprobs(name: str) -> Json:
    body: Json = json.loads(next(d for d in DIALECTS if d.name == name).whole(Said("x", "Paris")))
    if name == "chat":
        body["choices"][0]["logprobs"] = {"content": _openai_tokens(), "refusal": None}
    elif name == "responses":
        body["output"][0]["content"][0]["logprobs"] = _openai_tokens()
    elif name == "ollama":
        body["logprobs"] = _openai_tokens()
    else:
        spelled = [[{"token": o, "tokenId": 1, "logProbability": q} for o, q in top] for _, _, top in _TOKENS]
        chosen = [{"token": t, "tokenId": 1, "logProbability": p} for t, p, _ in _TOKENS]
        body["candidates"][0]["logprobsResult"] = {
            "chosenCandidates": chosen,
            "topCandidates": [{"candidates": c} for c in spelled],
        }
    return body


def _official_logprobs(name: str, client: Any, model: str) -> list[tuple[str, float, list[tuple[str, float]]]]:
    if name == "gemini":
        result = client.models.generate_content(model=model, contents="hi").candidates[0].logprobs_result
        tops = [[(o.token, o.log_probability) for o in top.candidates] for top in result.top_candidates]
        return [(c.token, c.log_probability, top) for c, top in zip(result.chosen_candidates, tops, strict=True)]
    if name == "chat":
        found = client.chat.completions.create(model=model, messages=[]).choices[0].logprobs.content
    elif name == "responses":
        found = client.responses.create(model=model, input="hi").output[0].content[0].logprobs
    else:
        found = client.chat(model, messages=[]).logprobs
    return [(t.token, t.logprob, [(o.token, o.logprob) for o in t.top_logprobs]) for t in found]


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d.name != "messages"], ids=str)
def test_log_probabilities_are_understood_alike(dialect: Dialect, canned: Canned, clients: dict[str, Any]) -> None:
    model = canned.put(json.dumps(_with_logprobs(dialect.name)).encode())
    reply = asyncio.run(_ask(dialect, canned.url, model, stream=False))
    ours = [(t.token, t.logprob, [(o.token, o.logprob) for o in t.top]) for t in reply.logprobs]
    assert ours == _TOKENS == _official_logprobs(dialect.name, clients[dialect.name], model)


# --- errors ----------------------------------------------------------------------------------------


def _error(dialect: Dialect, status: int, word: str, message: str) -> bytes:
    if dialect.name == "messages":
        return json.dumps({"type": "error", "error": {"type": word, "message": message}, "request_id": "r"}).encode()
    if dialect.name == "gemini":
        return json.dumps({"error": {"code": status, "message": message, "status": word}}).encode()
    if dialect.name == "ollama":
        return json.dumps({"error": message}).encode()
    return json.dumps({"error": {"message": message, "type": word, "param": None, "code": None}}).encode()


ERRORS = (
    (400, "invalid_request_error", "temperature must be at most 2", FailureKind.BAD_REQUEST),
    (401, "authentication_error", "invalid key", FailureKind.AUTH),
    (404, "not_found_error", "no such model", FailureKind.NOT_FOUND),
    (429, "rate_limit_error", "slow down", FailureKind.RATE_LIMIT),
    (500, "api_error", "something broke", FailureKind.TRANSIENT),
    (503, "overloaded_error", "busy", FailureKind.OVERLOADED),
)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("status", "word", "message", "kind"), ERRORS)
@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
def test_errors_are_errors_to_both(
    dialect: Dialect,
    status: int,
    word: str,
    message: str,
    kind: FailureKind,
    stream: bool,
    canned: Canned,
    clients: dict[str, Any],
) -> None:
    model = canned.put(_error(dialect, status, word, message), status=status, headers={"Retry-After": "3"})
    with pytest.raises(Exception) as theirs:
        dialect.official(clients[dialect.name], model, stream=stream)
    with pytest.raises(ProviderError) as ours:
        asyncio.run(_ask(dialect, canned.url, model, stream=stream))
    told = getattr(theirs.value, "status_code", None) or getattr(theirs.value, "code", None)
    assert told == status == ours.value.status
    assert ours.value.kind is kind
    assert message in str(ours.value)
    if kind is FailureKind.RATE_LIMIT:
        assert ours.value.retry_after == 3


def _broken_off(dialect: Dialect) -> bytes:
    """A stream that begins well and then reports an error."""
    half = dialect.stream(Said("half", "one two three four five six seven"))
    error = _error(dialect, 529, "overloaded_error", "Overloaded")
    if dialect.name == "ollama":
        return b"".join(half.splitlines(keepends=True)[:3]) + error + b"\n"
    mark = b"\r\n\r\n" if dialect.name == "gemini" else b"\n\n"
    body = json.loads(error) | ({"type": "error"} if dialect.name == "responses" else {})
    head = b"event: error\n" if dialect.name in ("messages", "responses") else b""
    return mark.join(half.split(mark)[:6]) + mark + head + b"data: " + json.dumps(body).encode() + mark


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
def test_an_error_in_the_middle_is_an_error_to_both(dialect: Dialect, canned: Canned, clients: dict[str, Any]) -> None:
    kind = "application/x-ndjson" if dialect.name == "ollama" else "text/event-stream"
    model = canned.put(_broken_off(dialect), kind=kind)
    with pytest.raises(Exception):  # noqa: B017  # each client has its own
        dialect.official(clients[dialect.name], model, stream=True)
    with pytest.raises(ProviderError) as ours:
        asyncio.run(_ask(dialect, canned.url, model, stream=True))
    expected = FailureKind.TRANSIENT if dialect.name == "ollama" else FailureKind.OVERLOADED
    assert ours.value.kind is expected


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
def test_a_stream_that_is_cut_is_an_error_to_us(dialect: Dialect, canned: Canned) -> None:
    """Where official clients return half an answer."""
    half = dialect.stream(Said("half", "one two three four five six seven"))
    kind = "application/x-ndjson" if dialect.name == "ollama" else "text/event-stream"
    model = canned.put(half[: len(half) // 2], kind=kind)
    with pytest.raises(ProviderError) as ours:
        asyncio.run(_ask(dialect, canned.url, model, stream=True))
    assert ours.value.kind is FailureKind.MALFORMED


# --- requests --------------------------------------------------------------------------------------

_SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_TALK = Request(
    model="",
    messages=(
        system("Be brief."),
        user("Weather in Paris?"),
        Message(role="assistant", tool_calls=(ToolCall(id="c1", name="weather", arguments='{"city":"Paris"}'),)),
        Message(role="tool", parts=(TextPart("rain"),), tool_call_id="c1"),
        user("And now?"),
    ),
    tools=(Tool(name="weather", description="Tells the weather.", parameters=_SCHEMA),),
    tool_choice="required",
    settings={"temperature": 0.5, "top_p": 0.9, "max_tokens": 50},
)


def _send_chat(client: Any, model: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
    client.chat.completions.create(
        model=model,
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Weather in Paris?"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "rain"},
            {"role": "user", "content": "And now?"},
        ],
        tools=[{"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": _SCHEMA}}],
        tool_choice="required",
        temperature=0.5,
        top_p=0.9,
        max_completion_tokens=50,
    )


def _send_responses(client: Any, model: str) -> None:
    client.responses.create(
        model=model,
        instructions="Be brief.",
        input=[
            {"role": "user", "content": "Weather in Paris?"},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Paris"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "rain"},
            {"role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
        ],
        tools=[
            {"type": "function", "name": "weather", "description": "Tells the weather.", "parameters": _SCHEMA, "strict": False}
        ],
        tool_choice="required",
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=50,
    )


def _send_messages(client: Any, model: str) -> None:
    client.messages.create(
        model=model,
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        messages=[
            {"role": "user", "content": "Weather in Paris?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Paris"}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "rain"}]},
                    {"type": "text", "text": "And now?"},
                ],
            },
        ],
        tools=[{"name": "weather", "description": "Tells the weather.", "input_schema": _SCHEMA}],
        tool_choice={"type": "any"},
        max_tokens=50,
        extra_body={"temperature": 0.5, "top_p": 0.9},
    )


def _send_gemini(client: Any, model: str) -> None:
    from google.genai import types

    client.models.generate_content(
        model=model,
        contents=[
            types.Content(role="user", parts=[types.Part(text="Weather in Paris?")]),
            types.Content(
                role="model",
                parts=[types.Part(function_call=types.FunctionCall(id="c1", name="weather", args={"city": "Paris"}))],
            ),
            types.Content(
                role="user",
                parts=[
                    types.Part(function_response=types.FunctionResponse(id="c1", name="weather", response={"output": "rain"}))
                ],
            ),
            types.Content(role="user", parts=[types.Part(text="And now?")]),
        ],
        config=types.GenerateContentConfig(
            system_instruction="Be brief.",
            temperature=0.5,
            top_p=0.9,
            max_output_tokens=50,
            tools=[
                types.Tool(
                    function_declarations=[
                        types.FunctionDeclaration(
                            name="weather", description="Tells the weather.", parameters_json_schema=_SCHEMA
                        )
                    ]
                )
            ],
            tool_config=types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="ANY")),
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        ),
    )


def _send_ollama(client: Any, model: str) -> None:
    client.chat(
        model,
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather in Paris?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Paris"}}}],
            },
            {"role": "tool", "content": "rain", "tool_name": "weather"},
            {"role": "user", "content": "And now?"},
        ],
        tools=[{"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": _SCHEMA}}],
        options={"temperature": 0.5, "top_p": 0.9, "num_predict": 50},
    )


@pytest.mark.parametrize(
    ("dialect", "send"),
    list(zip(DIALECTS, (_send_chat, _send_responses, _send_messages, _send_gemini, _send_ollama), strict=True)),
    ids=lambda value: getattr(value, "name", ""),
)
def test_requests_of_official_clients_are_understood(
    dialect: Dialect, send: Callable[[Any, str], None], canned: Canned, clients: dict[str, Any]
) -> None:
    """The same conversation, sent by each official client, is the same request to us."""
    model = canned.put(dialect.whole(CASES[0]))
    send(clients[dialect.name], model)
    request = dialect.module.decode_request(canned.asked[model])
    assert [(m.role, m.text) for m in request.messages] == [(m.role, m.text) for m in _TALK.messages]
    (call,) = request.messages[2].tool_calls
    assert (call.name, call.parsed()) == ("weather", {"city": "Paris"})
    assert request.messages[3].tool_call_id == call.id
    assert request.tools == _TALK.tools
    assert request.settings == _TALK.settings
    assert request.tool_choice == ("" if dialect.name == "ollama" else "required")
    assert request.stream is False
