"""How a run's result becomes an exit code."""

from __future__ import annotations

from benchmark.core.events import ModelState
from benchmark.report.summary import Summary


def exit_code(
    summary: Summary, *, allow_failures: float = 0.0, fail_under: float | None = None, worse_than_baseline: bool = False
) -> int:
    """0 all finished, 1 nothing usable, 2 partial, 3 a gate missed. A wrong answer is a result, not a failure."""
    if all(model.answered == 0 for model in summary.models):
        return 1
    for model in summary.models:
        if not model.finished or model.state != ModelState.FINISHED or model.failed > allow_failures * model.planned:
            return 2
    if fail_under is not None and any((model.score or 0.0) < fail_under for model in summary.contestants):
        return 3
    return 3 if worse_than_baseline else 0
