"""Judging kept answers anew. Nothing is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from benchmark.core.errors import UsageError
from benchmark.core.message import Likelihood, Message, Reply, Tool
from benchmark.core.protocols import Scorer
from benchmark.core.trial import Outcome, Output, Score, Trial
from benchmark.core.work import Finished, Gateway, Verdict, Workspace
from benchmark.engine.context import run_code
from benchmark.engine.fitness import refuse_unfit
from benchmark.registry import make_scorer

_SCORED = (Outcome.ANSWERED, Outcome.CUT_OFF)


class Judge:
    """Scores outputs by one scorer, or by each sample's own."""

    def __init__(self, scorer: str | None = None) -> None:
        self._only = scorer
        self._scorers: dict[str, Scorer] = {}

    def names(self, trial: Trial) -> tuple[str, ...]:
        """The scorers that judge this trial, the primary one first."""
        return trial.sample.scorers if self._only is None else (self._only,)

    async def score(self, trial: Trial, output: Output) -> dict[str, Score]:
        """Every scorer's word; none on an outcome that has no score."""
        if output.outcome not in _SCORED:
            return {}
        return {name: await self._score(name, trial, output) for name in self.names(trial)}

    async def _score(self, name: str, trial: Trial, output: Output) -> Score:
        scorer = self._scorer(name)
        refuse_unfit(name, scorer, trial)
        return await scorer.score(trial.sample, output, _Nobody(name))

    def versions(self, names: Sequence[str]) -> tuple[str, ...]:
        """Scorers with their versions, as a protocol lists them."""
        return tuple(f"{name}/{self._scorer(name).version}" for name in names)

    def _scorer(self, name: str) -> Scorer:
        if name not in self._scorers:
            self._scorers[name] = make_scorer(name)
        return self._scorers[name]


class _Nobody:
    """The context of an answer given long ago: no model, no workspace."""

    def __init__(self, scorer: str) -> None:
        self._scorer = scorer

    @property
    def workspace(self) -> Workspace:
        self._refuse("the workspace, which is gone")

    @property
    def gateway(self) -> Gateway:
        self._refuse("to ask a model")

    @property
    def permission_policy(self) -> str:
        return ""

    async def ask(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> Reply:
        self._refuse("to ask a model")

    async def likelihood(self, messages: Sequence[Message], continuation: str, *, raw: bool = False) -> Likelihood:
        self._refuse("to ask a model")

    async def judge(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        self._refuse("to ask a model")

    async def run_code(self, code: str, *, timeout_s: float = 10.0) -> Finished:
        """A kept program can be run again."""
        return await run_code(code, timeout_s=timeout_s)

    async def review(self, said: str) -> str | None:
        self._refuse("to hand work back")

    async def verify(self) -> Verdict:
        self._refuse("the workspace, which is gone")

    def note(self, kind: str, text: str, **data: Any) -> None:
        """There is no transcript."""

    def _refuse(self, what: str) -> NoReturn:
        raise UsageError(f"the scorer {self._scorer!r} needs {what}: it cannot judge answers that were kept; run it anew")
