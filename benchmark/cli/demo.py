"""`tiebreak demo`: the whole road in half a minute, with nothing to set up."""

from __future__ import annotations

from benchmark.cli.choose import EMBEDDED
from benchmark.cli.console import Console, invoked_as
from benchmark.cli.run import Flags, run_with

_MODELS = (EMBEDDED, "baseline/random", "baseline/constant")


def show_demo(limit: int | None) -> int:
    """Run the embedded model and the baselines on fifty easy questions, and compare them."""
    code = run_with(Flags(model=_MODELS, dataset="warmup", temperature=0.0, max_tokens=100, seed=1, limit=limit))
    console = Console()
    console.line("\nA toy model proves the tool, not a choice. Next:", style="bold")
    for step, gain in (
        ("doctor", "what can run here, and what is missing"),
        ("ask 'Your question' --models A,B", "answers side by side"),
        ("run --models A,B --dataset truthfulness --parallel", "the real comparison"),
    ):
        console.line(f"  {invoked_as()} {step}   # {gain}")
    return code
