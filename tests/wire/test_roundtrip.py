"""What is written in a format is read again as what it was."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import ollama_wire as ollama
from wire.making import FORMATS, Format, hostile, replies, requests, survive, used

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import Finish, user
from tiebreak.core.model import Request
from tiebreak.wire import chat, gemini, messages, responses

each_format = pytest.mark.parametrize("form", FORMATS, ids=str)
quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@each_format
@quick
@given(data=st.data())
def test_a_request_survives_writing_and_reading(form: Format, data: st.DataObject) -> None:
    request = data.draw(requests(form))
    body = form.module.encode(request)
    known = {"model": "m", "stream": request.stream} if form.name == "gemini" else {}
    assert form.module.decode_request(msgspec.json.encode(body), **known) == request
    assert form.module.decode_request(body, **known) == request


@each_format
@quick
@given(data=st.data())
def test_a_reply_survives_writing_and_reading(form: Format, data: st.DataObject) -> None:
    reply = data.draw(replies(form))
    assert form.module.decode(msgspec.json.encode(form.module.encode_reply(reply))) == reply


@each_format
@quick
@given(data=st.data())
def test_a_reply_continues_the_conversation_unchanged(form: Format, data: st.DataObject) -> None:
    """What the provider sealed goes back to it as it came."""
    turn = data.draw(replies(form)).as_message()
    request = Request(model="m", messages=(user("hi"), turn, user("go on")), settings={"max_tokens": 9})
    again = form.module.decode_request(form.module.encode(request))
    kept = [part for part in turn.parts if getattr(part, "seal", "")]
    assert [part for part in again.messages[1].parts if getattr(part, "seal", "")] == kept
    assert again.messages[1].tool_calls == turn.tool_calls
    assert again.messages[1].text == turn.text


@pytest.mark.parametrize("other", FORMATS, ids=str)
@each_format
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_reply_of_one_format_can_be_told_in_every_other(form: Format, other: Format, data: st.DataObject) -> None:
    """Words and tool calls are the same."""
    reply = data.draw(replies(form))
    told = other.module.decode(msgspec.json.encode(other.module.encode_reply(reply)))
    assert told.text == reply.text
    assert [(c.name, c.parsed()) for c in told.tool_calls] == [(c.name, c.parsed()) for c in reply.tool_calls]


@each_format
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=hostile, size=st.integers(1, 50))
def test_bytes_of_any_kind_end_in_an_answer_or_a_provider_error(form: Format, data: bytes, size: int) -> None:
    survive(form, data, size)


@each_format
def test_deep_nesting_ends_in_a_provider_error(form: Format) -> None:
    deep = b'{"a":' * 100_000
    survive(form, deep, 1 << 16)
    survive(form, b'{"error":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 1 << 16)


def test_half_a_character_does_not_cost_the_answer() -> None:
    """Models cut at their limit leave lone surrogates and broken UTF-8."""
    for broken in (rb"caf\ud83d", b"caf\xf0\x9f", rb"caf\uDE00"):
        data = b'{"choices":[{"message":{"content":"' + broken + b'"},"finish_reason":"length"}]}'
        assert chat.decode(data).text.startswith("caf\N{REPLACEMENT CHARACTER}")
    whole = rb'{"choices":[{"message":{"content":"\\ud83d \ud83d\ude00 \ud83d"}}]}'
    assert chat.decode(whole).text == "\\ud83d \N{GRINNING FACE} \N{REPLACEMENT CHARACTER}"


def test_an_error_behind_a_good_status_is_classified() -> None:
    """Some servers answer 200 and then say what went wrong."""
    with pytest.raises(ProviderError) as caught:
        chat.decode(b'{"error": {"code": 429, "message": "slow down"}}')
    assert caught.value.kind is FailureKind.RATE_LIMIT
    with pytest.raises(ProviderError, match="too long") as caught:
        chat.decode(b'{"error": {"code": "context_length_exceeded", "message": "prompt is too long"}}')
    assert caught.value.kind is FailureKind.CONTEXT_LENGTH


EVERYTHING = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.05,
    "max_tokens": 100,
    "stop": ["END"],
    "seed": 7,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.2,
    "repeat_penalty": 1.1,
    "num_ctx": 4096,
    "reasoning_effort": "high",
}


@each_format
def test_every_setting_is_sent_or_named_as_unsupported(form: Format) -> None:
    """No setting is dropped in silence."""
    for name, value in EVERYTHING.items():
        plain = Request(model="m", messages=(user("hi"),))
        asked = Request(model="m", messages=(user("hi"),), settings={name: value})
        sent = form.module.encode(asked) != form.module.encode(plain)
        supported = name not in form.module.UNSUPPORTED or name in getattr(form.module, "EXTENSIONS", ())
        assert sent == supported, name


@each_format
def test_every_ability_is_sent_or_named_as_unsupported(form: Format) -> None:
    plain = Request(model="m", messages=(user("hi"),))
    for asked in (
        Request(model="m", messages=(user("hi"),), logprobs=2),
        Request(model="m", messages=(user("hi"),), tool_choice="required"),
        Request(model="m", messages=(user("hi"),), schema={"type": "object"}),
    ):
        (name,) = used(asked)
        assert (form.module.encode(asked) != form.module.encode(plain)) == (name not in form.module.UNSUPPORTED), name


def test_effort_in_the_words_of_each_format() -> None:
    def body(form: object, effort: object, **settings: object) -> dict[str, object]:
        return form.encode(Request(model="m", messages=(user("hi"),), settings={"reasoning_effort": effort, **settings}))  # type: ignore[attr-defined,no-any-return]

    assert body(chat, "low")["reasoning_effort"] == "low"
    assert body(responses, "low")["reasoning"] == {"effort": "low"}
    assert body(responses, "low")["include"] == ["reasoning.encrypted_content"]
    adaptive = body(messages, "low")
    assert adaptive["thinking"] == {"type": "adaptive"}
    assert adaptive["output_config"] == {"effort": "low"}
    budget = body(messages, 8000)
    assert budget["thinking"] == {"type": "enabled", "budget_tokens": 8000}
    assert budget["max_tokens"] == 8000 + messages.DEFAULT_MAX_TOKENS
    assert body(messages, 8000, max_tokens=9000)["max_tokens"] == 9000
    assert body(gemini, "low")["generationConfig"] == {"thinkingConfig": {"thinkingLevel": "LOW"}}
    assert body(gemini, 0)["generationConfig"] == {"thinkingConfig": {"thinkingBudget": 0}}
    assert body(ollama, "low")["think"] == "low"
    assert body(ollama, "none")["think"] is False


def test_a_schema_is_strict_only_when_it_is_closed() -> None:
    """OpenAI refuses to enforce a schema that leaves anything open."""
    closed = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    for schema, strict in ((closed, True), ({"type": "object", "properties": {"a": closed}}, False), ({"anyOf": [closed]}, True)):
        request = Request(model="m", messages=(user("hi"),), schema=schema)
        assert chat.encode(request)["response_format"]["json_schema"]["strict"] is strict
        assert responses.encode(request)["text"]["format"]["strict"] is strict


def test_unknown_finish_words_are_an_ordinary_stop() -> None:
    assert chat.decode(b'{"choices":[{"message":{"content":"x"},"finish_reason":"eos"}]}').finish is Finish.STOP
    assert gemini.decode(b'{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"OTHER"}]}').finish is Finish.STOP
