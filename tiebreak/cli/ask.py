"""`tiebreak ask`: one prompt, several models, no dataset."""

from __future__ import annotations

import asyncio
from typing import Any

from tiebreak.cli import exits
from tiebreak.cli.console import Console
from tiebreak.cli.unusable import explain_unusable
from tiebreak.config import load_config
from tiebreak.core.errors import UsageError
from tiebreak.core.trial import TrialResult
from tiebreak.pipeline import ask_models, loop_factory
from tiebreak.spec.build import UnusableModels, checked_models
from tiebreak.spec.flags import ModelFlags


def ask_side_by_side(prompt: str, timeout: float, flags: dict[str, Any]) -> int:
    """Put a prompt to several models at once and show the answers side by side."""
    if not prompt.strip():
        raise UsageError("the prompt is empty")
    console = Console()
    named = ModelFlags(**flags, quiet=True)
    try:
        models = checked_models(named, load_config(named.config), console)
    except UnusableModels as error:
        explain_unusable(error, console)
        return exits.FAILED
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        results = runner.run(ask_models(models, prompt, timeout_s=timeout))
    console.answers([(model, results[model.label]) for model in models])
    answered = [r for r in results.values() if isinstance(r, TrialResult) and r.failure is None]
    if not answered:
        return exits.FAILED
    return 0 if len(answered) == len(models) else exits.PARTIAL
