"""Logs as runs: which belong together, under which names, and what a store is told of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace

from msgspec.structs import replace as changed

from tiebreak.core.digest import digest_of_texts
from tiebreak.core.errors import UsageError
from tiebreak.core.events import ContestantFinished, ContestantState, Event, TrialFinished
from tiebreak.core.model import ModelRef
from tiebreak.core.run import IMPORTED, Protocol, RunInfo
from tiebreak.core.trial import TrialResult, make_trial
from tiebreak.imports.logs import Log


def logs_by_task(logs: Iterable[Log]) -> dict[str, list[Log]]:
    """The logs of each task, whose models can be compared; refused where they cannot, or where a log is named twice."""
    tasks: dict[str, list[Log]] = {}
    for log in logs:
        same = tasks.setdefault(log.task, [])
        if any(log.path.samefile(other.path) for other in same):
            raise UsageError(f"{log.path} is named twice")
        same.append(log)
    for same in tasks.values():
        _check_comparable(same)
    return {task: _labelled(same) for task, same in tasks.items()}


def _check_comparable(logs: Sequence[Log]) -> None:
    """Refuse logs of one task that cannot be held against each other: other questions, or judged by another rule."""
    first = logs[0]
    for other in logs[1:]:
        both = f"{first.path.name} and {other.path.name} are both of {first.task}, but"
        common = first.questions.keys() & other.questions.keys()
        differing = sorted(sample for sample in common if first.questions[sample] != other.questions[sample])
        if not common:
            raise UsageError(f"{both} have no sample in common: import them one by one")
        if differing:
            raise UsageError(f"{both} ask different things as sample {differing[0]!r}: import them one by one")
        if first.scorers[:1] != other.scorers[:1]:
            rules = f"{first.scorers[0]} and {other.scorers[0]}"
            raise UsageError(f"{both} were scored by different rules ({rules}): import them one by one")


def _labelled(logs: Sequence[Log]) -> list[Log]:
    """The logs, each model under a name of its own: two logs of one model are told apart."""
    seen: dict[str, int] = {}
    labelled = []
    for log in logs:
        label = log.model.label
        seen[label] = seen.get(label, 0) + 1
        if seen[label] > 1:
            model = replace(log.model, label=f"{label} ({seen[label]})", name=f"{log.model.name} ({seen[label]})")
            log = replace(log, model=model, results=[_of_model(result, model) for result in log.results])  # noqa: PLW2901
        labelled.append(log)
    return labelled


def _of_model(result: TrialResult, model: ModelRef) -> TrialResult:
    trial = result.trial
    contestant = replace(trial.contestant, label=model.label, model=model)
    return changed(result, trial=make_trial(trial.sample, contestant, trial.repeat))


async def events_of(logs: Sequence[Log]) -> AsyncIterator[Event]:
    """What a run with these results would have reported."""
    for log in logs:
        for result in log.results:
            yield TrialFinished(result)
        label, done = log.model.label, len(log.results)
        yield ContestantFinished(contestant=label, state=ContestantState.FINISHED, message="", seconds=0.0, done=done)


def run_info(run_id: str, task: str, logs: Sequence[Log]) -> RunInfo:
    """The description of the run that one task's logs make."""
    first = logs[0]
    protocol = Protocol(
        dataset=task,
        dataset_digest=digest_of_texts(sorted({result.trial.asked for log in logs for result in log.results})),
        scorers=tuple(dict.fromkeys(name for log in logs for name in log.scorers)),
        repeats=1 + max((result.trial.repeat for log in logs for result in log.results), default=0),
        form=f"{IMPORTED}made by {first.made_with}",
    )
    return RunInfo(
        run_id=run_id,
        created_at=first.created_at,
        command=f"tiebreak import {' '.join(log.path.name for log in logs)}",
        protocol=protocol,
        contestants=tuple(log.results[0].trial.contestant for log in logs),
        planned=max(len(log.results) for log in logs),
        made_with=first.made_with,
    )
