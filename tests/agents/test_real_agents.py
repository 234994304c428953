"""Eight real coding agents, in the sandbox, each with a scripted model behind the gateway."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.agent_model import KEY, USAGE, AgentModel
from support.command import ROOT, clean_environment

PROGRAMS = {
    "continue": "cn",
    "aider": "aider",
    "mini-swe-agent": "mini",
    "opencode": "opencode",
    "codex": "codex",
    "claude-code": "claude",
    "gemini-cli": "gemini",
    "qwen-code": "qwen",
}
FIX_TYPO = ROOT / "benchmark" / "tasks" / "easy" / "fix_typo.md"
LINE = "This is teh demo project. It greets people."

pytestmark = [pytest.mark.needs("bubblewrap", "agents"), pytest.mark.xdist_group("agents")]


def model_server(**changes: Any) -> AgentModel:
    return AgentModel(**{"old": LINE, "new": LINE.replace("teh", "the"), "root": "/workspace/", **changes})


def work(
    models: str, agents: str, server: AgentModel, cwd: Path, *more: str, timeout: float = 400
) -> tuple[int, list[dict[str, Any]], str]:
    """Have agents fix the typo with some models; the exit code, the results, and what was printed."""
    (cwd / "models_config.yaml").write_text("models: []\nbatch_settings: {max_retries: 1}\n", encoding="utf-8")
    command = [
        *(sys.executable, str(ROOT / "benchmark" / "batch_runner.py"), "--task", str(FIX_TYPO), "--models", models),
        *("--agent", agents, "--output", "out", "--no-preflight", "--follow-ups", "0", "--timeout", "60", *more),
    ]
    environment = clean_environment(**server.environment(), PATH=os.environ["PATH"])
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    report = cwd / "out" / "comparison_report.json"
    assert report.is_file(), done.stdout + done.stderr
    return done.returncode, json.loads(report.read_text(encoding="utf-8"))["results"], done.stdout


def test_each_agent_solves_the_task_and_is_metered_as_the_server_counts(tmp_path: Path) -> None:
    """Calls, tokens and tool calls of the report are those of the model server's own ledger; nothing leaks."""
    with model_server() as server:
        rows = []
        for number, agent in enumerate(PROGRAMS):
            folder = tmp_path / agent
            folder.mkdir()
            code, results, printed = work(f"openai/fix.{number}", agent, server, folder)
            assert code == 0, printed
            rows += results
        assert len(rows) == len(PROGRAMS) and sum(server.tool_calls.values()) > len(PROGRAMS)
        for number, row in enumerate(rows):
            asked = server.asked_of(f"fix.{number}")
            assert row["outcome"] == "passed", (row["agent"], row["check_output"], row["failure"])
            assert row["model_calls"] == len(asked) > 0
            assert row["input_tokens"] == len(asked) * USAGE.input_tokens
            assert row["output_tokens"] == len(asked) * USAGE.output_tokens
            assert row["tool_calls"] == server.tool_calls[f"fix.{number}"]
            assert row["agent_version"] and row["permissions"] and row["isolation"] == "bubblewrap"
            assert (row["files_modified"], row["lines_added"], row["lines_removed"]) == (1, 1, 1)
            assert all(KEY in str(a.headers) for a in asked)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("agent", "model"),
    [
        ("claude-code", "anthropic/fix"),
        ("continue", "anthropic/fix"),
        ("codex", "anthropic/fix"),
        ("gemini-cli", "google/fix"),
        ("claude-code", "google/fix"),
        ("qwen-code", "ollama/fix@num_ctx=65536"),
        ("claude-code", "ollama/fix@num_ctx=65536"),
        ("codex", "ollama/fix@num_ctx=65536"),
    ],
)
def test_agents_work_with_models_of_any_dialect(agent: str, model: str, tmp_path: Path) -> None:
    with model_server() as server:
        _, results, printed = work(model, agent, server, tmp_path)
        asked = Counter(a.dialect for a in server.ledger)

    assert results[0]["outcome"] == "passed", printed
    assert results[0]["model_calls"] == sum(asked.values())


def test_codex_patches_by_its_own_tool_whatever_the_model_speaks(tmp_path: Path) -> None:
    """To models it knows it gives a tool that takes free text, which chat completions have no word for."""
    with model_server() as server:
        _, results, printed = work("openai/gpt-5.5", "codex", server, tmp_path)
        called = [call for asked in server.ledger for message in asked.request.messages for call in message.tool_calls]

    assert results[0]["outcome"] == "passed", printed
    assert {asked.dialect for asked in server.ledger} == {"chat"}
    assert {"input": server.patch} in [call.parsed() for call in called if call.name == "apply_patch"]


OUTCOMES = {
    "noop": {"no_change"},
    "ask": {"question"},
    "ask-tool": {"question", "no_change", "passed", "budget"},
    "status-400": {"provider_error"},
    "context": {"context"},
    "flaky": {"passed"},
    "status-500": {"provider_error"},
    "status-429": {"provider_error"},
    "loop": {"budget", "no_change", "passed"},
    "nousage": {"passed"},
}
"""A model that loops is stopped by the call budget, or by an agent that notices by itself; to aider, which has no
tools, it is one that repeats the right edit."""


def test_models_that_misbehave_end_in_the_right_outcome_and_nothing_is_left_running(tmp_path: Path) -> None:
    with model_server() as server:
        models = ",".join(f"openai/{name}" for name in OUTCOMES)
        line = ("--parallel", "--max-workers", "3", "--max-model-calls", "8", "--timeout", "40")
        _, results, printed = work(models, ",".join(PROGRAMS), server, tmp_path, *line, timeout=900)

    assert len(results) == len(OUTCOMES) * len(PROGRAMS), printed
    wrong = {
        (row["model"], row["agent"]): (row["outcome"], row["failure"][:200])
        for row in results
        if row["outcome"] not in OUTCOMES[row["model"].removeprefix("openai/")]
    }
    assert not wrong
    assert all(row["completion_time"] < 42 for row in results)
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not [text for text in left.splitlines() if "/.agents/" in text and "bwrap" in text]


@pytest.mark.parametrize("agent", PROGRAMS)
def test_a_rejected_key_ends_the_model_and_is_nobodys_failure_but_the_keys(agent: str, tmp_path: Path) -> None:
    with model_server() as server:
        code, results, printed = work("openai/status-401", agent, server, tmp_path)

    assert code == 1 and results[0]["outcome"] == "provider_error", printed
    assert "401" in printed or "auth" in printed or "key" in printed


@pytest.mark.needs("embedded")
@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_on_the_embedded_model_an_agent_fails_the_task_honestly(agent: str, tmp_path: Path) -> None:
    with model_server() as server:
        _, results, printed = work("llama_cpp/smollm2-135m", agent, server, tmp_path, "--timeout", "40", "--max-model-calls", "3")

    assert len(results) == 1 and results[0]["success"] is False, printed
    assert results[0]["outcome"] in (
        "no_change",
        "wrong_result",
        "question",
        "timeout",
        "budget",
        "context",
        "provider_error",
        "agent_error",
    )


@pytest.mark.parametrize("agent", ["gemini-cli", "qwen-code", "opencode"])
@pytest.mark.parametrize(("policy", "outcome"), [("allow", "passed"), ("deny", "no_change")])
def test_agents_ask_for_leave_and_are_answered_by_policy(agent: str, policy: str, outcome: str, tmp_path: Path) -> None:
    """Over the Agent Client Protocol: one request for the edit; denied, the file stays as it was."""
    with model_server() as server:
        line = ("--ask-permissions", policy, "--max-model-calls", "8")
        _, results, printed = work("openai/fix", agent, server, tmp_path, *line)

    assert results[0]["outcome"] == outcome, (printed, results[0]["failure"])
    assert results[0]["permission_requests"] >= 1 and results[0]["human_interventions"] == 0
    assert policy in results[0]["permissions"]


def test_agents_that_cannot_ask_are_refused_beforehand(tmp_path: Path) -> None:
    command = [
        *(sys.executable, str(ROOT / "benchmark" / "batch_runner.py"), "--task", str(FIX_TYPO), "--models", "baseline/constant"),
        *("--agent", "aider,gemini-cli", "--ask-permissions", "deny"),
    ]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 1 and "aider cannot ask for permission" in done.stderr and "gemini-cli" in done.stderr


def test_an_own_agent_joins_by_its_command(tmp_path: Path) -> None:
    """A script that calls the model once and does what it says, named in models_config.yaml."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "my-agent"
    script.write_text(
        "#!/usr/bin/python3\n"
        "import json, sys, urllib.request\n"
        "base, model, prompt, key = sys.argv[1:5]\n"
        "body = {'model': model, 'messages': [{'role': 'user', 'content': prompt}]}\n"
        "request = urllib.request.Request(base + '/v1/chat/completions', json.dumps(body).encode(),\n"
        "                                 {'Content-Type': 'application/json', 'Authorization': 'Bearer ' + key})\n"
        "print(json.load(urllib.request.urlopen(request))['choices'][0]['message']['content'])\n"
        "text = open('README.md').read().replace('teh', 'the')\n"
        "open('README.md', 'w').write(text)\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    with model_server() as server:
        (tmp_path / "own.yaml").write_text(
            "models: []\nagents:\n  mine:\n    command: my-agent {base_url} {model} {prompt} {key}\n", encoding="utf-8"
        )
        command = [
            *(sys.executable, str(ROOT / "benchmark" / "batch_runner.py"), "--task", str(FIX_TYPO), "--models", "openai/noop"),
            *("--agent", "mine", "--output", "out", "--no-preflight", "--config", "own.yaml"),
        ]
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        environment = clean_environment(**server.environment(), PATH=path)
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    row = json.loads((tmp_path / "out" / "comparison_report.json").read_text(encoding="utf-8"))["results"][0]

    assert row["outcome"] == "passed" and row["agent"] == "mine" and row["model_calls"] == 1, done.stdout + done.stderr
