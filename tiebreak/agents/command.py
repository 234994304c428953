"""Any other agent, by the command that runs it: written down in models_config.yaml."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from tiebreak.agents.installed import Installed, Prepared
from tiebreak.core.errors import ConfigError
from tiebreak.core.work import Gateway

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
            unknown = next((place for place in re.findall(r"\{(\w+)\}", text) if place not in PLACES), None)
            if unknown is not None:
                listed = ", ".join(PLACES)
                raise ConfigError(f"the agent {name!r} has a place {{{unknown}}} that nothing fills; there are {listed}")
        # Instances differ where the shipped agents' classes do.
        self.resumes = bool(follow_up)  # type: ignore[misc]
        self.program = words[0]  # type: ignore[misc]
        self.install = install or f"put {words[0]} on the PATH"  # type: ignore[misc]
        self.min_context = min_context  # type: ignore[misc]
        self.permissions = permissions  # type: ignore[misc]

    def prepare(self, gateway: Gateway, home: str, prompt: str, *, again: bool = False) -> Prepared:
        """The command with everything filled in; the prompt is one word, whatever is in it."""
        command = self._follow_up if again else self._command
        values = {"base_url": gateway.base_url, "model": gateway.model, "prompt": prompt, "home": home, "key": gateway.key}
        return Prepared(
            argv=tuple(_fill_once(word, values) for word in shlex.split(command)),
            env={name: _fill_once(value, values) for name, value in self._env.items()},
        )


def _fill_once(text: str, values: Mapping[str, str]) -> str:
    """Fill in the places of a template; what is filled in is not looked at again."""
    return re.sub(r"\{(\w+)\}", lambda place: values.get(place[1], place[0]), text)
