"""`tiebreak import`: results of other tools as runs of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace as changed

from benchmark.cli.console import Console
from benchmark.cli.run import show
from benchmark.config import results_root
from benchmark.core.digest import digest_of_texts
from benchmark.core.errors import UsageError
from benchmark.core.events import Event, ModelFinished, ModelState, TrialFinished
from benchmark.core.model import ModelRef
from benchmark.core.run import Protocol, RunInfo
from benchmark.core.trial import TrialResult, trial_id
from benchmark.pipeline import TRIALS_CSV, read_summary, write_reports
from benchmark.store.folder import new_run_folder
from benchmark.store.foreign import Log, read_logs
from benchmark.store.store import Store


def import_logs(paths: Sequence[Path], output: Path | None) -> int:
    """Read the logs and make a run of each task's, so that its models can be compared."""
    console = Console()
    tasks: dict[str, list[Log]] = {}
    for log in read_logs(paths):
        tasks.setdefault(log.task, []).append(log)
    if output is not None and len(tasks) > 1:
        raise UsageError(f"the logs are of {len(tasks)} tasks ({', '.join(tasks)}), which make a run each: leave out --output")
    for task, logs in tasks.items():
        folder = output or new_run_folder(results_root(), datetime.now(UTC).astimezone(), "import")
        asyncio.run(_stored(folder, task, _labelled(logs)))
        summary = read_summary(folder)
        console.line(f"{task}: {sum(len(log.results) for log in logs):,} results of {len(logs)} logs")
        show(summary, folder, console)
        console.written(write_reports(folder, csv_path=folder / TRIALS_CSV, summary=summary))
    return 0


def _labelled(logs: Sequence[Log]) -> list[Log]:
    """The logs, each model under a name of its own: two logs of one model are told apart."""
    seen: dict[str, int] = {}
    labelled = []
    for log in logs:
        label = log.model.label
        seen[label] = seen.get(label, 0) + 1
        if seen[label] > 1:
            model = replace(log.model, label=f"{label} ({seen[label]})", settings={"log": seen[label]})
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
        yield ModelFinished(model=label, state=ModelState.FINISHED, message="imported", seconds=0.0, done=done)


def _info(folder: Path, task: str, logs: Sequence[Log]) -> RunInfo:
    first = logs[0]
    protocol = Protocol(
        dataset=task,
        dataset_digest=digest_of_texts(sorted({result.trial.asked for log in logs for result in log.results})),
        template_digest="",
        scorers=tuple(dict.fromkeys(name for log in logs for name in log.scorers)),
        agent="direct",
        limit=None,
        repeats=1 + max((result.trial.repeat for log in logs for result in log.results), default=0),
        seed=0,
        form=f"imported: made and scored by {first.made_with}",
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
