"""`tiebreak audit`: what would make a dataset's score mean less, before it is asked and after."""

from __future__ import annotations

from pathlib import Path

from tiebreak.cli.console import Console, counted
from tiebreak.config import results_root
from tiebreak.core.run import Source
from tiebreak.registry import audit_dataset, load_dataset
from tiebreak.report.suspects import Suspect, audit_run
from tiebreak.report.verdict import listed
from tiebreak.store.folder import has_database
from tiebreak.store.reader import StoreReader

_SHOWN = 10


def show_audit(name: str, source: Source) -> int:
    """Look a dataset over and say what was found; 0 when nothing was, else 3."""
    console = Console()
    run = next((folder for folder in (Path(name), results_root() / name) if has_database(folder)), None)
    if run is not None:
        return _show_run(run, console)
    dataset = load_dataset(name, source)
    found = audit_dataset(dataset)
    console.line(f"{name}: {counted(found.samples, 'sample')}, {dataset.about}")
    for guesser, score in found.guessers.items():
        console.line(f"  {guesser}: {score:.1%}")
    for finding in found.findings:
        where = f" ({', '.join(finding.samples)})" if finding.samples else ""
        console.warn(f"{finding.kind}: {finding.message}{where}")
    if not found.findings:
        console.line("Nothing was found that would make its score mean less.")
    return 3 if found.findings else 0


def _show_run(folder: Path, console: Console) -> int:
    """Say of a run which samples tell nothing, and which labels to look at; 0 when there are none of these, else 3."""
    with StoreReader(folder) as reader:
        found = audit_run(reader)
    if found is None:
        console.line(f"{folder.name}: no two contestants answered the same sample; there is nothing to compare.")
        return 0
    console.line(f"{folder.name}: {counted(found.asked, 'sample')} that two or more contestants answered")
    for samples, what in ((found.all_right, "everyone has right"), (found.all_wrong, "nobody has right")):
        if samples:
            console.line(f"  {len(samples):,} that {what}: {_some(samples)}. They rank nobody.")
    for suspect in found.suspects[:_SHOWN]:
        console.warn(_told(suspect))
    if len(found.suspects) > _SHOWN:
        console.line(f"  {len(found.suspects) - _SHOWN:,} more that only weaker contestants have right.")
    if not found.suspects:
        console.line("No label looks wrong: no sample is right only for weaker contestants.")
        return 0
    console.line("Look at these labels. To drop samples now would choose the winner: change the file and run again.")
    return 3


def _told(suspect: Suspect) -> str:
    target = f" (expected {suspect.target[:60]!r})" if suspect.target else ""
    return f"{suspect.sample}{target}: {listed(suspect.wrong)} wrong, {listed(suspect.right)} right"


def _some(samples: tuple[str, ...]) -> str:
    return ", ".join(samples[:_SHOWN]) + (", …" if len(samples) > _SHOWN else "")
