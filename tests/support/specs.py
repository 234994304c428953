"""Run specs said in few words: options go to the part of the spec they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from tiebreak.contestants import cross
from tiebreak.core.contestant import AgentRef, Contestant, Prompting
from tiebreak.core.model import ModelRef
from tiebreak.core.run import Pace, Protocol, RunSpec, TaskRules
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Trial, make_trial
from tiebreak.engine.execute import Assignment

_PACE = {field.name for field in fields(Pace)}


def contestant(model: ModelRef, agent: str = "direct", prompting: Prompting | None = None, label: str = "") -> Contestant:
    """A model put to work by an agent."""
    return Contestant(label=label or model.label, model=model, agent=AgentRef(name=agent), prompting=prompting or Prompting())


def spec_of(
    models: Sequence[ModelRef],
    dataset: str,
    results_dir: Path,
    *,
    agents: Sequence[str] = ("direct",),
    tasks: TaskRules | None = None,
    prompting: Prompting | None = None,
    retry_failed: bool = False,
    **options: Any,
) -> RunSpec:
    """A run of some models; options are those of the protocol or of the pace."""
    pace = {name: value for name, value in options.items() if name in _PACE}
    protocol = {name: value for name, value in options.items() if name not in _PACE}
    return RunSpec(
        protocol=Protocol(dataset=dataset, tasks=tasks or TaskRules(), **protocol),
        contestants=cross(list(models), [prompting or Prompting()], [AgentRef(name=name) for name in agents]),
        pace=Pace(**pace),
        results_dir=results_dir,
        retry_failed=retry_failed,
    )


def trial_of(sample: Sample, model: ModelRef, agent: str = "direct", repeat: int = 0) -> Trial:
    """The trial of a sample by a model."""
    return make_trial(sample, contestant(model, agent), repeat)


def assignment(trials: Sequence[Trial]) -> Assignment:
    """Some trials of one contestant, all still to be done."""
    return Assignment(contestant=trials[0].contestant, trials=iter(trials), count=len(trials))
