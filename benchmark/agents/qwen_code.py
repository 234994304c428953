"""Qwen Code."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import ClassVar

from benchmark.agents.installed import Installed, Prepared, json_field, quiet_settings
from benchmark.core.work import Finished, Gateway


class QwenCode(Installed):
    """Speaks chat completions, streamed."""

    program: ClassVar[str] = "qwen"
    install: ClassVar[str] = "npm install -g @qwen-code/qwen-code"
    permissions: ClassVar[str] = "--yolo"
    acp_auth: ClassVar[str] = "openai"
    speaks_acp: ClassVar[bool] = True
    min_context: ClassVar[int] = 24_576

    def prepare(self, gateway: Gateway, home: str, prompt: str) -> Prepared:
        """One prompt, all tools allowed."""
        return self._prepared(gateway, "-p", prompt)

    def follow_up(self, gateway: Gateway, home: str, prompt: str) -> Prepared:
        """Go on with the last session."""
        return self._prepared(gateway, "--continue", "-p", prompt)

    def over_acp(self, gateway: Gateway, home: str) -> Prepared:
        """As above, without leave given beforehand."""
        allowed = self._prepared(gateway)
        return replace(allowed, argv=("qwen", "--acp", "--auth-type", "openai", "-m", gateway.model))

    def said(self, finished: Finished) -> str:
        """The result it reports."""
        try:
            events = json.loads(finished.output)
        except ValueError:
            return json_field(finished.output, "result", "response")
        last = events[-1] if isinstance(events, list) and events else events
        return str(last.get("result") or last.get("response") or "") if isinstance(last, dict) else ""

    def _prepared(self, gateway: Gateway, *words: str) -> Prepared:
        return Prepared(
            argv=("qwen", "--auth-type", "openai", "-m", gateway.model, "--yolo", "-o", "json", *words),
            env={
                "OPENAI_BASE_URL": f"{gateway.base_url}/v1",
                "OPENAI_API_KEY": gateway.key,
                "OPENAI_MODEL": gateway.model,
            },
            files={".qwen/settings.json": quiet_settings("openai")},
        )
