"""The whole program on one page: a spec becomes a plan, a plan trials, trials events, events a store, a store a report."""

from __future__ import annotations

import asyncio
import contextlib
import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from benchmark import __version__
from benchmark.core.clock import Clock, SystemClock
from benchmark.core.errors import ProtocolMismatch, UsageError
from benchmark.core.events import Event, ModelFinished, TrialFinished
from benchmark.core.message import user
from benchmark.core.model import ModelRef
from benchmark.core.protocols import Attendant, Watcher
from benchmark.core.run import RunInfo, RunSpec
from benchmark.core.sample import Sample
from benchmark.core.trial import Trial, TrialResult
from benchmark.engine.budget import Amount, worst_usage
from benchmark.engine.estimate import Estimate, estimate
from benchmark.engine.execute import Lane, execute
from benchmark.engine.plan import Plan, make_plan
from benchmark.engine.rescore import Judge
from benchmark.engine.stop import Stop
from benchmark.report.batch import BatchSummary, summarise_batch
from benchmark.report.batch_files import write_batch_files
from benchmark.report.html import REPORT_HTML, write_page
from benchmark.report.summary import Summary, summarise
from benchmark.report.tabular import write_files, write_trials
from benchmark.store.reader import StoreReader
from benchmark.store.store import Store

__all__ = [
    "Estimate",
    "Plan",
    "Stop",
    "ask_models",
    "estimate",
    "is_batch",
    "loop_factory",
    "make_plan",
    "preflight",
    "read_batch",
    "read_summary",
    "rebuild",
    "rescore",
    "run_benchmark",
    "run_plan",
    "write_batch_reports",
    "write_reports",
]

_PREFLIGHT_S = 20.0
_PREFLIGHT_TOKENS = 16
_JUDGED_AT_ONCE = 500
TRIALS_CSV = "trials.csv"
REPORT_JSON = "comparison_report.json"


def ignore(event: Event) -> None:
    """Watch nothing."""


async def run_benchmark(spec: RunSpec, *, watch: Watcher = ignore, stop: Stop | None = None) -> Summary:
    """Run what the spec asks for and has not been done yet, then summarise it."""
    return await run_plan(make_plan(spec), watch=watch, stop=stop)


async def run_plan(
    plan: Plan,
    *,
    watch: Watcher = ignore,
    stop: Stop | None = None,
    clock: Clock | None = None,
    attendant: Attendant | None = None,
) -> Summary:
    """Ask what the store does not have yet; every event is on disk before it is told."""
    folder = plan.spec.results_dir
    with Store.open(folder, describe(plan, clock or SystemClock()), without=indexes_to_put_off(plan)) as store:
        lanes = lanes_of(plan, store)
        spent = spent_before(plan, store)
        happening = execute(lanes, plan.spec, stop=stop, clock=clock, already_spent=spent, attendant=attendant)
        events = store.committed(happening)
        async with contextlib.aclosing(events):  # type: ignore[type-var]
            async for event in events:
                watch(event)
    # Written by ourselves a moment ago: it need not be looked through for damage.
    return read_summary(folder, check=False)


def indexes_to_put_off(plan: Plan) -> list[str]:
    """What a new run need not look for: a plan has no trial twice, and for one model alone no sample either."""
    spec = plan.spec
    if len(set(spec.agents)) < len(spec.agents):
        return []
    once = len(spec.models) == len(spec.agents) == spec.repeats == 1
    return ["one_result_per_trial", *(["one_row_per_sample"] if once else [])]


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


def spent_before(plan: Plan, store: Store) -> Amount:
    """What earlier sessions of the run used, at its worst where nobody knows."""
    spent = Amount()
    for model in plan.spec.models:
        used = store.used(model)
        spent += Amount.of(used.priced, model) + Amount.of(used.unpriced, model)
        spent += Amount.of(worst_usage(used.unknown_characters, model, used.unknown_attempts), model)
    return spent


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


def read_summary(folder: Path, *, check: bool = True) -> Summary:
    """The summary of a run, from its store alone."""
    with StoreReader(folder, check=check) as reader:
        return summarise(reader)


def write_reports(folder: Path, *, csv_path: Path | None, summary: Summary | None = None) -> list[Path]:
    """Write the run's files and say where they are; `csv_path` None leaves the CSV out."""
    report = folder / REPORT_JSON
    # Whoever has a summary has read the store already.
    with StoreReader(folder, check=summary is None) as reader:
        summary = summary or summarise(reader)
        write_files(reader, summary, report, csv_path)
        page = write_page(reader, summary, folder / REPORT_HTML)
    return [page, report] if csv_path is None else [page, report, csv_path]


def rebuild(folder: Path, *, csv: bool = True) -> list[Path]:
    """Write every file of a run, or of a batch, anew from its store, and say where they are."""
    with StoreReader(folder) as reader:
        batch = is_batch(reader.info)
    return write_batch_reports(folder) if batch else write_reports(folder, csv_path=folder / TRIALS_CSV if csv else None)


def is_batch(info: RunInfo) -> bool:
    """Whether the samples were coding tasks."""
    return info.protocol.dataset.startswith("tasks:")


async def rescore(folder: Path, scorer: str | None = None) -> int:
    """Judge a run's answers anew, by one scorer or by the dataset's own, and say how many were judged. Nothing is asked."""
    with StoreReader(folder) as reader:
        info = reader.info
    if info.protocol.imported and scorer is None:
        raise UsageError(f"{info.run_id} was imported, without the scorers of the tool that made it: name one with --scorer")
    plan = None if info.protocol.imported else _same_plan(info, folder)
    judge = Judge(scorer)
    own = () if plan is None else plan.scorers
    scorers = judge.versions(own if scorer is None else (scorer,))
    count = 0
    with Store.open(folder, info) as store, store.all_or_nothing():
        for model in info.models:
            # Where another tool asked there is no dataset: the store itself says what was asked.
            trials = store.trials(model) if plan is None else plan.trials(model)
            while some := list(islice(trials, _JUDGED_AT_ONCE)):
                outputs = store.outputs(some)
                judged = [(trial, await judge.score(trial, outputs[trial.id])) for trial in some if trial.id in outputs]
                store.rescore([(trial, scores) for trial, scores in judged if scores])
                count += len(judged)
        store.judged_by(scorers)
    return count


def _same_plan(info: RunInfo, folder: Path) -> Plan:
    """The plan a run was made by; its dataset must not have changed since."""
    protocol = info.protocol
    spec = RunSpec(
        models=info.models,
        dataset=protocol.dataset,
        results_dir=folder,
        source=protocol.source,
        prompting=protocol.prompting,
        judge=protocol.judge,
        agents=protocol.agents,
        limit=protocol.limit,
        repeats=protocol.repeats,
        seed=protocol.seed,
    )
    plan = make_plan(spec)
    if plan.protocol.dataset_digest != protocol.dataset_digest:
        raise ProtocolMismatch(f"{protocol.dataset} has changed since the run {info.run_id}: its answers cannot be judged by it")
    return plan


def read_batch(folder: Path) -> BatchSummary:
    """The summary of a batch of coding tasks, from its store alone."""
    with StoreReader(folder) as reader:
        return summarise_batch(reader)


def write_batch_reports(folder: Path) -> list[Path]:
    """Write every file of a batch and say where they are."""
    with StoreReader(folder) as reader:
        batch = summarise_batch(reader)
        written = write_batch_files(batch, folder)
        write_trials(reader, folder / TRIALS_CSV)
        page = write_page(reader, summarise(reader), folder / REPORT_HTML, batch)
    return [page, *written, folder / TRIALS_CSV]


async def ask_models(models: Sequence[ModelRef], prompt: str, *, timeout_s: float | None = None) -> dict[str, TrialResult | str]:
    """One prompt to several models at once: each model's result, or the reason why it has none. Nothing is kept."""
    sample = Sample(id="ask", messages=(user(prompt),), scorers=())
    spec = RunSpec(models=tuple(models), dataset="", results_dir=Path(), max_workers=len(models), timeout_s=timeout_s)
    lanes = [
        Lane(model=model, trials=iter([Trial(sample=sample, model=model, agent="direct", repeat=0, asked="", id="ask")]), count=1)
        for model in models
    ]
    results: dict[str, TrialResult | str] = {}
    async for event in execute(lanes, spec):
        if isinstance(event, TrialFinished):
            results[event.result.trial.model.label] = event.result
        elif isinstance(event, ModelFinished):
            results.setdefault(event.model, event.message)
    return results


PREFLIGHT_PROMPT = "Reply with the word: ready"


async def preflight(models: Sequence[ModelRef]) -> dict[str, str]:
    """One tiny call per hosted model, all at once: why those that can never answer cannot, by label."""
    asked = [_briefly(model) for model in models if not model.local and (model.key_variable or model.base_url)]
    results = await ask_models(asked, PREFLIGHT_PROMPT, timeout_s=_PREFLIGHT_S) if asked else {}
    refused = {}
    for label, result in results.items():
        if isinstance(result, TrialResult) and result.failure is not None and result.failure.kind.ends_model:
            refused[label] = f"{result.failure.kind.replace('_', ' ')}: {result.failure.message}"
    return refused


def _briefly(model: ModelRef) -> ModelRef:
    """The model with as little to say as it may be asked for; a reasoning model refuses less."""
    return replace(model, settings={**model.settings, "max_tokens": _PREFLIGHT_TOKENS})


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The fastest event loop there is here."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
