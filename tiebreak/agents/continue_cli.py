"""Continue's command line, `cn`."""

from __future__ import annotations

import json
from typing import ClassVar

from tiebreak.agents.installed import Installed, Prepared
from tiebreak.core.work import Gateway


class ContinueCli(Installed):
    """Speaks chat completions, streamed."""

    program: ClassVar[str] = "cn"
    install: ClassVar[str] = "npm install -g @continuedev/cli"
    permissions: ClassVar[str] = "--auto"

    def prepare(self, gateway: Gateway, home: str, prompt: str, *, again: bool = False) -> Prepared:
        """One prompt without a terminal, all tools allowed."""
        config = f"{home}/tiebreak-continue.yaml"
        return Prepared(
            argv=("cn", "--config", config, "--auto", *(("--resume",) if again else ()), "-p", prompt),
            env={
                "CONTINUE_GLOBAL_DIR": f"{home}/.continue",
                "CONTINUE_TELEMETRY_ENABLED": "0",
                "CONTINUE_METRICS_ENABLED": "0",
                "CONTINUE_CLI_ENABLE_TELEMETRY": "0",
            },
            files={"tiebreak-continue.yaml": _config(gateway)},
        )


def _config(gateway: Gateway) -> str:
    model = {
        "name": gateway.model,
        "provider": "openai",
        "model": gateway.model,
        "apiBase": f"{gateway.base_url}/v1",
        "apiKey": gateway.key,
        "roles": ["chat", "edit", "apply"],
        "capabilities": ["tool_use"],
    }
    # JSON is YAML, and needs no quoting of ours.
    return json.dumps({"name": "tiebreak", "version": "0.0.1", "schema": "v1", "models": [model]})
