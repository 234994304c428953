"""`tiebreak ask`: one prompt, several models, no dataset."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmark.cli import exits
from benchmark.cli.console import Console
from benchmark.cli.run import Flags, checked_models
from benchmark.core.errors import UsageError
from benchmark.core.trial import TrialResult
from benchmark.pipeline import ask_models, loop_factory


def ask_side_by_side(prompt: str, timeout: float, flags: dict[str, Any]) -> int:
    """Put a prompt to several models at once and show the answers side by side."""
    if not prompt.strip():
        raise UsageError("the prompt is empty")
    console = Console()
    models = checked_models(Flags(**flags, quiet=True), console)
    if models is None:
        return exits.FAILED
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        results = runner.run(ask_models(models, prompt, timeout_s=timeout))
    console.answers([(model, results[model.label]) for model in models])
    answered = [r for r in results.values() if isinstance(r, TrialResult) and r.failure is None]
    if not answered:
        return exits.FAILED
    return 0 if len(answered) == len(models) else exits.PARTIAL
