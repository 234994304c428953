"""`tiebreak spent`: what all runs together cost, by month and model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
import msgspec

from tiebreak.cli.console import Console, counted
from tiebreak.cli.terminal import harmless_json
from tiebreak.config import results_root
from tiebreak.report.money import dollars
from tiebreak.store.batches import waiting_batches
from tiebreak.store.folder import DATABASE
from tiebreak.store.spending import Spent, spending


def show_spending(results: Path | None, *, as_json: bool = False) -> int:
    """Show the ledger of all runs of a folder."""
    root = results or results_root()
    found, unread = spending(path.parent for path in sorted(root.glob(f"*/{DATABASE}")))
    if as_json:
        data = {"results": str(root), "spent": [asdict(spent) for spent in found], "unread": unread}
        click.echo(harmless_json(msgspec.json.encode(data)))
        return 0
    console = Console()
    if not found:
        runs = sum(1 for _ in root.glob(f"*/{DATABASE}"))
        console.line(f"{counted(runs, 'run')} in {root}: none has spent anything." if runs else f"There are no runs in {root}.")
    else:
        console.table(("Month", "Model", "As", "Runs", "Calls", "Tokens", "Cost"), [_row(spent) for spent in found])
        console.line(_total(found))
    waiting = sum(one.lines for path in root.glob(f"*/{DATABASE}") for one in waiting_batches(path.parent))
    if waiting:
        console.line(
            f"{counted(waiting, 'question')} in batches will be paid for when the answers are collected.", style="yellow"
        )
    for problem in unread:
        console.warn(f"left out: {problem}")
    return 0


def _row(spent: Spent) -> tuple[str, ...]:
    return (
        *(spent.month, spent.model, "judge" if spent.judging else "contestant"),
        *(f"{spent.runs:,}", f"{spent.calls:,}", f"{spent.tokens:,}", _cost(spent.cost_usd, spent.unknown, spent.calls)),
    )


def _cost(usd: float, unknown: int, calls: int) -> str:
    """A sum that leaves something out is a lower bound; one that leaves out everything is not known."""
    return "unknown" if unknown == calls else f"{'≥ ' if unknown else ''}{dollars(usd)}"


def _total(found: Sequence[Spent]) -> str:
    unknown, calls = sum(spent.unknown for spent in found), sum(spent.calls for spent in found)
    said = f"In all: {_cost(sum(spent.cost_usd for spent in found), unknown, calls)}."
    return f"{said} Of {unknown:,} of {calls:,} calls no price is known." if unknown else said
