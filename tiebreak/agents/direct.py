"""Just ask."""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

from tiebreak.agents.conversation import converse
from tiebreak.agents.functions import functions_of
from tiebreak.agents.replies import outcome_of, until
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output


class Direct:
    """Puts the sample's messages to the model and takes the reply as the answer; goes on where the sample does."""

    works_on: ClassVar[frozenset[str]] = frozenset({"question"})
    converses: ClassVar[bool] = True
    code_options: ClassVar[frozenset[str]] = frozenset({"tools"})

    def __init__(self, tools: ModuleType | None = None) -> None:
        """With a file of functions, calls of tools that have their names are answered by them."""
        self._functions = {} if tools is None else functions_of(tools)
        self.functions = frozenset(self._functions)

    async def run(self, sample: Sample, context: AskContext) -> Output:
        """Ask once, or as often as the sample's tools and turns want."""
        if sample.exchange is not None and (sample.exchange.tools or sample.exchange.turns):
            return await converse(sample, sample.exchange, context, self._functions)
        reply = await context.ask(sample.messages)
        text = until(reply.text, sample.stop) if sample.stop else reply.text
        return Output(text=text, thinking=reply.thinking, outcome=outcome_of(reply, text))
