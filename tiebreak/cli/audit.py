"""`tiebreak audit`: what would make a dataset's score mean less."""

from __future__ import annotations

from tiebreak.cli.console import Console, counted
from tiebreak.core.run import Source
from tiebreak.registry import audit_dataset, load_dataset


def show_audit(name: str, source: Source) -> int:
    """Look a dataset over and say what was found; 0 when nothing was, else 3."""
    console = Console()
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
