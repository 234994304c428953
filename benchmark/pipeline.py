"""The whole program on one page: a spec becomes a plan, a plan trials, trials events, events a store, a store a report."""

from __future__ import annotations

import contextlib
import platform
from pathlib import Path

from benchmark import __version__
from benchmark.core.clock import Clock, SystemClock
from benchmark.core.events import Event
from benchmark.core.protocols import Watcher
from benchmark.core.run import RunInfo, RunSpec
from benchmark.engine.execute import Lane, execute
from benchmark.engine.plan import Plan, make_plan
from benchmark.engine.stop import Stop
from benchmark.report.summary import Summary, summarise
from benchmark.report.tabular import write_csv, write_json
from benchmark.store.reader import StoreReader
from benchmark.store.store import Store

TRIALS_CSV = "trials.csv"
REPORT_JSON = "comparison_report.json"


def ignore(event: Event) -> None:
    """Watch nothing."""


async def run_benchmark(
    spec: RunSpec, *, watch: Watcher = ignore, stop: Stop | None = None, clock: Clock | None = None
) -> Summary:
    """Run what the spec asks for and has not been done yet, then summarise it."""
    plan = make_plan(spec)
    with Store.open(spec.results_dir, describe(plan, clock or SystemClock())) as store:
        lanes = lanes_of(plan, store)
        events = store.committed(execute(lanes, spec, stop=stop, clock=clock))
        async with contextlib.aclosing(events):  # type: ignore[type-var]
            async for event in events:
                watch(event)
    return read_summary(spec.results_dir)


def lanes_of(plan: Plan, store: Store) -> list[Lane]:
    """Each model with the trials it still has to do."""
    again = plan.spec.retry_failed
    return [
        Lane(
            model=model,
            trials=store.unfinished(plan.trials(model), retry_failed=again),
            count=plan.trials_per_model - store.finished_count(model, retry_failed=again),
        )
        for model in plan.spec.models
    ]


def describe(plan: Plan, clock: Clock) -> RunInfo:
    """What the store keeps about the run as a whole."""
    return RunInfo(
        run_id=plan.spec.results_dir.name,
        created_at=clock.now(),
        command=plan.spec.command,
        protocol=plan.protocol,
        models=plan.spec.models,
        planned=plan.trials_per_model,
        made_with=f"tiebreak {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    )


def read_summary(folder: Path) -> Summary:
    """The summary of a run, from its store alone."""
    with StoreReader(folder) as reader:
        return summarise(reader)


def write_reports(folder: Path, *, csv_path: Path | None) -> list[Path]:
    """Write the run's files and say where they are; `csv_path` None leaves the CSV out."""
    written = [folder / REPORT_JSON]
    with StoreReader(folder) as reader:
        write_json(reader, summarise(reader), written[0])
        if csv_path is not None:
            write_csv(reader, csv_path)
            written.append(csv_path)
    return written
