"""`tiebreak merge`: one run of several."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from tiebreak.cli.console import Console, counted
from tiebreak.cli.invocation import invoked_as
from tiebreak.cli.run import show
from tiebreak.cli.terminal import harmless_json
from tiebreak.config import results_root
from tiebreak.core.errors import UsageError
from tiebreak.pipeline import TRIALS_CSV, read_summary, write_reports
from tiebreak.report.gates import exit_code, is_complete
from tiebreak.report.tabular import summary_data
from tiebreak.store.folder import empty_folder, find_run
from tiebreak.store.merge import merge
from tiebreak.store.reader import StoreReader

_SHOWN = 10


def compare_as_one(names: Sequence[str], *, as_json: bool) -> int:
    """Show runs of one protocol as one comparison, which is kept nowhere."""
    with tempfile.TemporaryDirectory(prefix="tiebreak-") as home:
        into = Path(home) / "as-one"
        into.mkdir()
        parts = _parts(names)
        merge(into, parts)
        summary = read_summary(into)
        if as_json:
            data = {**summary_data(summary), "asked_on": asked_on(parts)}
            click.echo(harmless_json(msgspec.json.encode(data)))
            return 0
        console = Console()
        show(summary, into, console)
        _note_days(parts, console)
        console.line(f"To keep this as a run: {invoked_as()} merge OUT {shlex.join(names)}", style="dim")
    return 0


def asked_on(parts: Sequence[Path]) -> dict[str, str]:
    """By contestant, the day its run began."""
    found: dict[str, str] = {}
    for part in parts:
        with StoreReader(part) as reader:
            found |= {contestant.label: f"{reader.info.created_at:%Y-%m-%d}" for contestant in reader.info.contestants}
    return found


def _note_days(parts: Sequence[Path], console: Console) -> None:
    """A name may stand for another model by another day."""
    days = asked_on(parts)
    if len(set(days.values())) > 1:
        listed = ", ".join(f"{label} on {day}" for label, day in days.items())
        console.line(
            f"Asked on different days: {listed}. What a provider serves under a name may have changed in between.", style="yellow"
        )


def _parts(names: Sequence[str]) -> list[Path]:
    """The folders of these runs, each once."""
    parts = [find_run(name, results_root()) for name in names]
    places = [part.resolve() for part in parts]
    if twice := next((part for part in parts if places.count(part.resolve()) > 1), None):
        raise UsageError(f"{twice} is named twice")
    return parts


def merge_runs(into: Path, names: Sequence[str]) -> int:
    """Merge, write the files and show the result; what is still to be asked is said."""
    console = Console()
    parts = _parts(names)
    if around := next((part for part in parts if into.resolve().is_relative_to(part.resolve())), None):
        raise UsageError(f"{into} lies in {around}, which is one of the parts; name a folder outside them")
    merged = merge(empty_folder(into), parts)
    console.line(f"Merged {counted(len(parts), 'part')} into {into}: {counted(merged.info.samples, 'sample')} are planned.")
    summary = read_summary(into)
    show(summary, into, console)
    if merged.side_by_side:
        _note_days(parts, console)
    console.written(write_reports(into, csv_path=into / TRIALS_CSV, summary=summary))
    if merged.missing:
        some = ", ".join(map(str, merged.missing[:_SHOWN])) + (", …" if len(merged.missing) > _SHOWN else "")
        console.line(f"Missing: shard {some}.", style="yellow")
    if not is_complete(summary):
        line = f"{invoked_as()} run --resume {shlex.quote(str(into))}"
        console.line(f"Not everything was answered. Go on with: {line}", style="yellow")
    return exit_code(summary)
