"""Google's Gemini command line."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from tiebreak.agents.installed import Installed, Prepared, Servers, json_field, quiet_settings, with_server_settings
from tiebreak.core.work import Finished, Gateway


class GeminiCli(Installed):
    """Speaks Gemini only."""

    program: ClassVar[str] = "gemini"
    install: ClassVar[str] = "npm install -g @google/gemini-cli"
    dialect: ClassVar[str] = "gemini"
    permissions: ClassVar[str] = "--yolo"
    acp_auth: ClassVar[str] = "gemini-api-key"
    speaks_acp: ClassVar[bool] = True
    takes_servers: ClassVar[bool] = True
    min_context: ClassVar[int] = 16_384

    def over_acp(self, gateway: Gateway, home: str) -> Prepared:
        """As below, without permissions given beforehand."""
        return replace(self.prepare(gateway, home, ""), argv=("gemini", "--acp", "-m", gateway.model, "--skip-trust"))

    def offering(self, prepared: Prepared, servers: Servers, home: str) -> Prepared:
        """In its settings."""
        return with_server_settings(prepared, ".gemini/settings.json", servers) if servers else prepared

    def reply_text(self, finished: Finished) -> str:
        """The response it reports."""
        return json_field(finished.output, "response")

    def prepare(self, gateway: Gateway, home: str, prompt: str, *, again: bool = False) -> Prepared:
        """One prompt, all tools allowed."""
        words = ("--resume", "latest", "-p", prompt) if again else ("-p", prompt)
        return Prepared(
            argv=("gemini", "-m", gateway.model, "--yolo", "--skip-trust", "-o", "json", *words),
            env={"GOOGLE_GEMINI_BASE_URL": gateway.base_url, "GEMINI_API_KEY": gateway.key, "GEMINI_CLI_TRUST_WORKSPACE": "true"},
            files={".gemini/settings.json": quiet_settings("gemini-api-key")},
        )
