"""opencode."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import ClassVar

from tiebreak.agents.installed import Installed, Prepared, Servers, last_event_text
from tiebreak.core.work import Finished, Gateway

_CONTEXT = 32_768
_CONFIG = "OPENCODE_CONFIG_CONTENT"


class OpenCode(Installed):
    """Speaks chat completions, streamed."""

    program: ClassVar[str] = "opencode"
    install: ClassVar[str] = "npm install -g opencode-ai"
    permissions: ClassVar[str] = 'permission {"*": "allow"}'
    speaks_acp: ClassVar[bool] = True
    takes_servers: ClassVar[bool] = True
    min_context: ClassVar[int] = 12_288

    def over_acp(self, gateway: Gateway, home: str) -> Prepared:
        """As below, asking before it edits or runs anything."""
        return replace(self._prepared(gateway, permission="ask"), argv=("opencode", "acp"))

    def offering(self, prepared: Prepared, servers: Servers, home: str) -> Prepared:
        """In its configuration."""
        config = json.loads(prepared.env[_CONFIG])
        config["mcp"] = {name: {"type": "local", "command": list(words), "enabled": True} for name, words in servers.items()}
        return replace(prepared, env={**prepared.env, _CONFIG: json.dumps(config)}) if servers else prepared

    def reply_text(self, finished: Finished) -> str:
        """The last text among the events it prints."""
        return last_event_text(finished.output, "part", "text")

    def prepare(self, gateway: Gateway, home: str, prompt: str, *, again: bool = False) -> Prepared:
        """One prompt; a title given beforehand saves the call that would find one."""
        return self._prepared(gateway, *(("-c",) if again else ("--title", "task")), prompt)

    def _prepared(self, gateway: Gateway, *words: str, permission: str = "allow") -> Prepared:
        model = f"tiebreak/{gateway.model}"
        switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE", "PROJECT_CONFIG")
        return Prepared(
            argv=("opencode", "run", "--format", "json", "-m", model, "--pure", *words),
            env={
                _CONFIG: _config(gateway, model, permission),
                **{f"OPENCODE_DISABLE_{switch}": "1" for switch in switches},
            },
        )


def _config(gateway: Gateway, model: str, permission: str) -> str:
    limit = {"context": gateway.context_window or _CONTEXT, "output": 4_096}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "tiebreak",
        "options": {"baseURL": f"{gateway.base_url}/v1", "apiKey": gateway.key},
        "models": {gateway.model: {"name": gateway.model, "limit": limit}},
    }
    everything = {"*": permission} if permission == "allow" else {}
    return json.dumps(
        {
            "provider": {"tiebreak": provider},
            "model": model,
            "small_model": model,
            "autoupdate": False,
            "share": "disabled",
            "permission": {"edit": permission, "bash": permission, "webfetch": "deny", **everything},
        }
    )
