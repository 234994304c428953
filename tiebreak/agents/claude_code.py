"""Claude Code."""

from __future__ import annotations

from typing import ClassVar

from tiebreak.agents.installed import Installed, Prepared, json_field
from tiebreak.core.work import Finished, Gateway

_TURNS = "50"


class ClaudeCode(Installed):
    """Speaks messages only."""

    program: ClassVar[str] = "claude"
    install: ClassVar[str] = "npm install -g @anthropic-ai/claude-code"
    dialect: ClassVar[str] = "messages"
    permissions: ClassVar[str] = "--dangerously-skip-permissions (in our sandbox)"
    min_context: ClassVar[int] = 24_576

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
