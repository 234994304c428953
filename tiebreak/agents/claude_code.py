"""Claude Code."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import ClassVar

from tiebreak.agents.installed import Installed, Prepared, Servers, json_field
from tiebreak.core.work import Finished, Gateway

_TURNS = "50"
_SERVERS = "mcp-servers.json"


class ClaudeCode(Installed):
    """Speaks messages only."""

    program: ClassVar[str] = "claude"
    install: ClassVar[str] = "npm install -g @anthropic-ai/claude-code"
    dialect: ClassVar[str] = "messages"
    permissions: ClassVar[str] = "--dangerously-skip-permissions (in our sandbox)"
    takes_servers: ClassVar[bool] = True
    min_context: ClassVar[int] = 24_576

    def offering(self, prepared: Prepared, servers: Servers, home: str) -> Prepared:
        """In a file of their own, and no servers besides."""
        if not servers:
            return prepared
        listed = {name: {"command": words[0], "args": list(words[1:])} for name, words in servers.items()}
        argv = (prepared.argv[0], "--mcp-config", f"{home}/{_SERVERS}", "--strict-mcp-config", *prepared.argv[1:])
        return replace(prepared, argv=argv, files={**prepared.files, _SERVERS: json.dumps({"mcpServers": listed})})

    def reply_text(self, finished: Finished) -> str:
        """The result it reports."""
        return json_field(finished.output, "result")

    def prepare(self, gateway: Gateway, home: str, prompt: str, *, again: bool = False) -> Prepared:
        """One prompt, all permissions given; it knows its last conversation by the folder."""
        model = gateway.model
        return Prepared(
            argv=(
                *("claude", *(("--continue",) if again else ()), "-p", prompt, "--model", model),
                *("--dangerously-skip-permissions", "--output-format", "json", "--max-turns", _TURNS),
            ),
            env={
                "ANTHROPIC_BASE_URL": gateway.base_url,
                "ANTHROPIC_API_KEY": gateway.key,
                "ANTHROPIC_MODEL": model,
                "ANTHROPIC_SMALL_FAST_MODEL": model,
                "ANTHROPIC_DEFAULT_HAIKU_MODEL": model,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_ERROR_REPORTING": "1",
                "DISABLE_AUTOUPDATER": "1",
                # Ten minutes without an answer is a slow local model, not a lost one.
                "API_TIMEOUT_MS": "3600000",
                "IS_SANDBOX": "1",
            },
        )
