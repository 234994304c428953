"""The whole road: the same questions through the real pipeline, every answer scored and on disk; prints JSON.

The address and key of the server come from OPENAI_BASE_URL and OPENAI_API_KEY.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import uvloop
from measure import CLIENT_CORE, Stopwatch, pin

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmark.core.run import RunSpec
from benchmark.pipeline import TRIALS_CSV, run_benchmark, write_reports
from benchmark.registry import Catalog


def run(dataset: Path, results: Path, connections: int) -> None:
    """Run, or go on with, the dataset on the mock model."""
    watch = Stopwatch()
    model = Catalog().resolve("openai/mock")
    spec = RunSpec(models=(model,), dataset=str(dataset), results_dir=results, max_connections=connections)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        summary = runner.run(run_benchmark(spec))
    watch.report(rows=sum(model.answered for model in summary.models))


def export(results: Path) -> None:
    """Write the CSV and JSON files of a finished run."""
    watch = Stopwatch()
    written = write_reports(results, csv_path=results / TRIALS_CSV)
    watch.report(mb=sum(path.stat().st_size for path in written) / 1e6)


def main() -> None:
    """Run a dataset file, or export its results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--export", action="store_true", help="export the results of a finished run instead")
    arguments = parser.parse_args()
    pin(CLIENT_CORE)
    if arguments.export:
        export(arguments.results)
    else:
        run(arguments.dataset, arguments.results, arguments.connections)


if __name__ == "__main__":
    main()
