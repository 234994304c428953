"""Every installed agent is prepared by pure functions: what would be run can be looked at without the agent."""

from __future__ import annotations

import json
import tomllib

import pytest

from tiebreak.agents.command import CommandAgent
from tiebreak.agents.installed import Installed, find_installation, json_field, refuse_small_context
from tiebreak.core.contestant import AgentRef
from tiebreak.core.errors import AgentError, ConfigError
from tiebreak.core.work import Finished, Gateway
from tiebreak.registry import PLUGINS, make_agent

GATEWAY = Gateway(base_url="http://127.0.0.1:8900", model="some-model", key="dummy", context_window=32_768)
NAMES = ("continue", "aider", "mini-swe-agent", "codex", "claude-code", "opencode", "gemini-cli", "qwen-code")
AWKWARD = "Fix 'teh' \"typo\"; rm -rf $HOME `id` --help\n{model} \\ end"


def agent(name: str) -> Installed:
    made = make_agent(AgentRef(name=name))
    assert isinstance(made, Installed)
    return made


def test_all_eight_are_there() -> None:
    assert set(NAMES) <= set(PLUGINS["agents"])


@pytest.mark.parametrize("name", NAMES)
def test_the_prompt_is_one_word_whatever_is_in_it(name: str) -> None:
    prepared = agent(name).prepare(GATEWAY, "/home/agent", AWKWARD)

    assert prepared.argv.count(AWKWARD) == 1 and prepared.argv[0] == agent(name).program


@pytest.mark.parametrize("name", NAMES)
def test_the_only_address_is_the_gateway_and_the_only_key_a_dummy(name: str) -> None:
    prepared = agent(name).prepare(GATEWAY, "/home/agent", "Do it.")
    everything = " ".join((*prepared.argv, *prepared.env.values(), *prepared.files.values()))

    assert "http://127.0.0.1:8900" in everything and "dummy" in everything and "some-model" in everything
    assert "https://" not in everything.replace("https://opencode.ai", "")


@pytest.mark.parametrize("name", NAMES)
def test_permissions_and_installation_are_said(name: str) -> None:
    made = agent(name)

    assert made.permissions and made.install.startswith(("npm install -g ", "uv tool install ")) and made.min_context >= 4096
    assert made.dialect in ("chat", "responses", "messages", "gemini")


@pytest.mark.parametrize("name", [n for n in NAMES if n != "mini-swe-agent"])
def test_a_further_prompt_goes_on_with_the_conversation(name: str) -> None:
    first, again = (agent(name).prepare(GATEWAY, "/home/agent", "Go on.", again=again) for again in (False, True))

    assert agent(name).resumes and "Go on." in again.argv and again.argv != first.argv


@pytest.mark.parametrize("name", NAMES)
def test_configuration_files_are_well_formed(name: str) -> None:
    for path, text in agent(name).prepare(GATEWAY, "/home/agent", "Do it.").files.items():
        assert not path.startswith("/") and ".." not in path
        data = tomllib.loads(text) if path.endswith(".toml") else json.loads(text)
        assert data


def test_a_model_with_too_small_a_context_is_refused_beforehand() -> None:
    small = Gateway(base_url="http://x", model="tiny", key="dummy", context_window=8_192)

    with pytest.raises(AgentError, match=r"claude needs a context of at least 24,576 tokens, and tiny has 8,192"):
        refuse_small_context("claude", agent("claude-code").min_context, small)
    refuse_small_context("aider", agent("aider").min_context, small)
    refuse_small_context("claude", 24_576, Gateway(base_url="http://x", model="unknown", key="dummy"))


def test_an_agent_that_is_not_installed_says_what_installs_it() -> None:
    with pytest.raises(AgentError, match="no-such-agent is not installed: npm install -g no-such-agent"):
        find_installation("no-such-agent", "npm install -g no-such-agent")


def test_any_other_agent_runs_by_its_command() -> None:
    mine = CommandAgent(
        "mine",
        command="my-agent --url {base_url}/v1 --model {model} --home {home} run {prompt}",
        follow_up="my-agent --continue {prompt}",
        env={"MY_KEY": "{key}"},
    )
    prepared = mine.prepare(GATEWAY, "/home/agent", AWKWARD)
    again = mine.prepare(GATEWAY, "/home/agent", "More.", again=True)

    assert prepared.argv[:5] == ("my-agent", "--url", "http://127.0.0.1:8900/v1", "--model", "some-model")
    assert prepared.argv[-1] == AWKWARD and prepared.env == {"MY_KEY": "dummy"}
    assert mine.resumes and again.argv == ("my-agent", "--continue", "More.")
    assert not CommandAgent("mine", command="my-agent {prompt}").resumes


@pytest.mark.parametrize(("command", "complaint"), [("", "empty"), ("x {prompts}", "{prompts} that nothing fills")])
def test_a_wrong_command_is_refused(command: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        CommandAgent("mine", command=command)


def test_last_words_are_read_from_what_agents_print() -> None:
    events = [{"type": "x"}, {"item": {"type": "agent_message", "text": "Done."}}, {"item": {"type": "other"}}]
    codex = agent("codex").reply_text(Finished(code=0, output="\n".join(map(json.dumps, events)) + "\nnoise"))
    claude = agent("claude-code").reply_text(Finished(code=0, output='warning\n{"type": "result", "result": "All good?"}'))
    opencode = agent("opencode").reply_text(Finished(code=0, output='{"type":"text","part":{"type":"text","text":"Hi"}}'))

    assert (codex, claude, opencode) == ("Done.", "All good?", "Hi")
    assert json_field('{\n "response": "whole"\n}', "response") == "whole" and json_field("nothing", "x") == ""
    assert agent("qwen-code").reply_text(Finished(code=0, output='[{"type":"system"},{"type":"result","result":"R"}]')) == "R"
