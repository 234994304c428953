"""Streams read the same however the network slices them, and one that was cut is no answer."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support import ollama_wire as ollama
from support.streams import encode_stream
from wire.making import FORMATS, Format, bent, read, streams, survive

from tiebreak.core.errors import FailureKind, MissingModel, ProviderError, RateLimitError
from tiebreak.core.message import (
    Finish,
    Reply,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingPart,
    ThinkingSeal,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from tiebreak.wire import chat, gemini, messages, responses
from tiebreak.wire.reading import ReplyBuilder
from tiebreak.wire.sse import Events, Lines

each_format = pytest.mark.parametrize("form", FORMATS, ids=str)
quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def _alike(reply: Reply) -> Reply:
    """The reply with arguments spelled one way: formats that send objects are free in how they escape characters."""
    calls = tuple(
        replace(c, arguments=json.dumps(c.parsed()) if c.parsed() is not None else c.arguments) for c in reply.tool_calls
    )
    return replace(reply, tool_calls=calls)


def _builder(events: Iterable[StreamEvent]) -> Reply:
    gathered = ReplyBuilder()
    gathered.model = "m"
    for event in events:
        gathered.add(event)
    return _alike(gathered.reply())


def _sse(*payloads: object) -> bytes:
    return b"".join(b"data: " + (p if isinstance(p, bytes) else json.dumps(p).encode()) + b"\n\n" for p in payloads)


@each_format
@quick
@given(data=st.data())
def test_any_slicing_gives_the_same_reply(form: Format, data: st.DataObject) -> None:
    events = data.draw(streams(form))
    stream = b"".join(encode_stream(form.module, events, model="m"))
    expected = _builder(events)
    assert _alike(read(form, stream, len(stream))) == expected
    assert _alike(read(form, stream, data.draw(st.integers(1, 40)))) == expected


@each_format
@quick
@given(data=st.data())
def test_the_events_themselves_make_the_reply(form: Format, data: st.DataObject) -> None:
    """Whoever passes the events on loses nothing by it."""
    events = data.draw(streams(form))
    reader = form.module.Reader()
    heard = [event for chunk in encode_stream(form.module, events, model="m") for event in reader.feed(chunk)]
    heard += reader.close()
    assert isinstance(heard[-1], StreamEnd)
    assert _builder(heard) == _alike(reader.finish()) == _builder(events)


@each_format
@quick
@given(data=st.data())
def test_a_stream_cut_anywhere_is_whole_or_an_error(form: Format, data: st.DataObject) -> None:
    """Never a part of an answer: at most the count of tokens is lost."""
    events = data.draw(streams(form))
    stream = b"".join(encode_stream(form.module, events, model="m"))
    expected = _builder(events)
    cut = data.draw(st.integers(0, len(stream)))
    try:
        reply = _alike(read(form, stream[:cut], len(stream)))
    except ProviderError as error:
        assert error.kind is FailureKind.MALFORMED
    else:
        assert (reply.text, reply.thinking, reply.tool_calls, reply.finish) == (
            expected.text,
            expected.thinking,
            expected.tool_calls,
            expected.finish,
        )


@each_format
@quick
@given(data=st.data())
def test_a_bent_stream_ends_in_an_answer_or_a_provider_error(form: Format, data: st.DataObject) -> None:
    survive(form, data.draw(bent(form)), data.draw(st.integers(1, 60)))


@each_format
def test_one_byte_at_a_time(form: Format) -> None:
    events = [
        TextDelta("Grüße "),
        TextDelta("\N{GRINNING FACE}\n\r\u2028"),
        StreamEnd(finish=Finish.STOP, usage=Usage(input_tokens=3)),
    ]
    stream = b"".join(encode_stream(form.module, events, model="m"))
    assert read(form, stream, 1) == _builder(events)


@each_format
def test_a_stream_that_never_ends_is_refused(form: Format) -> None:
    reader = form.module.Reader(limit_bytes=1000)
    with pytest.raises(ProviderError, match="1,000 bytes") as caught:
        for _ in range(2000):
            reader.feed(b"x")
    assert caught.value.kind is FailureKind.MALFORMED
    with pytest.raises(ProviderError):
        reader.finish()


@each_format
def test_an_empty_stream_is_no_answer(form: Format) -> None:
    with pytest.raises(ProviderError, match="cut short"):
        form.module.Reader().finish()


@each_format
def test_a_long_line_in_small_chunks_takes_no_longer_than_its_length(form: Format) -> None:
    events = [TextDelta("x" * 300_000), StreamEnd(finish=Finish.STOP, usage=Usage())]
    stream = b"".join(encode_stream(form.module, events, model="m"))
    assert read(form, stream, 3).text == "x" * 300_000


# --- lines and events ------------------------------------------------------------------------------


def test_lines_end_with_lf_cr_lf_or_cr_even_between_chunks() -> None:
    for text in (b"a\nb\n\nc", b"a\r\nb\r\n\r\nc", b"a\rb\r\rc"):
        for size in (1, 2, 3, 99):
            lines = Lines()
            found = [line for i in range(0, len(text), size) for line in lines.feed(text[i : i + size])]
            assert found + lines.rest() == [b"a", b"b", b"", b"c"]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_with_comments_names_and_several_lines_of_data(size: int, end: bytes) -> None:
    text = end.join(
        [
            b"\xef\xbb\xbf: hello",
            b"event: a",
            b"id: 7",
            b"data: one",
            b"",
            b":",
            b"data:two",
            b"data:  three",
            b"data",
            b"",
            b"",
            b"data: x",
        ]
    )
    events = Events()
    found = [data for i in range(0, len(text), size) for data in events.feed(text[i : i + size])]
    assert found == [b"one", b"two\n three"]
    assert events.rest() == [b"x"]


def test_a_payload_may_be_spread_over_lines() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "a b"}, "finish_reason": "stop"}]}
    lines = json.dumps(chunk, indent=1).splitlines()
    stream = "\r\n".join([": ping", *(f"data: {line}" for line in lines), "", "data: [DONE]"]).encode()
    reader = chat.Reader()
    assert reader.feed(stream) == [TextDelta("a b")]
    assert reader.finish().text == "a b"


# --- errors inside a stream ------------------------------------------------------------------------

_RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}


@pytest.mark.parametrize(
    ("form", "stream", "kind"),
    [
        (chat, _sse({"error": {"message": "busy", "type": "server_error", "code": 503}}), FailureKind.OVERLOADED),
        (chat, _sse({"error": {"message": "no", "type": "invalid_request_error"}}), FailureKind.BAD_REQUEST),
        (chat, _sse({"error": {"message": "x", "code": "rate_limit_exceeded"}}), FailureKind.RATE_LIMIT),
        (chat, _sse({"error": {"message": "x", "code": "insufficient_quota"}}), FailureKind.QUOTA),
        (chat, _sse({"error": "CUDA out of memory"}), FailureKind.TRANSIENT),
        (
            messages,
            _sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            FailureKind.OVERLOADED,
        ),
        (messages, _sse({"type": "error", "error": {"type": "api_error", "message": "oops"}}), FailureKind.TRANSIENT),
        (messages, _sse({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}), FailureKind.RATE_LIMIT),
        (messages, _sse({"type": "error", "error": {"type": "authentication_error", "message": "x"}}), FailureKind.AUTH),
        (responses, _sse({"type": "error", "code": "rate_limit_exceeded", "message": "x"}), FailureKind.RATE_LIMIT),
        (responses, _sse({"type": "error", "error": {"type": "server_error", "message": "x"}}), FailureKind.TRANSIENT),
        (
            responses,
            _sse({"type": "response.failed", "response": {"output": [], "status": "failed", "error": {"code": "server_error"}}}),
            FailureKind.TRANSIENT,
        ),
        (gemini, _sse({"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}), FailureKind.OVERLOADED),
        (gemini, _sse({"error": {"code": 429, "message": "x", "details": [_RETRY]}}), FailureKind.RATE_LIMIT),
        (ollama, b'{"error": "an error was encountered while running the model"}\n', FailureKind.TRANSIENT),
    ],
)
def test_an_error_in_the_stream_is_raised_at_once_and_classified(form: object, stream: bytes, kind: FailureKind) -> None:
    reader = form.Reader()  # type: ignore[attr-defined]
    with pytest.raises(ProviderError) as caught:
        reader.feed(stream)
    assert caught.value.kind is kind
    with pytest.raises(ProviderError) as again:
        reader.finish()
    assert again.value is caught.value
    if kind is FailureKind.RATE_LIMIT:
        assert isinstance(caught.value, RateLimitError)


def test_google_says_how_long_to_wait_even_in_a_stream() -> None:
    with pytest.raises(RateLimitError) as caught:
        gemini.Reader().feed(_sse({"error": {"code": 429, "message": "x", "details": [_RETRY]}}))
    assert caught.value.retry_after == 7


def test_a_missing_model_is_told_as_one() -> None:
    with pytest.raises(MissingModel):
        messages.Reader().feed(_sse({"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}))


def test_an_error_after_words_is_still_an_error() -> None:
    reader = chat.Reader()
    assert reader.feed(_sse({"choices": [{"index": 0, "delta": {"content": "half"}}]})) == [TextDelta("half")]
    with pytest.raises(ProviderError):
        reader.feed(_sse({"error": {"message": "gone"}}))


# --- how real servers stray ------------------------------------------------------------------------


def _chunk(delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def test_chat_usage_comes_after_the_finish_reason() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    stream = _sse(_chunk({"content": "x"}), _chunk({}, "stop"), {"choices": [], "usage": usage}, b"[DONE]")
    reader = chat.Reader()
    assert reader.feed(stream)[-1] == StreamEnd(finish=Finish.STOP, usage=Usage(input_tokens=5, output_tokens=2))


def test_chat_without_the_closing_marker_is_whole_once_it_gave_a_reason() -> None:
    assert read(FORMATS[0], _sse(_chunk({"content": "x"}), _chunk({}, "length")), 9).finish is Finish.LENGTH
    with pytest.raises(ProviderError, match="cut short"):
        read(FORMATS[0], _sse(_chunk({"content": "x"}), b"[DONE]"), 9)


def test_chat_calls_without_a_place_are_told_apart_by_their_id() -> None:
    calls = [{"id": i, "function": {"name": "f", "arguments": "{}"}} for i in ("a", "b")]
    reply = read(FORMATS[0], _sse(_chunk({"tool_calls": calls}), _chunk({}, "stop"), b"[DONE]"), 50)
    assert [call.id for call in reply.tool_calls] == ["a", "b"]
    assert reply.finish is Finish.TOOL


def test_chat_reads_the_first_choice_only() -> None:
    two = {
        "choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"}]
    }
    assert read(FORMATS[0], _sse(two, b"[DONE]"), 99).text == "yes"


def test_chat_refusals_are_refusals_in_a_stream_too() -> None:
    reply = read(FORMATS[0], _sse(_chunk({"refusal": "I will "}), _chunk({"refusal": "not."}), _chunk({}, "stop")), 99)
    assert (reply.text, reply.finish) == ("I will not.", Finish.REFUSED)


def test_messages_unknown_events_and_pings_are_passed_over() -> None:
    stream = _sse(
        {
            "type": "message_start",
            "message": {"model": "m", "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1}},
        },
        {"type": "ping"},
        {"type": "news", "delta": "of a form nobody knows", "index": "x"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "now", "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ""}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )
    reply = read(FORMATS[2], stream, 11)
    assert reply.parts == (ThinkingPart(text="hm", seal="c2ln", format="messages"),)
    assert reply.tool_calls == (ToolCall(id="t", name="now", arguments="{}"),)
    assert reply.usage == Usage(input_tokens=7, cached_tokens=4, output_tokens=9)
    assert reply.finish is Finish.TOOL


def test_responses_that_come_whole_at_the_end_are_read() -> None:
    """Servers that only imitate the format may send no pieces."""
    item = {"type": "message", "content": [{"type": "output_text", "text": "all"}]}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    last = {"type": "response.completed", "response": {"status": "completed", "output": [item, call], "model": "m"}}
    reply = read(FORMATS[1], _sse(last), 30)
    assert (reply.text, reply.finish, reply.tool_calls[0].name) == ("all", Finish.TOOL, "f")


def test_responses_thoughts_are_paragraphs_and_keep_their_seal() -> None:
    stream = _sse(
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}},
        {"type": "response.reasoning_summary_part.added", "summary_index": 0, "output_index": 0, "part": {}},
        {"type": "response.reasoning_summary_text.delta", "delta": "one", "summary_index": 0, "output_index": 0},
        {"type": "response.reasoning_summary_part.added", "summary_index": 1, "output_index": 0, "part": {}},
        {"type": "response.reasoning_summary_text.delta", "delta": "two", "summary_index": 1, "output_index": 0},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {"type": "reasoning", "id": "rs_1", "encrypted_content": "gA"},
        },
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    )
    assert read(FORMATS[1], stream, 64).parts == (ThinkingPart(text="one\n\ntwo", seal="gA", format="responses", id="rs_1"),)


def test_gemini_signatures_stay_with_their_call() -> None:
    call = {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    other = {"functionCall": {"name": "f", "args": {}}}
    chunk = {"responseId": "r1", "candidates": [{"content": {"parts": [call, other]}}]}
    last = {
        "candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 1},
    }
    reply = read(FORMATS[3], _sse(chunk, last), 17)
    assert [(c.arguments, c.seal) for c in reply.tool_calls] == [('{"a": 1}', "c2ln"), ("{}", "")]
    assert len({c.id for c in reply.tool_calls}) == 2
    assert reply.finish is Finish.TOOL


def test_gemini_blocked_prompts_are_filtered() -> None:
    assert read(FORMATS[3], _sse({"promptFeedback": {"blockReason": "SAFETY"}}), 17).finish is Finish.FILTERED


def test_ollama_calls_in_several_lines_are_counted_on() -> None:
    lines = [{"message": {"tool_calls": [{"function": {"name": n, "arguments": {}}}]}, "done": False} for n in ("a", "b")]
    last = {
        "message": {"content": ""},
        "done": True,
        "done_reason": "stop",
        "total_duration": 3_000_000_000,
        "load_duration": 10**9,
    }
    reply = read(FORMATS[4], b"\n\n".join(map(msgspec.json.encode, [*lines, last])), 5)
    assert [call.name for call in reply.tool_calls] == ["a", "b"]
    assert (reply.finish, reply.model_seconds) == (Finish.TOOL, 2.0)


def test_what_comes_after_the_end_is_not_read() -> None:
    reader = chat.Reader()
    reader.feed(_sse(_chunk({"content": "x"}, "stop"), b"[DONE]", _chunk({"content": "more"})) + b"data: garbage\n\n")
    assert reader.finish().text == "x"


@each_format
def test_seals_of_another_format_are_not_streamed(form: Format) -> None:
    events = [ThinkingDelta("hm"), ThinkingSeal(seal="sEcReT", format="other"), TextDelta("x"), StreamEnd(finish=Finish.STOP)]
    assert b"sEcReT" not in b"".join(encode_stream(form.module, events))


@each_format
def test_pieces_of_calls_that_alternate_are_put_together(form: Format) -> None:
    events = [ToolCallDelta(index=i, id=f"c{i}", name="f", arguments='{"a":') for i in (0, 1)]
    events += [ToolCallDelta(index=i, arguments="1}") for i in (0, 1)]
    stream = b"".join(encode_stream(form.module, [*events, StreamEnd(finish=Finish.TOOL, usage=Usage())], model="m"))
    assert [call.parsed() for call in read(form, stream, 20).tool_calls] == [{"a": 1}, {"a": 1}]
