"""What is said when a model was named that cannot be used."""

from __future__ import annotations

from tiebreak.cli.console import Console
from tiebreak.cli.invocation import invoked_as
from tiebreak.spec.build import UnusableModels


def explain_unusable(error: UnusableModels, console: Console) -> None:
    """Say that nothing was asked, and which models there are; why each cannot be used was said when it was checked."""
    console.line(f"\nNothing was asked: cannot use {error.names}.", style="bold")
    console.line(f"Available models: {', '.join(error.available)}")
    if error.disabled:
        console.line(error.disabled)
    console.line(f"What each of them needs: {invoked_as()} list models")
