"""Agents that hang up, spend, garble, starve and sneak: everything is counted, and nobody else pays."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest
from gateway.test_trial import one, reference, results, trial
from support.agent_model import USAGE, AgentModel

from tiebreak.core.message import TextDelta
from tiebreak.core.model import Price
from tiebreak.core.redact import HIDDEN, Redactor, StreamRedactor
from tiebreak.engine.gateway_calls import _Heard

pytestmark = pytest.mark.needs("bubblewrap")

AGENT = "support.hostile_agent:"


@pytest.mark.parametrize("provider", ["openai", "anthropic", "ollama"])
async def test_streams_that_are_hung_up_on_are_counted_to_the_token(model: AgentModel, tmp_path: Path, provider: str) -> None:
    """The server generates and bills them all the same."""
    model.pause_s = 0.05
    result = await one(model, "noop", f"{AGENT}HangsUp", tmp_path=tmp_path, provider=provider)

    assert len(model.ledger) == result.work.model_calls == 6
    assert result.output.usage.input_tokens == 6 * USAGE.input_tokens
    assert result.output.usage.output_tokens == 6 * USAGE.output_tokens


async def test_a_stream_that_has_no_end_is_given_up_and_estimated(model: AgentModel, tmp_path: Path, monkeypatch) -> None:
    """Nobody waits for ever for what an agent left behind."""
    monkeypatch.setattr("tiebreak.engine.gateway_calls._SETTLE_S", 0.2)
    model.pause_s = 5.0
    priced = replace(reference(model, "noop"), price=Price(input_usd=1.0, output_usd=4.0))
    (result,) = await results(trial(priced, f"{AGENT}HangsUp"), tmp_path=tmp_path)

    assert len(model.ledger) == result.work.model_calls == 6
    assert result.output.usage.input_tokens > 0
    assert result.output.usage.cost_usd > 0
    assert [step.data["estimated"] for step in result.transcript if step.data.get("aborted")] == [True] * 6


async def test_an_agent_asks_its_own_model_once_at_a_time_and_nothing_of_the_providers(model: AgentModel, tmp_path: Path) -> None:
    """Not other models, not several answers, no other tier, no tool that the provider runs on the network."""
    result = await one(model, "noop", f"{AGENT}Spends", tmp_path=tmp_path)

    (asked,) = model.ledger
    assert set(asked.body) == {"model", "messages", "max_tokens", "tools"}
    assert [tool["type"] for tool in asked.body["tools"]] == ["function"]
    left_out = next(step.text for step in result.transcript if "left out" in step.text)
    assert all(name in left_out for name in ("n", "models", "fallbacks", "service_tier", "best_of", "the tool web_search"))


async def test_what_it_asks_for_is_reserved_before_it_is_sent(model: AgentModel, tmp_path: Path) -> None:
    """With a cap of 30 cents and answers of up to 40 cents, one is sent and no second beside it."""
    priced = replace(reference(model, "noop"), price=Price(input_usd=1.0, output_usd=4.0), settings={"max_tokens": 100_000})
    events = await _events(trial(priced, f"{AGENT}Spends"), tmp_path=tmp_path, max_cost_usd=0.30)

    assert model.ledger == []
    assert "--max-cost 0.3" in events[-1].message


async def test_garbage_is_refused_and_breaks_nothing(model: AgentModel, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    result = await one(model, "noop", f"{AGENT}Garbles", tmp_path=tmp_path)

    assert result.output.text.split() == ["400"] * 9
    assert model.ledger == []
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_silent_connections_and_bombs_starve_nobody(model: AgentModel, tmp_path: Path) -> None:
    """While they come, the event loop goes on serving everybody else: nothing keeps it busy for long without a pause."""
    longest, done = 0.0, asyncio.Event()

    async def pulse() -> None:
        nonlocal longest
        while not done.is_set():
            # Its own processor time: what other programs take of a busy machine is not the gateway's doing.
            began = time.thread_time()
            await asyncio.sleep(0.01)
            longest = max(longest, time.thread_time() - began)

    beating = asyncio.ensure_future(pulse())
    result = await one(model, "noop", f"{AGENT}Starves", tmp_path=tmp_path)
    done.set()
    await beating

    assert result.output.text.splitlines()[-1] == "200", result.output.text
    assert "[400, 400, 400]" in result.output.text
    assert longest < 2.0


async def test_nobody_spends_without_the_trials_key(model: AgentModel, tmp_path: Path) -> None:
    """Another trial's program may find the socket; it does not know the key."""
    result = await one(model, "noop", f"{AGENT}Keyless", tmp_path=tmp_path)

    assert result.output.text.split() == ["401"]
    assert model.ledger == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_key_in_pieces_is_hidden(size: int) -> None:
    secret, text = "canary-key-77aa41c9", "I was sent canary-key-77aa41c9, and can canary-key-77 canary-key-77aa41c9"
    stream = StreamRedactor(Redactor([secret]))
    passed = [stream.feed(text[place : place + size]) for place in range(0, len(text), size)]
    assert "".join([*passed, stream.rest()]) == text.replace(secret, HIDDEN)


def test_a_key_spread_over_streamed_words_reaches_no_agent() -> None:
    heard: list[str] = []

    class Listening:
        begun = True

        def hear(self, event: TextDelta) -> None:
            heard.append(event.text)

    listener = _Heard(Listening(), Redactor(["canary-key-77aa41c9"]))
    for words in ("the key is canary-", "key-77aa", "41c9 and", " more"):
        listener.hear(TextDelta(words))
    assert "".join(heard) == f"the key is {HIDDEN} and more"


async def _events(tried, *, tmp_path: Path, **spec):
    from support.specs import assignment, spec_of

    from tiebreak.core.run import TaskRules
    from tiebreak.engine.execute import execute

    rules = TaskRules(timeout_s=60, follow_ups=0)
    run = spec_of([tried.model], "x", tmp_path, tasks=rules, **spec)
    return [event async for event in execute([assignment([tried])], run, kinds=frozenset({"task"}))]
