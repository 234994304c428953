"""`tiebreak compare`: two runs, before and after."""

from __future__ import annotations

from dataclasses import asdict

import click
import msgspec

from benchmark.cli.console import Console
from benchmark.config import results_root
from benchmark.report.baseline import read_baseline
from benchmark.report.changes import Change, changes, check_protocols

_SHOWN = 10


def compare_runs(before: str, after: str, *, force: bool, as_json: bool) -> int:
    """Show what changed between two runs, per model and per sample."""
    root = results_root()
    one, other = read_baseline(before, root), read_baseline(after, root)
    differing = check_protocols(one, other, force=force)
    found = changes(one, other)
    if as_json:
        data = {
            "before": one.run_id,
            "after": other.run_id,
            "protocol_differences": differing,
            "changes": [asdict(change) for change in found],
        }
        click.echo(msgspec.json.encode(data).decode())
        return 0
    console = Console()
    if differing:
        console.line(f"Compared by --force: the runs differ in their {', '.join(differing)}.", style="yellow")
    console.table(("Model", "Before", "After", "Change", "Fixed", "Broken", "p"), [_row(change) for change in found])
    console.line()
    for change in found:
        console.line(change.sentence)
        _list(console, "broken", change.broken)
        _list(console, "fixed", change.fixed)
    return 0


def _row(change: Change) -> tuple[str, ...]:
    name = change.label if change.was == change.label else f"{change.was} → {change.label}"
    points = f"{100 * change.difference:+.1f} [{100 * change.low:+.1f}, {100 * change.high:+.1f}]"
    scores = (f"{change.before:.2f}", f"{change.after:.2f}", points)
    return (name, *scores, str(len(change.fixed)), str(len(change.broken)), f"{change.p_corrected:.3f}")


def _list(console: Console, word: str, samples: tuple[str, ...]) -> None:
    if samples:
        more = f", and {len(samples) - _SHOWN:,} more" if len(samples) > _SHOWN else ""
        console.line(f"  {word}: {', '.join(samples[:_SHOWN])}{more}")
