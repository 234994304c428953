"""OpenAI's two doors: chat completions, and the responses that some of its models are behind alone."""

from __future__ import annotations

from support.packages import need_packages

need_packages("openai")

from pathlib import Path
from typing import Any, get_args

import pytest
from openai.types.shared import chat_model, responses_model
from support.command import only_run, read_csv, run
from support.server import KEY, FakeServer

from tiebreak.config import load_config
from tiebreak.core.errors import ModelError
from tiebreak.core.message import user
from tiebreak.core.model import Request
from tiebreak.core.protocols import Endpoint
from tiebreak.providers.openai import OpenAI, Responses
from tiebreak.registry import Catalog, check_settings

CHAT = frozenset(get_args(chat_model.ChatModel))
ONLY_RESPONSES = [name for kind in get_args(responses_model.ResponsesModel) for name in get_args(kind) if name not in CHAT]
MOVED = frozenset({"gpt-5.2-pro", "gpt-5.2-pro-2025-12-11", "gpt-5.1-codex", "codex-mini-latest"})
"""The client still lists them with the chat models; the chat completions refuse them."""


@pytest.fixture(autouse=True)
def _own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.mark.parametrize("name", [*ONLY_RESPONSES, *sorted(MOVED), "gpt-5.3-codex", "gpt-7-pro"])
def test_model_behind_responses_alone_is_asked_there(name: str) -> None:
    """As typed for any other model of OpenAI's, and under the name that was typed."""
    found = Catalog().resolve(f"openai/{name}")
    assert (found.provider, found.name, found.label) == ("openai-responses", name, f"openai/{name}")
    assert found.key_variable == "OPENAI_API_KEY"


@pytest.mark.parametrize("name", sorted(CHAT - MOVED))
def test_every_other_model_is_asked_by_chat(name: str) -> None:
    assert Catalog().resolve(f"openai/{name}").provider == "openai"


def test_known_name_needs_no_provider() -> None:
    found = Catalog().resolve("gpt-5-codex@effort=high")
    assert (found.provider, found.label, found.verified) == ("openai-responses", "gpt-5-codex@effort=high", True)
    assert Catalog().resolve("openai-responses/gpt-5").verified
    assert not Catalog().resolve("openai-responses/new").verified


def test_another_address_is_taken_at_its_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What other servers have behind which door nobody knows."""
    path = tmp_path / "models_config.yaml"
    path.write_text(
        "models:\n"
        "- {name: gpt-5-codex, provider: openai}\n"
        "- {name: elsewhere, provider: openai, model: gpt-5-codex, base_url: 'http://127.0.0.1:9/v1'}\n"
        "- {name: told, provider: openai-responses, model: mine, base_url: 'http://127.0.0.1:9/v1'}\n"
    )
    assert [model.provider for model in load_config(path).models.values()] == ["openai-responses", "openai", "openai-responses"]
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert Catalog().resolve("openai/gpt-5-codex").provider == "openai"
    assert Catalog().resolve("openai-responses/gpt-5-codex").base_url == "http://127.0.0.1:9/v1"


def test_setting_it_has_no_word_for_is_refused() -> None:
    with pytest.raises(ModelError, match="'openai-responses' cannot take 'seed'"):
        check_settings(Catalog().resolve("openai/o3-pro@seed=1"))


def test_run_by_responses(server: FakeServer, tmp_path: Path) -> None:
    """From the command line to the table."""
    line = ("--model", "openai-responses/any@temperature=0", "--dataset", "warmup", "--limit", "4")
    done = run(*line, cwd=tmp_path, **server.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert {asked.dialect for asked in server.ledger} == {"responses"}
    assert {asked.headers["Authorization"] for asked in server.ledger} == {f"Bearer {KEY}"}
    assert {(asked.body["temperature"], asked.body["store"]) for asked in server.ledger} == {(0, False)}
    rows = read_csv(only_run(tmp_path) / "trials.csv")
    assert [(row["input_tokens"], row["cached_tokens"], row["output_tokens"]) for row in rows] == [("11", "2", "3")] * 4
    assert "openai-responses" in done.stdout


async def _body(server: FakeServer, model: str) -> dict[str, Any]:
    provider = Responses(Endpoint(base_url=f"{server.url}/v1", api_key=KEY))
    try:
        reply = await provider.generate(Request(model=model, messages=(user("?"),), stream=model == "o1-pro"))
    finally:
        await provider.close()
    assert reply.text in "ABCD"
    return server.ledger[-1].body


async def test_model_that_researches_is_given_something_to_search(server: FakeServer) -> None:
    assert (await _body(server, "o3-deep-research"))["tools"] == [{"type": "web_search_preview"}]
    assert "tools" not in await _body(server, "o3-pro")


async def test_model_that_cannot_stream_answers_whole(server: FakeServer) -> None:
    assert "stream" not in await _body(server, "o1-pro")


def test_only_openai_itself_is_told_the_limit_by_its_newer_name() -> None:
    """It insists on it for its newer models; other servers do not know it."""
    elsewhere = Endpoint(base_url="http://127.0.0.1:9/v1")
    assert OpenAI(Endpoint()).adapt_body({"max_tokens": 9, "n": 1}) == {"max_completion_tokens": 9, "n": 1}
    assert OpenAI(elsewhere).adapt_body({"max_tokens": 9}) == {"max_tokens": 9}
