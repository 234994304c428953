"""Servers reached by name: each at its own address, with its own key, in its own words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.command import only_run, read_csv, run
from support.compatible import CompatibleServer

from tiebreak.config import load_config
from tiebreak.core.errors import MissingKey, ModelError
from tiebreak.core.message import Reply, user
from tiebreak.core.model import Request
from tiebreak.core.protocols import Endpoint
from tiebreak.providers.servers import SERVERS
from tiebreak.registry import Catalog, check_key, check_settings, provider_class

HOSTED = {
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": ("https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    "xai": ("https://api.x.ai/v1", "XAI_API_KEY"),
    "together": ("https://api.together.ai/v1", "TOGETHER_API_KEY"),
    "fireworks": ("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
}
LOCAL = {
    "vllm": ("http://127.0.0.1:8000/v1", "VLLM_BASE_URL"),
    "lmstudio": ("http://127.0.0.1:1234/v1", "LMSTUDIO_BASE_URL"),
    "llamacpp-server": ("http://127.0.0.1:8080/v1", "LLAMACPP_SERVER_BASE_URL"),
}


@pytest.fixture
def there() -> Iterator[CompatibleServer]:
    with CompatibleServer() as running:
        yield running


async def ask(name: str, url: str, **request: Any) -> Reply:
    provider = provider_class(name)(Endpoint(base_url=url, api_key="a-key"))
    try:
        return await provider.generate(Request(model="maker/model", messages=(user("?"),), **request))
    finally:
        await provider.close()


def test_the_table_has_every_server_and_where_its_address_is_from() -> None:
    assert set(SERVERS) == {*HOSTED, *LOCAL}
    assert all(server.source.startswith("https://") for server in SERVERS.values())


@pytest.mark.parametrize("name", HOSTED)
def test_hosted_server_has_its_address_and_its_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url, variable = HOSTED[name]
    model = Catalog().resolve(f"{name}/maker/model@temperature=0")
    assert (model.provider, model.name, model.key_variable, model.local) == (name, "maker/model", variable, False)
    assert provider_class(name)(Endpoint()).base_url == url  # type: ignore[attr-defined]
    with pytest.raises(MissingKey, match=variable):
        check_key(model)
    monkeypatch.setenv(variable, "a-key")
    check_key(Catalog().resolve(f"{name}/maker/model"))


@pytest.mark.parametrize("name", LOCAL)
def test_local_server_needs_no_key_and_may_be_elsewhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url, variable = LOCAL[name]
    model = Catalog().resolve(f"{name}/any")
    assert (model.key_variable, model.local) == ("", True)
    assert provider_class(name)(Endpoint()).base_url == url  # type: ignore[attr-defined]
    monkeypatch.setenv(variable, "http://127.0.0.1:9/v1")
    monkeypatch.setenv(variable.replace("BASE_URL", "API_KEY"), "its-key")
    model = Catalog().resolve(f"{name}/any")
    assert (model.base_url, model.key_variable) == ("http://127.0.0.1:9/v1", variable.replace("BASE_URL", "API_KEY"))


@pytest.mark.parametrize("name", SERVERS)
async def test_request_goes_to_the_documented_path_with_the_key(name: str, there: CompatibleServer) -> None:
    path = urlsplit(SERVERS[name].url).path
    reply = await ask(name, there.url + path, settings={"max_tokens": 9})
    [call] = there.calls
    assert (call.method, call.path) == ("POST", f"{path}/chat/completions")
    assert call.headers["Authorization"] == "Bearer a-key"
    assert call.headers["Content-Type"] == "application/json"
    assert (call.body["model"], call.body["max_tokens"]) == ("maker/model", 9)
    assert (reply.text, reply.usage and reply.usage.input_tokens) == ("ready", 11)


@pytest.mark.parametrize("name", SERVERS)
def test_limit_keeps_its_name_at_the_servers_own_address(name: str) -> None:
    """Only OpenAI itself wants the newer one."""
    provider: Any = provider_class(name)(Endpoint())
    assert provider.adapt_body({"max_tokens": 9}) == {"max_tokens": 9}


@pytest.mark.parametrize("name", SERVERS)
async def test_models_are_listed(name: str, there: CompatibleServer) -> None:
    provider = provider_class(name)(Endpoint(base_url=f"{there.url}/v1"))
    assert list(await provider.list_models()) == ["small", "org/large"]
    await provider.close()
    assert [(call.method, call.path) for call in there.calls] == [("GET", "/v1/models")]
    assert "Authorization" not in there.calls[0].headers


async def test_settings_are_spelled_as_the_server_spells_them(there: CompatibleServer) -> None:
    """Mistral refuses what it does not know; vLLM would take no notice of it."""
    await ask("mistral", f"{there.url}/v1", settings={"seed": 0}, stream=True)
    await ask("vllm", f"{there.url}/v1", settings={"repeat_penalty": 1.1, "top_k": 5})
    await ask("llamacpp-server", f"{there.url}/v1", settings={"repeat_penalty": 1.1})
    mistral, vllm, llama = (call.body for call in there.calls)
    assert mistral["random_seed"] == 0
    assert not {"seed", "stream_options"} & set(mistral)
    assert (vllm["repetition_penalty"], vllm["top_k"], "repeat_penalty" in vllm) == (1.1, 5, False)
    assert llama["repeat_penalty"] == 1.1


@pytest.mark.parametrize("typed", ["groq/m@top_k=5", "mistral/m@min_p=0.1", "lmstudio/m@min_p=0.1", "vllm/m@num_ctx=9"])
def test_setting_the_server_has_no_word_for_is_refused(typed: str) -> None:
    with pytest.raises(ModelError, match="cannot take"):
        check_settings(Catalog().resolve(typed))


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"cost": 0.25}, 0.25),
        ({"cost": 0}, 0.0),
        ({}, None),
        ({"cost": "much"}, None),
        ({"cost": -1}, None),
        ({"cost": True}, None),
        ({"cost": {"total": 1}}, None),
        ({"cost": 0.95, "is_byok": True, "cost_details": {"upstream_inference_cost": 19}}, 19.95),
        ({"cost": 0.95, "is_byok": True, "cost_details": {"upstream_inference_cost": None}}, None),
        ({"cost": 0.5, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.5}}, 0.5),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_openrouter_says_what_an_answer_cost(usage: dict[str, Any], cost: float | None, stream: bool) -> None:
    """With a key of one's own for the maker its cost is the fee alone; what is not told stays unknown."""
    with CompatibleServer(usage=usage) as server:
        reply = await ask("openrouter", f"{server.url}/api/v1", stream=stream)
    assert reply.usage is not None
    assert reply.usage.cost_usd == pytest.approx(cost)


async def test_no_other_servers_cost_is_believed() -> None:
    """Nobody says in which money it is."""
    with CompatibleServer(usage={"cost": 7}) as server:
        for name in (*SERVERS, "openai-api", "openai"):
            reply = await ask(name, f"{server.url}/v1")
            assert reply.usage is not None
            assert (reply.usage.cost_usd is None) == (name != "openrouter")


def test_run_by_name_from_the_command_line(tmp_path: Path) -> None:
    """A model id with slashes, to a table with the server's own cost."""
    with CompatibleServer(usage={"cost": 0.5}) as server:
        variables = {"OPENROUTER_API_KEY": "k-1", "OPENROUTER_BASE_URL": f"{server.url}/api/v1"}
        line = ("--model", "openrouter/anthropic/claude-sonnet-4-5:free", "--dataset", "warmup", "--limit", "3")
        done = run(*line, cwd=tmp_path, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {(call.path, call.headers["Authorization"]) for call in server.asked} == {("/api/v1/chat/completions", "Bearer k-1")}
    assert {call.body["model"] for call in server.asked} == {"anthropic/claude-sonnet-4-5:free"}
    rows = read_csv(only_run(tmp_path) / "trials.csv")
    assert [float(row["cost_usd"]) for row in rows] == [0.5] * 3


def test_configuration_may_name_them(tmp_path: Path) -> None:
    path = tmp_path / "models_config.yaml"
    path.write_text(
        "models:\n"
        "- {name: fast, provider: groq, model: llama-3.3-70b-versatile}\n"
        "- {name: mine, provider: vllm, model: org/weights, base_url: 'http://127.0.0.1:9/v1'}\n"
    )
    fast, mine = load_config(path).models.values()
    assert (fast.provider, fast.name, fast.key_variable) == ("groq", "llama-3.3-70b-versatile", "GROQ_API_KEY")
    assert (mine.base_url, mine.local) == ("http://127.0.0.1:9/v1", True)


def test_a_model_is_its_makers_whoever_serves_it() -> None:
    """Judges favour their own: what matters is who made them, not who passes them on."""
    catalog = Catalog()
    claude, gpt = catalog.resolve("openrouter/anthropic/claude"), catalog.resolve("openrouter/openai/gpt")
    assert claude.house == catalog.resolve("anthropic/claude").house != gpt.house
    assert catalog.resolve("groq/a").house != catalog.resolve("groq/b").house
