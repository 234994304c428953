"""`tiebreak report` and `tiebreak open`: a run's files, written anew and looked at."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from benchmark.cli.batch import show_batch
from benchmark.cli.console import Console
from benchmark.cli.run import show
from benchmark.config import results_root
from benchmark.pipeline import REPORT_JSON, is_batch, read_batch, read_summary, rebuild
from benchmark.report.tabular import summary_data
from benchmark.store.folder import find_run, last_run

_SHOWN_FIRST = ("comparison_report.html", REPORT_JSON)


def report_runs(runs: Sequence[str], *, csv: bool, markdown: bool, as_json: bool) -> int:
    """Write every file of the runs anew, and show what they say."""
    console = Console(to_stderr=as_json)
    for folder in [find_run(run, results_root()) for run in runs] or [last_run(results_root())]:
        written = rebuild(folder, csv=csv)
        summary = read_summary(folder)
        if as_json:
            click.echo(msgspec.json.encode(summary_data(summary)).decode())
        elif is_batch(summary.info) and not markdown:
            show_batch(read_batch(folder), console)
        else:
            show(summary, folder, console, markdown=markdown)
        console.written(written)
    return 0


def open_report(run: str | None) -> int:
    """Open the report of a run, or of the last one, in a browser; where there is none, say where it is."""
    console = Console()
    folder = find_run(run, results_root()) if run else last_run(results_root())
    if not any((folder / name).is_file() for name in _SHOWN_FIRST):
        rebuild(folder)
    path = next(folder / name for name in _SHOWN_FIRST if (folder / name).is_file()).resolve()
    if not (can_show() and _opened(path)):
        console.line("There is no browser here. The report is in:")
    console.line(str(path))
    return 0


def can_show() -> bool:
    """Whether someone could see a window; a browser in the terminal would only be in the way."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def _opened(path: Path) -> bool:
    import webbrowser

    return webbrowser.open(path.as_uri())
