"""Answers kept and used again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from tiebreak.core.errors import ConfigError, FailureKind, ProviderError
from tiebreak.core.message import Reply, Usage, user
from tiebreak.core.model import ModelRef, Request, Verbatim
from tiebreak.core.redact import HIDDEN, Redactor
from tiebreak.engine.recording import Cache, Recorder, Replay, request_key

MODEL = ModelRef(provider="openai", name="m", label="m")


class Counting:
    """Answers with a number that grows, or fails when told to."""

    def __init__(self) -> None:
        self.calls = 0

    async def generate(self, request: Request, listener: Any = None) -> Reply:
        self.calls += 1
        if request.messages[0].text == "fail":
            raise ProviderError("too fast", kind=FailureKind.RATE_LIMIT, retry_after=3)
        return Reply(text=f"answer {self.calls} with sk-abcdefghijklmnopqrst", usage=Usage(input_tokens=1, output_tokens=2))


def asking(text: str = "q", **more: object) -> Request:
    return Request(model="m", messages=(user(text),), **more)  # type: ignore[arg-type]


def test_key_holds_all_that_affects_the_answer_and_nothing_else() -> None:
    key = request_key(asking())
    assert request_key(asking(nonce="x", options=("A",), stream=True)) == key
    different = [asking("other"), asking(settings={"temperature": 1}), asking(repeat=1), asking(schema={}), asking(logprobs=1)]
    assert len({key, *map(request_key, different)}) == 6


async def test_replay_says_what_was_recorded_failures_and_order_included(tmp_path: Path) -> None:
    recorder = Recorder(Counting(), tmp_path, MODEL, Redactor([]))
    said = [(await recorder.generate(asking())).text for _ in range(2)]
    with pytest.raises(ProviderError):
        await recorder.generate(asking("fail"))
    recorder.close()
    replay = Replay(tmp_path, MODEL)

    heard = [(await replay.generate(asking())).text for _ in range(2)]
    assert [text.replace("[hidden]", "sk-abcdefghijklmnopqrst") for text in heard] == said
    with pytest.raises(ProviderError, match="too fast") as caught:
        await replay.generate(asking("fail"))
    assert (caught.value.kind, caught.value.retry_after) == (FailureKind.RATE_LIMIT, 3)
    with pytest.raises(ProviderError, match="has no answer to this request"):
        await replay.generate(asking("never asked"))


async def test_no_secret_is_recorded(tmp_path: Path) -> None:
    recorder = Recorder(Counting(), tmp_path, MODEL, Redactor(["hunter2hunter2"]))
    await recorder.generate(asking("my key is hunter2hunter2"))
    recorder.close()
    kept = next(tmp_path.iterdir()).read_text()
    assert "hunter2" not in kept
    assert "sk-abc" not in kept


def test_missing_or_broken_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no recording of m"):
        Replay(tmp_path, MODEL)
    (tmp_path / "openai_m.jsonl").write_text("{broken\n")
    with pytest.raises(ConfigError, match="line 1: not a recorded exchange"):
        Replay(tmp_path, MODEL)


async def test_cache_remembers_good_answers_between_runs_and_marks_them(tmp_path: Path) -> None:
    inner = Counting()
    texts = []
    for _ in range(2):
        with contextlib.closing(Cache(inner, tmp_path, MODEL)) as cache:
            texts += [await cache.generate(asking()), await cache.generate(asking(repeat=1))]
    assert inner.calls == 2
    assert [reply.cached for reply in texts] == [False, False, True, True]
    assert texts[0].text == texts[2].text != texts[3].text


async def test_cache_remembers_no_failure_and_keeps_models_apart(tmp_path: Path) -> None:
    inner = Counting()
    other = ModelRef(provider="openai", name="m", label="n", settings={"temperature": 1})
    with contextlib.closing(Cache(inner, tmp_path, MODEL)) as one, contextlib.closing(Cache(inner, tmp_path, other)) as two:
        for cache in (one, one):
            with pytest.raises(ProviderError):
                await cache.generate(asking("fail"))
        await one.generate(asking())
        assert not (await two.generate(asking())).cached
    assert inner.calls == 4


def test_requests_only_their_provider_can_read_are_not_taken_for_each_other():
    """Their words are all they are known by; what was read is known by what it says."""
    bodies = [Verbatim(dialect="messages", body=body) for body in (b'{"a": 1}', b'{"a": 2}')]
    unread = [request_key(Request(model="m", messages=(), verbatim=body)) for body in bodies]
    read = [request_key(Request(model="m", messages=(user("hi"),), verbatim=body)) for body in (*bodies, None)]

    assert len(set(unread)) == 2
    assert len(set(read)) == 1


async def test_no_secret_is_remembered(tmp_path):
    """A server may repeat the key it was sent."""

    class Repeats:
        async def generate(self, request, listener=None):
            return Reply(text="your key is canary-key-123")

    with contextlib.closing(Cache(Repeats(), tmp_path, MODEL, Redactor(["canary-key-123"]))) as cache:
        await cache.generate(Request(model="m", messages=(user("hi"),)))
        assert (await cache.generate(Request(model="m", messages=(user("hi"),)))).text == f"your key is {HIDDEN}"
    assert b"canary-key-123" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
