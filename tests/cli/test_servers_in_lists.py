"""`tiebreak list models` and `tiebreak doctor` know which servers are up and which keys are set."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support.command import run
from support.compatible import CompatibleServer

from tiebreak import registry
from tiebreak.cli.served_models import served_models


def _rows(text: str) -> dict[str, str]:
    return {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines() if line.strip()}


def test_models_of_a_local_server_are_listed(tmp_path: Path) -> None:
    with CompatibleServer() as server:
        listed = run("list", "models", cwd=tmp_path, VLLM_BASE_URL=f"{server.url}/v1", GROQ_API_KEY="k")
    rows = _rows(listed.stdout)
    assert (rows["vllm/small"], rows["vllm/org/large"]) == ("vllm yes", "vllm yes")
    assert rows["lmstudio/NAME"] == "lmstudio not up at http://127.0.0.1:9"
    assert (rows["groq/NAME"], rows["mistral/NAME"]) == ("groq yes", "mistral set MISTRAL_API_KEY")


def test_nothing_hosted_is_asked_for_a_list(tmp_path: Path) -> None:
    with CompatibleServer() as server:
        run("list", "models", cwd=tmp_path, GROQ_BASE_URL=f"{server.url}/v1", GROQ_API_KEY="k")
    assert server.calls == []


def test_doctor_says_which_keys_are_set_and_which_servers_are_up(tmp_path: Path) -> None:
    with CompatibleServer() as server:
        told = run("doctor", cwd=tmp_path, LMSTUDIO_BASE_URL=f"{server.url}/v1", XAI_API_KEY="k").stdout
    assert f"✓ lmstudio is up at {server.url}/v1 with 2 models: small, org/large" in told
    assert "– not up: vllm (http://127.0.0.1:9), llamacpp-server (http://127.0.0.1:9)" in told
    assert "✓ xai: XAI_API_KEY is set" in told
    assert "– openrouter: no key" in told
    assert "vllm: no key" not in told


class _Stuck:
    """A provider whose list never comes, and which lets nobody else go on."""

    key_variables = url_variables = ()
    local = True

    def __init__(self, endpoint: object) -> None:
        pass

    async def list_models(self) -> list[str]:
        time.sleep(30)
        return []

    async def close(self) -> None:
        pass


def test_server_that_never_answers_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "plugin", lambda kind, name: _Stuck)
    started = time.monotonic()
    served = served_models(["stuck"], deadline_s=0.2)
    assert time.monotonic() - started < 20
    assert served["stuck"].problem == "it did not answer in time"
