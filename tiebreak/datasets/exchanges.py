"""A sample with tools or turns, as those that are made from a seed are put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiebreak.core.message import Message, TextPart, Tool, user
from tiebreak.core.sample import Exchange, Sample, ToolResult
from tiebreak.datasets.content import CALLS, calls_in_words, turns_in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is said, and what would be right."""

    text: str
    """What the user says first."""
    turns: Sequence[str] = ()
    """What the user says next."""
    turn_targets: Sequence[str] = ()
    """What is right at each turn, the first included; empty where it is not judged."""
    tools: Sequence[Tool] = ()
    results: Sequence[ToolResult] = ()
    calls: Sequence[Mapping[str, Any]] | None = None
    """The calls that are right, where these are judged."""
    target: str = ""
    scorer: str = "match"

    @property
    def said(self) -> str:
        """All that the user says: what tells it from others."""
        return "\n".join((self.text, *self.turns))

    def sample(self, name: str, kind: str) -> Sample:
        """The sample of this name and category."""
        exchange = Exchange(
            turns=tuple(Message(role="user", parts=(TextPart(turn),)) for turn in self.turns),
            turn_targets=tuple((target,) if target else () for target in self.turn_targets),
            tools=tuple(self.tools),
            tool_results=tuple(self.results),
        )
        if self.calls is not None:
            target, scorer = calls_in_words(self.calls), "tool_calls"
        else:
            target, scorer = self.target or turns_in_words(exchange.turn_targets), self.scorer
        return Sample(
            id=name,
            messages=(user(self.text),),
            targets=(target,),
            category=kind,
            scorers=(scorer,),
            metadata={} if self.calls is None else {CALLS: list(self.calls)},
            exchange=exchange,
            fixed=True,
        )
