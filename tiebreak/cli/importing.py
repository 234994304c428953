"""`tiebreak import`: results of other tools as runs of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tiebreak.cli.console import Console, counted
from tiebreak.cli.run import show
from tiebreak.config import results_root
from tiebreak.core.errors import UsageError
from tiebreak.imports.files import read_logs
from tiebreak.imports.logs import Log
from tiebreak.imports.runs import events_of, logs_by_task, run_info
from tiebreak.pipeline import TRIALS_CSV, read_summary, write_reports
from tiebreak.store.folder import new_run_folder
from tiebreak.store.store import Store


def import_logs(paths: Sequence[Path], output: Path | None) -> int:
    """Read the logs and make a run of each task's, so that its models can be compared."""
    console = Console()
    tasks = logs_by_task(read_logs(paths))
    if output is not None and len(tasks) > 1:
        raise UsageError(f"the logs are of {len(tasks)} tasks ({', '.join(tasks)}), which make a run each: leave out --output")
    for task, logs in tasks.items():
        folder = output or new_run_folder(results_root(), datetime.now(UTC).astimezone(), "import")
        asyncio.run(_stored(folder, task, logs))
        summary = read_summary(folder)
        console.line(f"{task}: {counted(sum(len(log.results) for log in logs), 'result')} of {counted(len(logs), 'log')}")
        show(summary, folder, console)
        console.written(write_reports(folder, csv_path=folder / TRIALS_CSV, summary=summary))
    return 0


async def _stored(folder: Path, task: str, logs: Sequence[Log]) -> None:
    with Store.open(folder, run_info(folder.name, task, logs)) as store:
        async for _ in store.committed(events_of(logs)):
            pass
