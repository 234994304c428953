"""OpenAI's Codex command line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import ClassVar

from tiebreak.agents.installed import Installed, Prepared, Servers, last_event_text
from tiebreak.core.work import Finished, Gateway

_CONFIG = ".codex/config.toml"


class Codex(Installed):
    """Speaks responses only."""

    program: ClassVar[str] = "codex"
    install: ClassVar[str] = "npm install -g @openai/codex"
    dialect: ClassVar[str] = "responses"
    permissions: ClassVar[str] = "--dangerously-bypass-approvals-and-sandbox (in our sandbox)"
    takes_servers: ClassVar[bool] = True
    min_context: ClassVar[int] = 16_384

    def offering(self, prepared: Prepared, servers: Servers, home: str) -> Prepared:
        """At the end of its configuration."""
        tables = [
            f"[mcp_servers.{name}]\ncommand = {json.dumps(words[0])}\nargs = {json.dumps(words[1:])}\n"
            for name, words in servers.items()
        ]
        config = prepared.files[_CONFIG] + "".join(tables)
        return replace(prepared, files={**prepared.files, _CONFIG: config})

    def reply_text(self, finished: Finished) -> str:
        """The last message among the events it prints."""
        return last_event_text(finished.output, "item", "agent_message")

    def prepare(self, gateway: Gateway, home: str, prompt: str, *, again: bool = False) -> Prepared:
        """One prompt; its own sandbox is off, since it would be a second one inside ours."""
        words = ("exec", "resume", "--last") if again else ("exec",)
        flags = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
        return Prepared(
            argv=("codex", *words, *flags, "--disable", "plugins", "--disable", "apps", prompt),
            env={"CODEX_HOME": f"{home}/.codex", "TIEBREAK_API_KEY": gateway.key},
            files={_CONFIG: _config(gateway)},
        )


def _config(gateway: Gateway) -> str:
    # A JSON string is a TOML string.
    model, address = json.dumps(gateway.model), json.dumps(f"{gateway.base_url}/v1")
    return f"""\
model = {model}
model_provider = "tiebreak"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.tiebreak]
name = "tiebreak"
base_url = {address}
env_key = "TIEBREAK_API_KEY"
wire_api = "responses"
request_max_retries = 2
stream_max_retries = 1
[analytics]
enabled = false
[feedback]
enabled = false
"""
