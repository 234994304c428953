#!/usr/bin/env python3
"""Front door for datasets: the same as `tiebreak run`, and takes tiebreak's other commands too."""

import sys
from typing import Any

from tiebreak.cli import main


def run_benchmark(model_name: str, dataset_name: str, **options: Any) -> dict[str, Any]:
    """Run one model on a dataset; can be the `benchmark_function` of a MultiModelBenchmarkRunner."""
    from tiebreak import multi_runner

    return multi_runner.run_benchmark(model_name, dataset_name, **options)


if __name__ == "__main__":
    sys.exit(main(default_command="run"))
