"""`tiebreak demo`: a real comparison in under a minute, with nothing to set up."""

from __future__ import annotations

from tiebreak.cli.console import Console
from tiebreak.cli.invocation import invoked_as
from tiebreak.cli.run import run_with
from tiebreak.core import embedded
from tiebreak.spec.flags import Flags
from tiebreak.spec.model_choice import EMBEDDED

_PROMPTS = ("short=Answer in one short sentence.", "pirate=You are a pirate. Answer in a song.")
_TOKENS = 40
"""Enough for a short answer, and for a song to have begun."""


def show_demo(limit: int | None) -> int:
    """Ask the embedded model fifty easy questions in two ways, beside chance, and say which way is better."""
    if not embedded.is_ready():
        Console().line("Fetching the weights of the embedded model, once (90 MB) …", style="dim")
        embedded.fetch_weights()
    models = (EMBEDDED, "baseline/random")
    flags = Flags(model=models, prompt=_PROMPTS, dataset="warmup", temperature=0.0, max_tokens=_TOKENS, seed=1, limit=limit)
    code = run_with(flags)
    console = Console()
    console.line("\nA toy model proves the tool, not a choice. Next:", style="bold")
    for step, gain in (
        ("doctor", "what can run here, and what is missing"),
        ("ask 'Your question' --models A,B", "answers side by side"),
        ("run --models A,B --dataset truthfulness --parallel", "the real comparison"),
    ):
        console.line(f"  {invoked_as()} {step}   # {gain}")
    return code
