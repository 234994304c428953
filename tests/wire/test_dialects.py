"""Each dialect says what we mean and is understood."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ollama_wire as ollama

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import Finish, Usage, assistant, system, user
from tiebreak.core.model import Request
from tiebreak.wire import chat, gemini, messages

TALK = (system("Be brief."), user("Hi"), assistant("Hello"), user("Who?"))
SETTINGS = {"temperature": 0.5, "max_tokens": 9, "stop": "X", "top_p": 0.9}
ASKED = Request(model="m", messages=TALK, settings=SETTINGS, options=("first-label", "second-label"), nonce="trial-identity")
PLAIN = Request(model="m", messages=(user("Hi"),))
DIALECTS = [chat, messages, gemini, ollama]
IDS = ["chat", "messages", "gemini", "ollama"]


def body(data):
    return json.dumps(data).encode()


def test_chat_is_encoded():
    """Roles and settings go as they are."""
    encoded = chat.encode(ASKED)
    assert encoded["messages"] == [{"role": m.role, "content": m.text} for m in TALK]
    assert (encoded["model"], encoded["temperature"], encoded["max_tokens"], encoded["stop"]) == ("m", 0.5, 9, "X")


def test_messages_are_encoded():
    """The system's words stand apart; a limit is always sent."""
    encoded = messages.encode(ASKED)
    assert encoded["system"] == "Be brief."
    assert [m["role"] for m in encoded["messages"]] == ["user", "assistant", "user"]
    assert (encoded["max_tokens"], encoded["stop_sequences"], encoded["temperature"]) == (9, ["X"], 0.5)
    assert messages.encode(PLAIN)["max_tokens"] == messages.DEFAULT_MAX_TOKENS
    assert "system" not in messages.encode(PLAIN)


def test_gemini_is_encoded():
    """The assistant is called model, settings have camel names."""
    encoded = gemini.encode(ASKED)
    assert [c["role"] for c in encoded["contents"]] == ["user", "model", "user"]
    assert encoded["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert encoded["generationConfig"] == {"temperature": 0.5, "topP": 0.9, "maxOutputTokens": 9, "stopSequences": ["X"]}
    assert set(gemini.encode(PLAIN)) == {"contents"}


def test_ollama_is_encoded():
    """The context size is always sent, or a long prompt would be cut silently."""
    encoded = ollama.encode(ASKED)
    assert encoded["stream"] is False
    assert encoded["options"] == {
        "num_ctx": ollama.DEFAULT_CONTEXT_TOKENS,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": "X",
        "num_predict": 9,
    }
    assert ollama.encode(Request(model="m", messages=TALK, settings={"num_ctx": 99}))["options"]["num_ctx"] == 99


@pytest.mark.parametrize("dialect", DIALECTS, ids=IDS)
def test_only_what_was_asked_for_is_sent(dialect):
    """Neither the options nor the trial's identity reach a server, nor settings nobody set."""
    sent = json.dumps(dialect.encode(ASKED))
    assert "first-label" not in sent
    assert "trial-identity" not in sent
    assert "temperature" not in json.dumps(dialect.encode(PLAIN))


@pytest.mark.parametrize(
    ("choice", "text", "finish", "thinking"),
    [
        ({"message": {"content": "Hi"}, "finish_reason": "stop"}, "Hi", Finish.STOP, ""),
        ({"message": {"content": "Hi"}, "finish_reason": "length"}, "Hi", Finish.LENGTH, ""),
        ({"message": {"content": "Hi"}, "finish_reason": None}, "Hi", Finish.STOP, ""),
        ({"message": {"content": "Hi"}, "finish_reason": "new"}, "Hi", Finish.STOP, ""),
        ({"message": {"content": None}, "finish_reason": "content_filter"}, "", Finish.FILTERED, ""),
        ({"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}, "No.", Finish.REFUSED, ""),
        ({"message": {"content": [{"type": "text", "text": "H"}, {"text": "i"}]}}, "Hi", Finish.STOP, ""),
        ({"message": {"content": "Hi", "reasoning_content": "hm"}}, "Hi", Finish.STOP, "hm"),
        ({"message": {"content": "Hi", "reasoning": "hm"}}, "Hi", Finish.STOP, "hm"),
    ],
)
def test_chat_is_decoded(choice, text, finish, thinking):
    """Text, reason to stop and thoughts, each in its place."""
    reply = chat.decode(body({"choices": [choice], "model": "m-1"}))
    assert (reply.text, reply.finish, reply.thinking, reply.model, reply.usage) == (text, finish, thinking, "m-1", None)


def test_chat_usage_is_decoded():
    """Cached and reasoning tokens are parts of the whole."""
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    assert chat.decode(body({"choices": [{"message": {"content": "x"}}], "usage": usage})).usage == Usage(
        input_tokens=10, cached_tokens=4, output_tokens=5, reasoning_tokens=3
    )


def test_more_from_the_cache_than_was_sent_is_no_count():
    """It would make a call cost less than nothing was asked for: such a bill is nobody's."""
    sent = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 11}}
    assert chat.decode(body({"choices": [{"message": {"content": "x"}}], "usage": sent})).usage is None
    told = {"prompt_eval_count": 10, "eval_count": 5, "prompt_eval_cached_count": 11}
    reply = ollama.decode(body({"message": {"content": "x"}, "done": True, "done_reason": "stop", **told}))
    assert reply.usage == Usage(input_tokens=10, cached_tokens=10, output_tokens=5), "it costs nothing"


def test_messages_are_decoded():
    """Thoughts are apart from the text; everything sent is counted, cached or not."""
    reply = messages.decode(
        body(
            {
                "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "H"}, {"type": "text", "text": "i"}],
                "stop_reason": "max_tokens",
                "usage": {"input_tokens": 1, "output_tokens": 5, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4},
                "model": "m-1",
            }
        )
    )
    assert (reply.text, reply.thinking, reply.finish, reply.model) == ("Hi", "hm", Finish.LENGTH, "m-1")
    assert reply.usage == Usage(input_tokens=7, cached_tokens=4, cache_write_tokens=2, output_tokens=5)


@pytest.mark.parametrize(
    ("reason", "finish"), [("end_turn", Finish.STOP), ("refusal", Finish.REFUSED), ("tool_use", Finish.TOOL)]
)
def test_messages_say_why_they_stopped(reason, finish):
    """In our words."""
    assert messages.decode(body({"content": [], "stop_reason": reason})).finish is finish


def test_gemini_is_decoded():
    """Thoughts are marked parts, and are counted as output."""
    reply = gemini.decode(
        body(
            {
                "candidates": [{"content": {"parts": [{"text": "hm", "thought": True}, {"text": "Hi"}]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 4},
                "modelVersion": "m-1",
            }
        )
    )
    assert (reply.text, reply.thinking, reply.finish, reply.model) == ("Hi", "hm", Finish.STOP, "m-1")
    assert reply.usage == Usage(input_tokens=3, output_tokens=6, reasoning_tokens=4)


@pytest.mark.parametrize(
    ("data", "finish"),
    [
        ({"candidates": [{"finishReason": "SAFETY"}]}, Finish.FILTERED),
        ({"candidates": [{"finishReason": "MAX_TOKENS", "content": {}}]}, Finish.LENGTH),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, Finish.FILTERED),
    ],
)
def test_gemini_may_say_nothing_for_a_reason(data, finish):
    """A blocked answer is an answer without text."""
    assert (gemini.decode(body(data)).text, gemini.decode(body(data)).finish) == ("", finish)


def test_ollama_is_decoded():
    """Loading the model is not the model's time."""
    data = {
        "message": {"content": "Hi", "thinking": "hm"},
        "done": True,
        "done_reason": "length",
        "total_duration": 3_000_000_000,
        "load_duration": 1_000_000_000,
        "prompt_eval_count": 3,
        "eval_count": 2,
    }
    reply = ollama.decode(body(data))
    assert (reply.text, reply.thinking, reply.finish) == ("Hi", "hm", Finish.LENGTH)
    assert reply.model_seconds == pytest.approx(2.0)
    assert reply.usage == Usage(input_tokens=3, output_tokens=2)


def test_ollama_lists_models_that_can_chat():
    """No embedding models, nothing in the cloud."""
    tags = [
        {"name": "llama3:8b"},
        {"name": "nomic-embed-text"},
        {"name": "big:cloud"},
        {"name": "x", "capabilities": ["embedding"]},
        {"name": "y", "capabilities": ["completion"]},
    ]
    assert ollama.decode_tags(body({"models": tags})) == {"llama3:8b": "", "y": ""}


BROKEN = [
    b"",
    b"<html>busy</html>",
    b"{}",
    b"null",
    b"[]",
    b'{"choices": 5}',
    b"\xff\xfe",
    b"[" * 99_999,
]


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("dialect", DIALECTS, ids=IDS)
def test_an_answer_that_is_none_is_malformed(dialect, data):
    """Behind a 200 stood something else: that is a failure which may pass, never an empty answer."""
    with pytest.raises(ProviderError) as caught:
        dialect.decode(data)
    assert caught.value.kind is FailureKind.MALFORMED


@pytest.mark.parametrize("dialect", DIALECTS, ids=IDS)
def test_an_error_behind_a_good_status_is_that_error(dialect):
    """It is classified by what it says, as one with a status of its own is."""
    with pytest.raises(ProviderError, match="the server reported: x") as caught:
        dialect.decode(b'{"error": {"message": "x"}}')
    assert caught.value.kind is FailureKind.TRANSIENT


def test_an_unfinished_ollama_answer_is_malformed():
    """A cut answer is not an answer."""
    with pytest.raises(ProviderError, match="before it is done"):
        ollama.decode(body({"message": {"content": "Hi"}, "done": False}))


@pytest.mark.parametrize("dialect", DIALECTS, ids=IDS)
@given(data=st.binary(max_size=60) | st.text().map(str.encode))
def test_no_bytes_raise_anything_else(dialect, data):
    """A reply or a ProviderError, whatever the server sent."""
    try:
        dialect.decode(data)
    except ProviderError as error:
        # By chance the bytes may be an error that a server reports.
        assert error.kind is FailureKind.MALFORMED or str(error).startswith("the server reported")
