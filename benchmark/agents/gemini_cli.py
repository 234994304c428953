"""Google's Gemini command line."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from benchmark.agents.installed import Installed, Prepared, json_field, quiet_settings
from benchmark.core.work import Finished, Gateway


class GeminiCli(Installed):
    """Speaks Gemini only."""

    program: ClassVar[str] = "gemini"
    install: ClassVar[str] = "npm install -g @google/gemini-cli"
    dialect: ClassVar[str] = "gemini"
    permissions: ClassVar[str] = "--yolo"
    acp_auth: ClassVar[str] = "gemini-api-key"
    speaks_acp: ClassVar[bool] = True
    min_context: ClassVar[int] = 16_384

    def prepare(self, gateway: Gateway, home: str, prompt: str) -> Prepared:
        """One prompt, all tools allowed."""
        return self._prepared(gateway, "-p", prompt)

    def follow_up(self, gateway: Gateway, home: str, prompt: str) -> Prepared:
        """Go on with the latest session."""
        return self._prepared(gateway, "--resume", "latest", "-p", prompt)

    def over_acp(self, gateway: Gateway, home: str) -> Prepared:
        """As above, without leave given beforehand."""
        allowed = self._prepared(gateway)
        return replace(allowed, argv=("gemini", "--acp", "-m", gateway.model, "--skip-trust"))

    def said(self, finished: Finished) -> str:
        """The response it reports."""
        return json_field(finished.output, "response")

    def _prepared(self, gateway: Gateway, *words: str) -> Prepared:
        return Prepared(
            argv=("gemini", "-m", gateway.model, "--yolo", "--skip-trust", "-o", "json", *words),
            env={
                "GOOGLE_GEMINI_BASE_URL": gateway.base_url,
                "GEMINI_API_KEY": gateway.key,
                "GEMINI_CLI_TRUST_WORKSPACE": "true",
            },
            files={".gemini/settings.json": quiet_settings("gemini-api-key")},
        )
