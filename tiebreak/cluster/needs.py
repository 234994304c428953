"""What the trials of a run need of a machine: --nodes-need."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tiebreak.core.contestant import Contestant
from tiebreak.core.errors import UsageError
from tiebreak.registry import did_you_mean

TASKS = "tasks"
_NEED = re.compile(r"(?P<name>[A-Za-z_][\w.:/-]*):(?P<amount>\d+(\.\d+)?)")
_EXAMPLE = "--nodes-need GPU:1, --nodes-need ollama/llama3=GPU:1, or --nodes-need tasks=CPU:2"


@dataclass(frozen=True, slots=True)
class Needs:
    """Resources that a trial takes of its node while it lasts: of every trial, of a model's, or of a coding task's."""

    by_whom: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Under the empty name for every trial, under `tasks` for coding tasks, else under a contestant's or a model's name."""

    @property
    def resources(self) -> list[str]:
        """Every resource that is named."""
        return sorted({name for amounts in self.by_whom.values() for name in amounts})

    def of(self, contestant: Contestant, *, task: bool) -> dict[str, float]:
        """What one trial takes; where several name the same resource, the most."""
        names = ["", contestant.model.label, contestant.label, *([TASKS] if task else [])]
        found: dict[str, float] = {}
        for name in names:
            for resource, amount in self.by_whom.get(name, {}).items():
                found[resource] = max(amount, found.get(resource, 0.0))
        return found

    def refuse_unknown(self, contestants: Sequence[Contestant]) -> None:
        """A name that nobody has is a slip."""
        known = {TASKS, *(name for c in contestants for name in (c.label, c.model.label))}
        for name in self.by_whom:
            if name and name not in known:
                raise UsageError(f"--nodes-need {name}=…: nobody in this run is called so{did_you_mean(name, known)}")


def read_needs(texts: Sequence[str]) -> Needs:
    """`RESOURCE:AMOUNT,…`, or the same behind `MODEL=` or `tasks=`."""
    by_whom: dict[str, dict[str, float]] = {}
    for text in texts:
        whom, _, listed = text.rpartition("=")
        amounts = by_whom.setdefault(whom.strip(), {})
        for one in listed.split(","):
            need = _NEED.fullmatch(one.strip())
            if need is None or not float(need["amount"]):
                raise UsageError(f"--nodes-need {text}: write RESOURCE:AMOUNT, as in {_EXAMPLE}")
            amounts[need["name"]] = float(need["amount"])
    return Needs(by_whom)
