"""`tiebreak history`: one contestant over its runs, and whether it still answers as it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
import msgspec

from tiebreak.cli.console import Console
from tiebreak.cli.exits import GATE
from tiebreak.cli.terminal import harmless_json
from tiebreak.config import results_root
from tiebreak.core.errors import UsageError
from tiebreak.report.history import History, histories
from tiebreak.store.folder import DATABASE

_ENOUGH, _FEW = 2, 50


def show_history(name: str, results: Path | None, *, as_json: bool = False) -> int:
    """Show every history of a contestant; the exit code says whether the last run shows a change."""
    root = results or results_root()
    found, unread = histories([path.parent for path in root.glob(f"*/{DATABASE}")], name)
    if not found:
        raise UsageError(f"no run in {root} has answers of {name!r}; tiebreak list runs shows who took part in which")
    if as_json:
        data = {"contestant": name, "histories": [asdict(history) for history in found], "unread": unread}
        click.echo(harmless_json(msgspec.json.encode(data)))
    else:
        _show(Console(), found, unread)
    return GATE if any(_just_changed(history) for history in found) else 0


def _just_changed(history: History) -> bool:
    return any(change.shown == history.runs[-1].run for change in history.changes)


def _show(console: Console, found: Sequence[History], unread: Sequence[str]) -> None:
    for history in found:
        console.line(f"{history.label} on {history.dataset}", style="bold")
        since = {change.since: "from here" for change in history.changes}
        rows = [
            (run.run, f"{run.made_at:%Y-%m-%d %H:%M}", f"{run.samples:,}", f"{run.score:.2f} [{run.low:.2f}, {run.high:.2f}]")
            for run in history.runs
        ]
        console.table(("Run", "Made (UTC)", "Samples", "Score", "Changed"), [(*row, since.get(row[0], "")) for row in rows])
        for change in history.changes:
            console.line(change.sentence, style="yellow")
        if len(history.runs) < _ENOUGH:
            console.line("One run is no history: run the same again, and call this again.")
        elif not history.changes:
            few = min(run.samples for run in history.runs) < _FEW
            told = " Of so few samples only a large change could be." if few else ""
            console.line(f"No change is shown by these {len(history.runs)} runs.{told}")
        console.line()
    for problem in unread:
        console.warn(f"left out: {problem}")
