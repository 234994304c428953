"""opencode."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import ClassVar

from benchmark.agents.installed import Installed, Prepared
from benchmark.core.work import Finished, Gateway

_CONTEXT = 32_768


class OpenCode(Installed):
    """Speaks chat completions, streamed."""

    program: ClassVar[str] = "opencode"
    install: ClassVar[str] = "npm install -g opencode-ai"
    permissions: ClassVar[str] = 'permission {"*": "allow"}'
    speaks_acp: ClassVar[bool] = True
    min_context: ClassVar[int] = 12_288

    def prepare(self, gateway: Gateway, home: str, prompt: str) -> Prepared:
        """One prompt; a title given beforehand saves the call that would find one."""
        return self._prepared(gateway, "--title", "task", prompt)

    def follow_up(self, gateway: Gateway, home: str, prompt: str) -> Prepared:
        """Go on with the last session."""
        return self._prepared(gateway, "-c", prompt)

    def over_acp(self, gateway: Gateway, home: str) -> Prepared:
        """As above, asking before it edits or runs anything."""
        asking = self._prepared(gateway, leave="ask")
        return replace(asking, argv=("opencode", "acp"))

    def said(self, finished: Finished) -> str:
        """The last text among the events it prints."""
        last = ""
        for line in finished.output.splitlines():
            try:
                part = json.loads(line).get("part", {})
            except (ValueError, AttributeError):
                continue
            if isinstance(part, dict) and part.get("type") == "text":
                last = str(part.get("text") or last)
        return last

    def _prepared(self, gateway: Gateway, *words: str, leave: str = "allow") -> Prepared:
        model = f"tiebreak/{gateway.model}"
        switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE", "PROJECT_CONFIG")
        return Prepared(
            argv=("opencode", "run", "--format", "json", "-m", model, "--pure", *words),
            env={
                "OPENCODE_CONFIG_CONTENT": _config(gateway, model, leave),
                **{f"OPENCODE_DISABLE_{switch}": "1" for switch in switches},
            },
        )


def _config(gateway: Gateway, model: str, leave: str) -> str:
    limit = {"context": gateway.context_window or _CONTEXT, "output": 4_096}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "tiebreak",
        "options": {"baseURL": f"{gateway.base_url}/v1", "apiKey": gateway.key},
        "models": {gateway.model: {"name": gateway.model, "limit": limit}},
    }
    return json.dumps(
        {
            "provider": {"tiebreak": provider},
            "model": model,
            "small_model": model,
            "autoupdate": False,
            "share": "disabled",
            "permission": {"edit": leave, "bash": leave, "webfetch": "deny", **({"*": leave} if leave == "allow" else {})},
        }
    )
