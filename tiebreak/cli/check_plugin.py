"""`tiebreak check-plugin`: whether a provider, scorer, dataset or agent is what the engine expects."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from tiebreak.cli.console import Console
from tiebreak.core.errors import BenchmarkError
from tiebreak.plugin_checks.findings import Finding, wrong


def check_plugin(kind: str, name: str, *, model: str, dataset: str) -> int:
    """Check a plugin and print a line for each finding; 0 when nothing is wrong, else 1."""
    console = Console()
    problems = 0
    for finding in findings(kind, name, model=model, dataset=dataset):
        console.line(f"{finding.mark} {finding.text}", style="red" if finding.is_wrong else "")
        problems += finding.is_wrong
    console.line(f"The {kind} {name} has {problems or 'no'} problem{'' if problems == 1 else 's'}.", style="bold")
    return 1 if problems else 0


def findings(kind: str, name: str, *, model: str = "", dataset: str = "") -> Iterator[Finding]:
    """What was found about a plugin, in the order it was looked at."""
    check = import_module(f"tiebreak.plugin_checks.{kind}s").check
    options = {"provider": (model,), "scorer": (dataset,)}.get(kind, ())
    try:
        yield from check(name, *options)
    except BenchmarkError as error:
        yield wrong(str(error))
