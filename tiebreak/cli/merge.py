"""`tiebreak merge`: one run of several."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from tiebreak.cli.console import Console, counted
from tiebreak.cli.invocation import invoked_as
from tiebreak.cli.run import show
from tiebreak.config import results_root
from tiebreak.core.errors import UsageError
from tiebreak.pipeline import TRIALS_CSV, read_summary, write_reports
from tiebreak.report.gates import exit_code, is_complete
from tiebreak.store.folder import empty_folder, find_run
from tiebreak.store.merge import merge

_SHOWN = 10


def merge_runs(into: Path, names: Sequence[str]) -> int:
    """Merge, write the files and show the result; what is still to be asked is said."""
    console = Console()
    parts = [find_run(name, results_root()) for name in names]
    places = [part.resolve() for part in parts]
    if twice := next((part for part in parts if places.count(part.resolve()) > 1), None):
        raise UsageError(f"{twice} is named twice")
    if around := next((part for part in parts if into.resolve().is_relative_to(part.resolve())), None):
        raise UsageError(f"{into} lies in {around}, which is one of the parts; name a folder outside them")
    merged = merge(empty_folder(into), parts)
    console.line(f"Merged {counted(len(parts), 'part')} into {into}: {counted(merged.info.samples, 'sample')} are planned.")
    summary = read_summary(into)
    show(summary, into, console)
    console.written(write_reports(into, csv_path=into / TRIALS_CSV, summary=summary))
    if merged.missing:
        some = ", ".join(map(str, merged.missing[:_SHOWN])) + (", …" if len(merged.missing) > _SHOWN else "")
        console.line(f"Missing: shard {some}.", style="yellow")
    if not is_complete(summary):
        line = f"{invoked_as()} run --resume {shlex.quote(str(into))}"
        console.line(f"Not everything was answered. Go on with: {line}", style="yellow")
    return exit_code(summary)
