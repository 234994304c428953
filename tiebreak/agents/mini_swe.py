"""mini-swe-agent."""

from __future__ import annotations

from typing import ClassVar

from tiebreak.agents.installed import Installed, Prepared
from tiebreak.core.work import Gateway


class MiniSwe(Installed):
    """Speaks chat completions; one tool, the shell. A conversation cannot be gone on with."""

    program: ClassVar[str] = "mini"
    install: ClassVar[str] = "uv tool install mini-swe-agent --with mcp"
    permissions: ClassVar[str] = "-y"
    resumes: ClassVar[bool] = False

    def prepare(self, gateway: Gateway, home: str, prompt: str, *, again: bool = False) -> Prepared:
        """One task, every command confirmed beforehand."""
        return Prepared(
            argv=(
                *("mini", "-m", f"openai/{gateway.model}", "-t", prompt, "-y", "--exit-immediately"),
                *("-o", f"{home}/trajectory.json", "-l", "0"),
            ),
            env={
                "OPENAI_API_BASE": f"{gateway.base_url}/v1",
                "OPENAI_API_KEY": gateway.key,
                "MSWEA_CONFIGURED": "true",
                "MSWEA_COST_TRACKING": "ignore_errors",
                "MSWEA_SILENT_STARTUP": "1",
                "MSWEA_GLOBAL_CONFIG_DIR": f"{home}/mswea",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            },
        )
