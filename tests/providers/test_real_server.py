"""The real llama.cpp, with the real embedded model, takes our requests in three formats."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from tiebreak.core.embedded import NAME as EMBEDDED
from tiebreak.core.errors import ProviderError
from tiebreak.core.message import Finish, Message, Reply, system, user
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Endpoint
from tiebreak.providers.anthropic import Anthropic
from tiebreak.providers.llama_cpp import LlamaCpp
from tiebreak.providers.openai import Responses

pytestmark = pytest.mark.needs("embedded")
QUESTION = (system("You are brief."), user("What is the capital of France?"))


@pytest.fixture
async def embedded() -> AsyncIterator[LlamaCpp]:
    provider = LlamaCpp(Endpoint(max_connections=1))
    await provider.open(ModelRef(provider="llama_cpp", name=EMBEDDED, label=EMBEDDED))
    yield provider
    await provider.close()


def _request(messages: tuple[Message, ...] = QUESTION, *, stream: bool, max_tokens: int = 24) -> Request:
    settings = {"temperature": 0.0, "max_tokens": max_tokens}
    return Request(model=EMBEDDED, messages=messages, settings=settings, stream=stream)


def _endpoint(embedded: LlamaCpp) -> tuple[str, str]:
    server = embedded._servers[EMBEDDED]
    return server.base_url, server._endpoint.api_key


def _check(whole: Reply, streamed: Reply) -> None:
    assert whole.text == streamed.text
    assert whole.text.strip()
    assert whole.usage is not None
    assert streamed.usage is not None
    assert whole.usage.output_tokens == streamed.usage.output_tokens > 0
    assert whole.finish == streamed.finish
    assert streamed.first_token_seconds is not None
    assert streamed.first_token_seconds > 0


async def test_chat_whole_and_streamed(embedded: LlamaCpp) -> None:
    whole = await embedded.generate(_request(stream=False))
    _check(whole, await embedded.generate(_request(stream=True)))
    cut = await embedded.generate(_request(stream=True, max_tokens=2))
    assert cut.finish is Finish.LENGTH


async def test_messages_whole_and_streamed(embedded: LlamaCpp) -> None:
    url, key = _endpoint(embedded)

    class WithBearer(Anthropic):
        def headers(self) -> dict[str, str]:
            return super().headers() | {"Authorization": f"Bearer {key}"}

    provider = WithBearer(Endpoint(base_url=url, api_key=key))
    try:
        _check(await provider.generate(_request(stream=False)), await provider.generate(_request(stream=True)))
    finally:
        await provider.close()


async def test_responses_whole_and_streamed(embedded: LlamaCpp) -> None:
    url, key = _endpoint(embedded)
    provider = Responses(Endpoint(base_url=f"{url}/v1", api_key=key))
    try:
        _check(await provider.generate(_request(stream=False)), await provider.generate(_request(stream=True)))
    finally:
        await provider.close()


@pytest.mark.parametrize("continuation", ["Paris", " Paris", "The capital is Paris.", "Paris, of course; what else?"])
async def test_likelihood_is_what_forcing_token_by_token_gives(embedded: LlamaCpp, continuation: str) -> None:
    """Two ways to the same number: a grammar of tokens at once, and a bias towards each token in turn."""
    found = await embedded.likelihood(EMBEDDED, QUESTION, continuation)
    server = embedded._servers[EMBEDDED]
    turns = [{"role": message.role, "content": message.text} for message in QUESTION]
    prompt = json.loads(await server.post("/apply-template", {"messages": turns}))["prompt"]
    tokens = json.loads(await server.post("/tokenize", {"content": prompt, "add_special": True}))["tokens"]
    stepwise = []
    for token in found.tokens:
        body = {"prompt": tokens, "n_predict": 1, "n_probs": 1, "temperature": 0, "logit_bias": [[token, 1e6]]}
        made = json.loads(await server.post("/completion", body))["completion_probabilities"][0]
        stepwise.append(made["logprob"])
        tokens.append(token)

    assert found.logprobs == pytest.approx(stepwise, abs=1e-4)
    assert found.total < 0


async def test_the_likelihood_of_raw_text_knows_no_turns(embedded: LlamaCpp) -> None:
    """The first token is as likely as in a completion of the bare text, and what was read is counted."""
    text = "The capital of France is"
    found = await embedded.likelihood(EMBEDDED, (user(text),), " Paris", raw=True)
    server = embedded._servers[EMBEDDED]
    body = {"prompt": text, "n_predict": 1, "n_probs": 50, "temperature": 0}
    likely = json.loads(await server.post("/completion", body))["completion_probabilities"][0]["top_logprobs"]
    assert {entry["id"]: entry["logprob"] for entry in likely}[found.tokens[0]] == pytest.approx(found.logprobs[0], abs=1e-4)
    assert found.prompt_tokens == 5
    assert (await embedded.likelihood(EMBEDDED, (user(text),), " Paris")).prompt_tokens > 5


async def test_likelihood_that_cannot_be_told_is_an_error_and_no_number(embedded: LlamaCpp) -> None:
    """The server's grammar loses its way in letters of several tokens; a wrong number would be worse than none."""
    with pytest.raises(ProviderError, match="cannot be told"):
        await embedded.likelihood(EMBEDDED, QUESTION, "Überraschung!")


async def test_likelier_is_what_makes_sense(embedded: LlamaCpp) -> None:
    paris, rome = [await embedded.likelihood(EMBEDDED, QUESTION, word) for word in ("Paris", "Rome")]
    assert paris.total > rome.total
