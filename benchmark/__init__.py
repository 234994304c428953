"""tiebreak: runs the same questions on many models and says honestly which is better.

Importing this package is cheap: each public name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmark.core.errors import BenchmarkError, ProviderError, RateLimitError
    from benchmark.multi_runner import (
        BenchmarkResult,
        ExecutionMode,
        ModelBenchmarkResult,
        MultiModelBenchmarkRunner,
        ProgressTracker,
        get_provider_for_model,
    )

__version__ = "0.1.0"

_HOMES = {
    "BenchmarkError": "benchmark.core.errors",
    "ProviderError": "benchmark.core.errors",
    "RateLimitError": "benchmark.core.errors",
    "BenchmarkResult": "benchmark.multi_runner",
    "ExecutionMode": "benchmark.multi_runner",
    "ModelBenchmarkResult": "benchmark.multi_runner",
    "MultiModelBenchmarkRunner": "benchmark.multi_runner",
    "ProgressTracker": "benchmark.multi_runner",
    "get_provider_for_model": "benchmark.multi_runner",
}

__all__ = [  # noqa: RUF022 — the order of the documentation
    "MultiModelBenchmarkRunner",
    "ExecutionMode",
    "ModelBenchmarkResult",
    "BenchmarkResult",
    "ProgressTracker",
    "get_provider_for_model",
    "BenchmarkError",
    "ProviderError",
    "RateLimitError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'benchmark' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
