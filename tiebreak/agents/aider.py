"""aider."""

from __future__ import annotations

import json
from typing import ClassVar

from tiebreak.agents.installed import Installed, Prepared
from tiebreak.core.work import Gateway

_CONTEXT = 32_768


class Aider(Installed):
    """Speaks chat completions; finds files by its map of the repository, as other agents find them by looking."""

    program: ClassVar[str] = "aider"
    install: ClassVar[str] = "uv tool install aider-chat"
    permissions: ClassVar[str] = "--yes-always"
    litter: ClassVar[tuple[str, ...]] = (".aider*",)

    def prepare(self, gateway: Gateway, home: str, prompt: str, *, again: bool = False) -> Prepared:
        """One message, answered yes to everything; its own files stay out of the workspace."""
        model = f"openai/{gateway.model}"
        return Prepared(
            argv=(
                *("aider", "--model", model, "--message", prompt, "--yes-always", "--no-stream", "--no-pretty"),
                *("--no-auto-commits", "--no-gitignore", "--edit-format", "diff", "--no-show-model-warnings"),
                *("--no-check-update", "--analytics-disable", "--no-show-release-notes", "--no-detect-urls"),
                *("--no-suggest-shell-commands", "--map-tokens", "1024", "--map-refresh", "always"),
                *("--chat-history-file", f"{home}/aider.chat.md", "--input-history-file", f"{home}/aider.input"),
                *("--llm-history-file", "/dev/null", *(("--restore-chat-history",) if again else ())),
            ),
            env={
                "OPENAI_API_BASE": f"{gateway.base_url}/v1",
                "OPENAI_API_KEY": gateway.key,
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "AIDER_CACHE_KEEPALIVE_PINGS": "0",
            },
            files={".aider/caches/model_prices_and_context_window.json": _prices(model, gateway)},
        )


def _prices(model: str, gateway: Gateway) -> str:
    """What aider would fetch from the network on every start."""
    known = {
        "max_input_tokens": gateway.context_window or _CONTEXT,
        "max_output_tokens": 4_096,
        "input_cost_per_token": 0,
        "output_cost_per_token": 0,
        "litellm_provider": "openai",
        "mode": "chat",
    }
    return json.dumps({model: known})
