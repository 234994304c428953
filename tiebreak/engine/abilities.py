"""What contestants can take besides text, compared with what samples need, before anything is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from tiebreak.core.contestant import Contestant
from tiebreak.core.errors import UsageError
from tiebreak.core.model import ModelRef
from tiebreak.core.sample import Exchange, Sample
from tiebreak.registry import make_agent, provider_class

_WORDS = {
    "image": "images",
    "file": "files",
    "audio": "sounds",
    "tools": "tools",
    "turns": "several turns",
    "schema": "a response schema",
}
_DO_WITHOUT = frozenset({"schema"})
"""An answer can follow a schema that was not sent; what else is missing makes the question another one."""
_NAMED = 8
_WEIGHS = "likelihood"


@lru_cache(maxsize=1024)
def _lacked(provider: str, name: str) -> frozenset[str]:
    serving = provider_class(provider)
    return serving.unsupported | serving.lacks(name)


def lacked_by(model: ModelRef) -> frozenset[str]:
    """What a model cannot be sent, as far as is known."""
    return _lacked(model.provider, model.name)


def sent_schema(exchange: Exchange, model: ModelRef) -> Mapping[str, Any] | None:
    """The schema that goes with a request; none where the model's requests have no place for one."""
    return None if exchange.schema is None or "schema" in lacked_by(model) else exchange.schema


def without_schema(contestants: Sequence[Contestant], needs: frozenset[str]) -> list[str]:
    """Labels of contestants that are judged by a schema they are not sent."""
    return [c.label for c in contestants if not c.reference and "schema" in needs & lacked_by(c.model)]


def refuse_unable(contestants: Sequence[Contestant], samples: Iterable[Sample]) -> None:
    """Raise for a contestant that cannot take what a sample has; the message names both."""
    first: dict[str, str] = {}
    for sample in samples:
        for need in sample.needs:
            first.setdefault(need, sample.id)
    for contestant in contestants:
        _refuse_agent(contestant, first)
        if contestant.model.reference:
            continue
        for need in sorted(lacked_by(contestant.model).intersection(first) - _DO_WITHOUT):
            raise UsageError(
                f"{contestant.label} cannot take {_WORDS[need]}, which the sample {first[need]!r} has; "
                "leave the model out, or choose samples with --sample-id or --sample-category"
            )


def refuse_idle_functions(contestants: Sequence[Contestant], samples: Iterable[Sample]) -> None:
    """Raise for functions of one's own that answer no tool of any sample: nobody would notice a misspelled name."""
    own = {contestant.agent.label: make_agent(contestant.agent).functions for contestant in contestants}
    own = {agent: functions for agent, functions in own.items() if functions}
    if not own:
        return
    offered = {tool.name for sample in samples if sample.exchange is not None for tool in sample.exchange.tools}
    for agent, functions in own.items():
        if not functions & offered:
            tools = f"the samples' tools are {_some(offered)}" if offered else "no sample has a tool"
            raise UsageError(f"the functions of {agent} are {_some(functions)}, and {tools}: a tool's function has its name")


def _some(names: Iterable[str]) -> str:
    """Names for a person to compare; of very many the first."""
    listed = sorted(names)
    return ", ".join(listed[:_NAMED]) + (f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else "")


def _refuse_agent(contestant: Contestant, first: Mapping[str, str]) -> None:
    """An agent that asks in its own way would drop a sample's tools and turns."""
    agent = make_agent(contestant.agent)
    if "question" not in agent.works_on:
        return
    beyond = set(first) if contestant.agent.name == _WEIGHS else {"tools", "turns"} & set(first)
    if not agent.converses and beyond:
        need = min(beyond)
        raise UsageError(
            f"the agent {contestant.agent.name!r} cannot take {_WORDS[need]}, which the sample {first[need]!r} has; "
            "use --agent direct"
        )
