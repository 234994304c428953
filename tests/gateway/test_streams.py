"""Answers while they come: event by event, kept alive, given up, and never tried again once begun."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import ClientSession
from support.agent_model import DONE
from support.clients import CLIENTS
from support.gateways import OWN, url_of
from support.packages import need_packages

PATHS = {
    "chat": ("/v1/chat/completions", {"stream": True, "messages": [{"role": "user", "content": "hi"}]}),
    "responses": ("/v1/responses", {"stream": True, "input": "hi"}),
    "messages": ("/v1/messages", {"stream": True, "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}]}),
    "gemini": ("/v1beta/models/x:streamGenerateContent?alt=sse", {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
}


def ask(session, gateway, dialect, **more):
    path, body = PATHS[dialect]
    headers = {"Authorization": f"Bearer {gateway.key}"}
    return session.post(url_of(gateway) + path, json={"model": "x"} | body | more, headers=headers)


@pytest.mark.parametrize("provider", OWN)
@pytest.mark.parametrize("dialect", PATHS)
async def test_the_first_piece_is_out_before_the_last_has_come(dialect, provider, opened, model):
    """Nothing is gathered on the way, translated or passed on."""
    model.pause_s = 0.1
    gateway = await opened(provider, "noop")
    async with ClientSession() as session, ask(session, gateway, dialect) as response:
        first = await response.content.readany()
        sent = len(model.sent)
        rest = await response.content.read()
    assert first
    assert sent < len(model.sent)
    half = DONE[: len(DONE) // 2]
    assert half.encode() in first + rest


@pytest.mark.parametrize("dialect", PATHS)
async def test_a_slow_model_is_kept_alive_for(dialect, opened, model):
    """Pings fill the silence, and the official client does not stumble over them."""
    model.slow_s = 0.6
    gateway = await opened("ollama", "slow", ping_every_s=0.1)
    async with ClientSession() as session, ask(session, gateway, dialect) as response:
        before = await response.content.read(1)
        assert response.status == 200
        assert len(model.sent) == 0, before
        await response.content.read()
    client = CLIENTS[dialect](url_of(gateway), gateway.key, streamed=True)
    turns = await client.work("Fix it.")
    assert turns[-1].text == DONE


async def test_nobody_is_pinged_while_pieces_come(opened, model):
    model.pause_s = 0.05
    gateway = await opened("ollama", "noop", ping_every_s=0.5)
    async with ClientSession() as session, ask(session, gateway, "chat") as response:
        assert b"keep-alive" not in await response.content.read()


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("provider", ["openai", "ollama"])
async def test_a_hang_up_reaches_the_model_at_once(provider, streamed, opened, model):
    """Nobody generates for a reader who has left."""
    model.slow_s = 120
    gateway = await opened(provider, "slow")
    async with ClientSession() as session:
        asking = asyncio.ensure_future(ask(session, gateway, "chat", stream=streamed).__aenter__())
        while not model.ledger:
            await asyncio.sleep(0.01)
        asking.cancel()
    async with asyncio.timeout(60):
        while not model.hung_up:
            await asyncio.sleep(0.01)
    assert gateway.answers.given_up == 1


async def test_usage_is_asked_for_and_its_chunk_kept_from_who_did_not_ask(opened, model):
    """A stream says what it cost only when asked to; a plain client cannot read the chunk that says so."""
    gateway = await opened("openai", "noop")
    async with ClientSession() as session:
        async with ask(session, gateway, "chat") as response:
            plain = await response.read()
        async with ask(session, gateway, "chat", stream_options={"include_usage": True}) as response:
            wanted = await response.read()
    assert model.ledger[0].body["stream_options"] == {"include_usage": True}
    assert gateway.answers.replies[0].usage is not None
    chunks = [json.loads(line[6:]) for line in plain.splitlines() if line.startswith(b"data: {")]
    assert all(chunk["choices"] for chunk in chunks)
    assert b'"usage"' in wanted
    assert plain.endswith(b"data: [DONE]\n\n")
    assert DONE[:10].encode() in plain


@pytest.mark.parametrize("dialect", PATHS)
async def test_an_error_is_final_and_in_the_dialects_form(dialect, opened, model):
    """400, whatever the server said: agents that see 429 or 500 ask again and again."""
    for status in (401, 429, 500):
        gateway = await opened("ollama", f"status-{status}")
        async with ClientSession() as session, ask(session, gateway, dialect) as response:
            assert response.status == 400
            error = (await response.json())["error"]
        assert "a scripted failure" in error["message"]


@pytest.mark.parametrize(("dialect", "word"), [("chat", "error"), ("responses", "response.failed"), ("messages", "error")])
async def test_an_error_after_a_ping_is_told_in_the_stream(dialect, word, opened, model):
    """The status is out by then; the official clients raise all the same."""
    need_packages("anthropic", "openai")
    import anthropic
    import openai

    gateway = await opened("ollama", "fix", ping_every_s=0.05)
    gateway.answers.provider = Failing()
    async with ClientSession() as session, ask(session, gateway, dialect) as response:
        assert response.status == 200
        assert word.encode() in await response.read()
    client = CLIENTS[dialect](url_of(gateway), gateway.key, streamed=True)
    with pytest.raises((openai.OpenAIError, anthropic.AnthropicError, RuntimeError), match=r"lost its way|response\.completed"):
        await client.ask("hi")


class Failing:
    async def generate(self, request, listener):
        from tiebreak.core.errors import ProviderError

        await asyncio.sleep(0.2)
        raise ProviderError("the model lost its way")
