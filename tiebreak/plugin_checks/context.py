"""The context that checks hand to agents and scorers: a model with a script, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tiebreak.core.errors import BenchmarkError, FailureKind, ProviderError
from tiebreak.core.message import Likelihood, Message, Reply, Tool, Usage
from tiebreak.core.work import Finished


class Unscripted(BenchmarkError):
    """What is checked wants something that only a run has."""


class ScriptedContext:
    """Answers every question with the same text, or with an error; counts the questions."""

    def __init__(self, answer: str | None = "") -> None:
        self._answer = answer
        self.asked = 0

    async def ask(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), vote: int = 0) -> Reply:
        """The scripted answer; None stands for a server that cannot be reached."""
        self.asked += 1
        if self._answer is None:
            raise ProviderError("scripted: the server cannot be reached", kind=FailureKind.TRANSIENT)
        return Reply(text=self._answer, usage=Usage(input_tokens=5, output_tokens=1), model="scripted")

    async def likelihood(self, messages: Sequence[Message], continuation: str, *, raw: bool = False) -> Likelihood:
        """No scripted model tells it."""
        raise Unscripted("it asks how likely a text is")

    async def judge(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """There is no judge."""
        raise Unscripted("it asks a judge")

    async def run_code(self, code: str, *, timeout_s: float = 10.0) -> Finished:
        """Nothing is run."""
        raise Unscripted("it runs code in the sandbox")

    async def run_tests(self, program: str, tests: str, *, timeout_s: float = 10.0) -> Finished:
        """Nothing is run."""
        raise Unscripted("it runs tests in the sandbox")

    def note(self, kind: str, text: str, *, actor: str = "agent", **data: Any) -> None:
        """Nobody reads the transcript."""
