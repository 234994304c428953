"""Qwen Code."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import ClassVar

from tiebreak.agents.installed import Installed, Prepared, Servers, json_field, quiet_settings, with_server_settings
from tiebreak.core.work import Finished, Gateway

_SETTINGS = ".qwen/settings.json"


class QwenCode(Installed):
    """Speaks chat completions, streamed."""

    program: ClassVar[str] = "qwen"
    install: ClassVar[str] = "npm install -g @qwen-code/qwen-code"
    permissions: ClassVar[str] = "--yolo"
    acp_auth: ClassVar[str] = "openai"
    speaks_acp: ClassVar[bool] = True
    takes_servers: ClassVar[bool] = True
    min_context: ClassVar[int] = 24_576

    def over_acp(self, gateway: Gateway, home: str) -> Prepared:
        """As below, without permissions given beforehand."""
        return replace(self.prepare(gateway, home, ""), argv=("qwen", "--acp", "--auth-type", "openai", "-m", gateway.model))

    def offering(self, prepared: Prepared, servers: Servers, home: str) -> Prepared:
        """In its settings. Without its search for tools, those of the servers are offered from the start."""
        if not servers:
            return prepared
        prepared = with_server_settings(prepared, _SETTINGS, servers)
        settings = json.loads(prepared.files[_SETTINGS]) | {"permissions": {"deny": ["tool_search"]}}
        return replace(prepared, files={**prepared.files, _SETTINGS: json.dumps(settings)})

    def reply_text(self, finished: Finished) -> str:
        """The result it reports."""
        try:
            events = json.loads(finished.output)
        except ValueError:
            return json_field(finished.output, "result", "response")
        last = events[-1] if isinstance(events, list) and events else events
        return str(last.get("result") or last.get("response") or "") if isinstance(last, dict) else ""

    def prepare(self, gateway: Gateway, home: str, prompt: str, *, again: bool = False) -> Prepared:
        """One prompt, all tools allowed."""
        words = ("--continue", "-p", prompt) if again else ("-p", prompt)
        return Prepared(
            argv=("qwen", "--auth-type", "openai", "-m", gateway.model, "--yolo", "-o", "json", *words),
            env={"OPENAI_BASE_URL": f"{gateway.base_url}/v1", "OPENAI_API_KEY": gateway.key, "OPENAI_MODEL": gateway.model},
            files={_SETTINGS: quiet_settings("openai")},
        )
