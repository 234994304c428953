"""Who is compared: a model with its settings, its prompt and the agent that puts it to work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tiebreak.core.digest import digest_of
from tiebreak.core.model import ModelRef

FACTORS = ("model", "settings", "prompt", "agent")
"""What contestants may differ in; reports group them by each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompting:
    """The words around a question."""

    name: str = ""
    """What tables call it; empty for the dataset's own way of asking. The words count, not the name."""
    system: str = ""
    template: str = ""
    """With {question} and, where there are choices, {choices} and {letters}."""
    cot: bool = False
    """Reason first, then state the answer on a line of its own."""
    stop: tuple[str, ...] = ()

    @property
    def words(self) -> dict[str, Any]:
        """Everything a model is shown of it."""
        return {"system": self.system, "template": self.template, "cot": self.cot, "stop": self.stop}


PLAIN = Prompting()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRef:
    """An agent by name, with its options: `self-consistency@votes=5`."""

    name: str = "direct"
    options: Mapping[str, Any] = field(default_factory=dict)
    control: bool = False
    """It proves a task rather than a model: shown as a line to compare with, never ranked."""

    @property
    def label(self) -> str:
        """How it is written on the command line."""
        return self.name + ("@" + listed_settings(self.options) if self.options else "")


DIRECT = AgentRef()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One set-up that is compared with others."""

    label: str
    """What reports call it; unique within a run."""
    model: ModelRef
    agent: AgentRef = DIRECT
    prompting: Prompting = PLAIN

    @property
    def reference(self) -> bool:
        """A baseline or a control: shown as a line to compare with; in no test and no tier."""
        return self.model.reference or self.agent.control

    @property
    def digest(self) -> str:
        """Identity of everything about it that affects its answers."""
        agent = {"name": self.agent.name, "options": dict(self.agent.options)}
        return digest_of({"model": self.model.digest, "agent": agent, "prompting": self.prompting.words})

    @property
    def parts(self) -> dict[str, str]:
        """Identity of each of its factors, whatever they are called."""
        model = self.model
        return {
            "model": digest_of([model.provider, model.name, model.base_url, model.weights_digest]),
            "settings": digest_of(dict(model.settings)),
            "prompt": digest_of(self.prompting.words),
            "agent": digest_of([self.agent.name, dict(self.agent.options)]),
        }

    @property
    def factors(self) -> dict[str, str]:
        """Its level of every factor, as tables show it."""
        return {
            "model": self.model.family or self.model.label,
            "settings": listed_settings(self.model.variant),
            "prompt": self.prompting.name,
            "agent": self.agent.label,
        }


def listed_settings(settings: Mapping[str, Any]) -> str:
    """`temperature=0,effort=high`."""
    return ",".join(f"{name}={value}" for name, value in settings.items())
