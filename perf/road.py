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

from tiebreak.core.contestant import Contestant
from tiebreak.core.run import Pace, Protocol, RunSpec
from tiebreak.pipeline import REPORT_JSON, TRIALS_CSV, run_benchmark
from tiebreak.registry import Catalog
from tiebreak.report.html import REPORT_HTML, write_page
from tiebreak.report.summary import summarise
from tiebreak.report.tabular import write_files
from tiebreak.store.reader import StoreReader


def run(dataset: Path, results: Path, connections: int) -> None:
    """Run, or go on with, the dataset on the mock model."""
    watch = Stopwatch()
    model = Catalog().resolve("openai/mock")
    spec = RunSpec(
        protocol=Protocol(dataset=str(dataset)),
        contestants=(Contestant(label=model.label, model=model),),
        pace=Pace(max_connections=connections),
        results_dir=results,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        summary = runner.run(run_benchmark(spec))
    watch.report(rows=sum(model.answered for model in summary.contestants))


def export(results: Path) -> None:
    """Write the CSV and JSON files of a finished run, and then its page."""
    watch = Stopwatch()
    with StoreReader(results) as reader:
        summary = summarise(reader)
        write_files(reader, summary, results / REPORT_JSON, results / TRIALS_CSV)
        files_s = watch.seconds
        write_page(reader, summary, results / REPORT_HTML)
    watch.report(files_s=files_s, page_s=watch.seconds - files_s)


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
