"""`tiebreak prune`: old runs are removed, after a look at the list of them."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from tiebreak.cli import exits
from tiebreak.cli.console import Console, counted
from tiebreak.cli.invocation import invoked_as
from tiebreak.config import results_root
from tiebreak.core.errors import BenchmarkError, UsageError
from tiebreak.core.media import in_bytes
from tiebreak.store.batches import waiting_batches
from tiebreak.store.folder import DATABASE, is_running, owned, run_label, strangers_in
from tiebreak.store.reader import StoreReader

_AGE = re.compile(r"(\d{1,5})\s*(h|d|w)")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class _Run:
    """A run that may be removed, or the reason why it stays."""

    folder: Path
    made_at: datetime
    about: str
    """Its dataset and its contestants."""
    size_bytes: int
    stays: str = ""


def prune_runs(results: Path | None, *, keep: int | None, older_than: str | None, dry_run: bool, agreed: bool) -> int:
    """List what would be removed, ask, and remove it; what is at work, labelled or waits for answers stays."""
    if keep is None and older_than is None:
        raise UsageError("say which runs: --keep 20 keeps the last twenty, --older-than 30d removes what is older")
    root, console = results or results_root(), Console()
    runs, unread = _runs(root)
    limit = None if older_than is None else datetime.now(UTC) - _age(older_than)
    chosen = [run for place, run in enumerate(runs) if place >= (keep or 0) and (limit is None or run.made_at < limit)]
    going, staying = [run for run in chosen if not run.stays], [run for run in chosen if run.stays]
    for run in staying:
        console.line(f"{run.folder.name} stays: {run.stays}", style="dim")
    for problem in unread:
        console.warn(f"left alone: {problem}")
    if not going:
        console.line(f"Nothing to remove in {root}.")
        return 0
    console.table(("Run", "Made (UTC)", "Size", "What it asked"), [_row(run) for run in going])
    size = in_bytes(sum(run.size_bytes for run in going))
    if dry_run:
        console.line(f"{counted(len(going), 'run')} would be removed, {size}.")
        return 0
    if not (
        agreed
        or _is_agreed(
            console, f"Remove {counted(len(going), 'run')}, {size}? They cannot be brought back, nor what they spent be shown."
        )
    ):
        return exits.FAILED
    removed = [run for run in going if _is_removed(run.folder, console)]
    console.line(f"{counted(len(removed), 'run')} removed, {in_bytes(sum(run.size_bytes for run in removed))} freed.")
    return 0 if len(removed) == len(going) else exits.PARTIAL


def _is_agreed(console: Console, question: str) -> bool:
    if sys.stdin.isatty() and console.is_terminal:
        return click.confirm(question)
    console.line("Nothing was removed: nobody can be asked here, so say --yes.", style="bold")
    return False


def _runs(root: Path) -> tuple[list[_Run], list[str]]:
    """Every run of a folder, the last one first; a link is nobody's to follow."""
    runs, unread = [], []
    for path in root.glob(f"*/{DATABASE}"):
        if path.parent.is_symlink():
            continue
        try:
            with StoreReader(path.parent, check=False) as reader:
                info = reader.info
        except BenchmarkError as error:
            unread.append(f"{path.parent.name}: {error}")
            continue
        about = f"{Path(info.protocol.dataset).name}: {', '.join(c.label for c in info.contestants)}"
        runs.append(_Run(path.parent, info.created_at, about, _size(path.parent), _why_it_stays(path.parent)))
    return sorted(runs, key=lambda run: (run.made_at, run.folder.name), reverse=True), unread


def _why_it_stays(folder: Path) -> str:
    if is_running(folder):
        return "it is running"
    if label := run_label(folder):
        return f"it is called {label!r}; {invoked_as()} label {shlex.quote(str(folder))} '' takes the label away"
    if strangers := strangers_in(folder):
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        return f"its folder holds what is not of the run: {strangers[0]}{more}"
    return "it waits for answers that are paid for" if waiting_batches(folder) else ""


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() or path.is_symlink())


def _is_removed(folder: Path, console: Console) -> bool:
    """Remove a run that nobody has begun to work on since it was listed."""
    try:
        with owned(folder):
            # The store goes first: what a kill leaves behind is no run any more.
            (folder / DATABASE).unlink()
            shutil.rmtree(folder)
    except (BenchmarkError, OSError) as error:
        console.warn(f"{folder.name} is not removed: {error}")
        return False
    return True


def _age(typed: str) -> timedelta:
    found = _AGE.fullmatch(typed.strip().lower())
    if found is None:
        raise UsageError(f"--older-than {typed}: it is a number of hours, days or weeks, as in 12h, 30d or 8w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _row(run: _Run) -> tuple[str, ...]:
    return run.folder.name, f"{run.made_at.astimezone(UTC):%Y-%m-%d %H:%M}", in_bytes(run.size_bytes), run.about
