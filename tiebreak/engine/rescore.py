"""Scoring stored answers again. Nothing is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tiebreak.core.errors import UsageError
from tiebreak.core.message import Likelihood, Message, Reply, Tool
from tiebreak.core.protocols import Scorer
from tiebreak.core.trial import Outcome, Output, Score, Trial
from tiebreak.core.work import Finished
from tiebreak.engine.context import run_code, run_tests
from tiebreak.engine.fitness import refuse_unfit
from tiebreak.engine.turns import score_of
from tiebreak.registry import make_scorer

_SCORED = (Outcome.ANSWERED, Outcome.CUT_OFF)


class Rescorer:
    """Scores outputs by one scorer, or by each sample's own."""

    def __init__(self, scorer: str | None = None) -> None:
        self._only = scorer
        self._scorers: dict[str, Scorer] = {}
        if scorer is not None and self._scorer(scorer).needs_workspace:
            raise UsageError(f"the scorer {scorer!r} needs the workspace, which is gone: it cannot judge stored answers")

    def names(self, trial: Trial) -> tuple[str, ...]:
        """The scorers that judge this trial, the primary one first."""
        return trial.sample.scorers if self._only is None else (self._only,)

    async def score(self, trial: Trial, output: Output) -> dict[str, Score]:
        """Every scorer's word; none on an outcome that has no score."""
        names = self.names(trial)
        if output.outcome not in _SCORED or any(self._scorer(name).needs_workspace for name in names):
            # What a check found in a workspace stands: the workspace is gone.
            return {}
        return {name: await self._score(name, trial, output) for name in names}

    async def _score(self, name: str, trial: Trial, output: Output) -> Score:
        scorer = self._scorer(name)
        refuse_unfit(name, scorer, trial)
        return await score_of(scorer, trial.sample, output, _KeptAnswer(name))

    def versions(self, names: Sequence[str]) -> tuple[str, ...]:
        """Scorers with their versions, as a protocol lists them."""
        return tuple(f"{name}/{self._scorer(name).version}" for name in names)

    def _scorer(self, name: str) -> Scorer:
        if name not in self._scorers:
            self._scorers[name] = make_scorer(name)
        return self._scorers[name]


class _KeptAnswer:
    """The context of an answer that was given long ago: there is nobody to ask, but a program can be run again."""

    def __init__(self, scorer: str) -> None:
        self._scorer = scorer

    async def ask(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), vote: int = 0) -> Reply:
        self._refuse()

    async def likelihood(self, messages: Sequence[Message], continuation: str, *, raw: bool = False) -> Likelihood:
        self._refuse()

    async def judge(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        self._refuse()

    async def run_code(self, code: str, *, timeout_s: float = 10.0) -> Finished:
        return await run_code(code, timeout_s=timeout_s)

    async def run_tests(self, program: str, tests: str, *, timeout_s: float = 10.0) -> Finished:
        return await run_tests(program, tests, timeout_s=timeout_s)

    def note(self, kind: str, text: str, *, actor: str = "agent", **data: Any) -> None:
        """There is no transcript."""

    def _refuse(self) -> NoReturn:
        raise UsageError(f"the scorer {self._scorer!r} needs to ask a model: it cannot judge stored answers")
