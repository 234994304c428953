"""`tiebreak compare`: two runs, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click
import msgspec

from tiebreak.cli.console import Console
from tiebreak.cli.terminal import harmless_json
from tiebreak.config import results_root
from tiebreak.report.baseline import is_baseline_file, read_baseline
from tiebreak.report.caveats import remembered_words
from tiebreak.report.changes import Change, changes, check_protocols, unmatched
from tiebreak.report.samples import SampleAnswer, answers_to
from tiebreak.report.verdict import probability
from tiebreak.store.folder import find_run
from tiebreak.store.reader import StoreReader

_SHOWN = 10


def compare_runs(before: str, after: str, *, changed: Sequence[str] = (), force: bool = False, as_json: bool = False) -> int:
    """Show what changed between two runs, per model and per sample."""
    root = results_root()
    one, other = read_baseline(before, root), read_baseline(after, root)
    differing = check_protocols(one, other, changed=changed, force=force)
    found = changes(one, other, changed=changed)
    if as_json:
        data = {
            "before": one.run_id,
            "after": other.run_id,
            "protocol_differences": differing,
            "changes": [asdict(change) for change in found],
            "unmatched": unmatched(one, other, changed),
            "remembered": {label: entry.remembered for label, entry in other.contestants.items() if entry.remembered},
        }
        click.echo(harmless_json(msgspec.json.encode(data)))
        return 0
    console = Console()
    if differing:
        console.line(f"Compared by --force: the runs differ in their {', '.join(differing)}.", style="yellow")
    console.table(("Model", "Before", "After", "Change", "Fixed", "Broken", "p"), [_row(change) for change in found])
    console.line()
    for sentence in unmatched(one, other, changed):
        console.line(sentence, style="yellow")
    for label, entry in other.contestants.items():
        if entry.remembered:
            words = remembered_words(label, entry.remembered)
            console.line(f"{words}: whatever has changed since, they cannot show it.", style="yellow")
    for change in found:
        console.line(change.sentence)
        samples = (*change.broken[:_SHOWN], *change.fixed[:_SHOWN])
        answers = _answers(after, change.label, samples)
        console.samples("broken", change.broken, answers, _SHOWN)
        console.samples("fixed", change.fixed, answers, _SHOWN)
    return 0


def _answers(run: str, label: str, samples: Sequence[str]) -> Mapping[str, SampleAnswer]:
    """What a contestant answered in the later run; a baseline file knows scores alone."""
    if is_baseline_file(run) or not samples:
        return {}
    with StoreReader(find_run(run, results_root())) as reader:
        return answers_to(reader, label, samples)


def _row(change: Change) -> tuple[str, ...]:
    name = change.label if change.was == change.label else f"{change.was} → {change.label}"
    points = f"{100 * change.difference:+.1f} [{100 * change.low:+.1f}, {100 * change.high:+.1f}]"
    scores = (f"{change.before:.2f}", f"{change.after:.2f}", points)
    return (
        name,
        *scores,
        str(len(change.fixed)),
        str(len(change.broken)),
        probability(change.p_corrected).removeprefix("p = ").removeprefix("p "),
    )
