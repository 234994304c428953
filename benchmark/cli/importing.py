"""`tiebreak import`: results of other tools as runs of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace as changed

from benchmark.cli.console import Console, counted
from benchmark.cli.run import show
from benchmark.config import results_root
from benchmark.core.digest import digest_of_texts
from benchmark.core.errors import UsageError
from benchmark.core.events import Event, ModelFinished, ModelState, TrialFinished
from benchmark.core.model import ModelRef
from benchmark.core.run import IMPORTED, Protocol, RunInfo
from benchmark.core.trial import TrialResult, trial_id
from benchmark.pipeline import TRIALS_CSV, read_summary, write_reports
from benchmark.store.folder import new_run_folder
from benchmark.store.foreign import read_logs
from benchmark.store.logs import Log
from benchmark.store.store import Store


def import_logs(paths: Sequence[Path], output: Path | None) -> int:
    """Read the logs and make a run of each task's, so that its models can be compared."""
    console = Console()
    tasks: dict[str, list[Log]] = {}
    for log in read_logs(paths):
        same = tasks.setdefault(log.task, [])
        if any(log.path.samefile(other.path) for other in same):
            raise UsageError(f"{log.path} is named twice")
        same.append(log)
    if output is not None and len(tasks) > 1:
        raise UsageError(f"the logs are of {len(tasks)} tasks ({', '.join(tasks)}), which make a run each: leave out --output")
    for logs in tasks.values():
        _check_comparable(logs)
    for task, logs in tasks.items():
        folder = output or new_run_folder(results_root(), datetime.now(UTC).astimezone(), "import")
        asyncio.run(_stored(folder, task, _labelled(logs)))
        summary = read_summary(folder)
        console.line(f"{task}: {counted(sum(len(log.results) for log in logs), 'result')} of {counted(len(logs), 'log')}")
        show(summary, folder, console)
        console.written(write_reports(folder, csv_path=folder / TRIALS_CSV, summary=summary))
    return 0


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
    identity = trial_id(trial.asked, model.digest, trial.agent, trial.repeat)
    return changed(result, trial=changed(trial, model=model, id=identity))


async def _stored(folder: Path, task: str, logs: Sequence[Log]) -> None:
    with Store.open(folder, _info(folder, task, logs)) as store:
        async for _ in store.committed(_events(logs)):
            pass


async def _events(logs: Sequence[Log]) -> AsyncIterator[Event]:
    for log in logs:
        for result in log.results:
            yield TrialFinished(result)
        label, done = log.model.label, len(log.results)
        yield ModelFinished(model=label, state=ModelState.FINISHED, message="", seconds=0.0, done=done)


def _info(folder: Path, task: str, logs: Sequence[Log]) -> RunInfo:
    first = logs[0]
    protocol = Protocol(
        dataset=task,
        dataset_digest=digest_of_texts(sorted({result.trial.asked for log in logs for result in log.results})),
        template_digest="",
        scorers=tuple(dict.fromkeys(name for log in logs for name in log.scorers)),
        agent=first.results[0].trial.agent,
        limit=None,
        repeats=1 + max((result.trial.repeat for log in logs for result in log.results), default=0),
        seed=0,
        form=f"{IMPORTED}made by {first.made_with}",
    )
    return RunInfo(
        run_id=folder.name,
        created_at=first.created_at,
        command=f"tiebreak import {' '.join(log.path.name for log in logs)}",
        protocol=protocol,
        models=tuple(log.model for log in logs),
        planned=max(len(log.results) for log in logs),
        made_with=first.made_with,
    )
