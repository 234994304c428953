"""Any other agent, by the command that runs it: written down in models_config.yaml."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from benchmark.agents.installed import Installed, Prepared
from benchmark.core.errors import ConfigError
from benchmark.core.work import Gateway

PLACES = ("base_url", "model", "prompt", "home", "key")


class CommandAgent(Installed):
    """Runs a command in which {base_url}, {model}, {prompt}, {key} and {home} are filled in."""

    def __init__(
        self,
        name: str,
        *,
        command: str,
        follow_up: str = "",
        env: Mapping[str, str] | None = None,
        install: str = "",
        min_context: int = 4_096,
        permissions: str = "",
    ) -> None:
        self._command, self._follow_up, self._env = command, follow_up, dict(env or {})
        words = shlex.split(command)
        if not words:
            raise ConfigError(f"the agent {name!r} has an empty command")
        for text in (command, follow_up, *self._env.values()):
            _check_places(name, text)
        # Instances differ where the shipped agents' classes do.
        self.program = words[0]  # type: ignore[misc]
        self.install = install or f"put {words[0]} on the PATH"  # type: ignore[misc]
        self.min_context = min_context  # type: ignore[misc]
        self.permissions = permissions  # type: ignore[misc]

    def prepare(self, gateway: Gateway, home: str, prompt: str) -> Prepared:
        """The command with everything filled in; the prompt is one word, whatever is in it."""
        return self._filled(self._command, gateway, home, prompt)

    def follow_up(self, gateway: Gateway, home: str, prompt: str) -> Prepared | None:
        """The command that goes on with a conversation, where there is one."""
        return self._filled(self._follow_up, gateway, home, prompt) if self._follow_up else None

    def _filled(self, command: str, gateway: Gateway, home: str, prompt: str) -> Prepared:
        values = {"base_url": gateway.base_url, "model": gateway.model, "prompt": prompt, "home": home, "key": gateway.key}
        return Prepared(
            argv=tuple(_fill_once(word, values) for word in shlex.split(command)),
            env={name: _fill_once(value, values) for name, value in self._env.items()},
        )


def _fill_once(text: str, values: Mapping[str, str]) -> str:
    """Fill in the places of a template; what is filled in is not looked at again."""
    pieces = []
    while text:
        start = text.find("{")
        name = next((n for n in values if start >= 0 and text.startswith(f"{{{n}}}", start)), None)
        if name is None:
            pieces.append(text if start < 0 else text[: start + 1])
            text = "" if start < 0 else text[start + 1 :]
        else:
            pieces += [text[:start], values[name]]
            text = text[start + len(name) + 2 :]
    return "".join(pieces)


def _check_places(name: str, text: str) -> None:
    for place in re.findall(r"\{(\w+)\}", text):
        if place not in PLACES:
            raise ConfigError(f"the agent {name!r} has a place {{{place}}} that nothing fills; there are {', '.join(PLACES)}")
