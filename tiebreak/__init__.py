"""tiebreak: runs the same questions on many models and says honestly which is better.

Importing this package is cheap: each public name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiebreak.api import Run, Stream, Verdict, arun, resume, run, start, stream
    from tiebreak.api import open as open
    from tiebreak.core.errors import BenchmarkError, ProviderError, RateLimitError, UsageError
    from tiebreak.core.model import ModelRef
    from tiebreak.core.sample import Sample
    from tiebreak.core.trial import Score
    from tiebreak.multi_runner import (
        BenchmarkResult,
        ExecutionMode,
        ModelBenchmarkResult,
        MultiModelBenchmarkRunner,
        ProgressTracker,
        get_provider_for_model,
    )

__version__ = "0.1.0"

_HOMES = {
    **dict.fromkeys(("Run", "Stream", "Verdict", "arun", "open", "resume", "run", "start", "stream"), "tiebreak.api"),
    "ModelRef": "tiebreak.core.model",
    "Sample": "tiebreak.core.sample",
    "Score": "tiebreak.core.trial",
    "UsageError": "tiebreak.core.errors",
    "BenchmarkError": "tiebreak.core.errors",
    "ProviderError": "tiebreak.core.errors",
    "RateLimitError": "tiebreak.core.errors",
    "BenchmarkResult": "tiebreak.multi_runner",
    "ExecutionMode": "tiebreak.multi_runner",
    "ModelBenchmarkResult": "tiebreak.multi_runner",
    "MultiModelBenchmarkRunner": "tiebreak.multi_runner",
    "ProgressTracker": "tiebreak.multi_runner",
    "get_provider_for_model": "tiebreak.multi_runner",
}

# Not `open`: `from tiebreak import *` must not hide Python's own.
__all__ = [  # noqa: RUF022 — the order of the documentation
    "run",
    "arun",
    "start",
    "stream",
    "resume",
    "Run",
    "Stream",
    "Verdict",
    "Sample",
    "ModelRef",
    "Score",
    "MultiModelBenchmarkRunner",
    "ExecutionMode",
    "ModelBenchmarkResult",
    "BenchmarkResult",
    "ProgressTracker",
    "get_provider_for_model",
    "BenchmarkError",
    "ProviderError",
    "RateLimitError",
    "UsageError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tiebreak' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])
