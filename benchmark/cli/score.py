"""`tiebreak score`: kept answers judged anew."""

from __future__ import annotations

import asyncio

from benchmark.cli.console import Console, counted
from benchmark.cli.run import show
from benchmark.config import results_root
from benchmark.pipeline import read_summary, rebuild, rescore
from benchmark.store.folder import find_run


def score_run(run: str, scorer: str | None) -> int:
    """Judge a run's answers anew, write its files and show what they now say."""
    console = Console()
    folder = find_run(run, results_root())
    judged = asyncio.run(rescore(folder, scorer))
    by = f"the scorer {scorer}" if scorer else "the dataset's own scorers"
    console.line(f"{counted(judged, 'answer')} judged by {by}; nothing was asked.")
    written = rebuild(folder)
    show(read_summary(folder), folder, console)
    console.written(written)
    return 0
