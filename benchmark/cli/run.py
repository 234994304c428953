"""`tiebreak run`: a dataset's questions to one or many models."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import threading
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from benchmark.cli import exits
from benchmark.cli.asking import Asking, check_likelihood, with_judge
from benchmark.cli.choose import Check, Choice, check_models, needs_detection, problems, with_settings
from benchmark.cli.console import Console, counted, invoked_as
from benchmark.cli.progress import JsonLines, Live, Plain, Silent, View
from benchmark.config import Config, load_config, results_root
from benchmark.core.errors import StoreError, UsageError
from benchmark.core.model import Limits, ModelRef
from benchmark.core.protocols import Attendant
from benchmark.core.run import RunSpec
from benchmark.pipeline import (
    TRIALS_CSV,
    Estimate,
    Plan,
    Stop,
    estimate,
    loop_factory,
    make_plan,
    preflight,
    run_plan,
    write_reports,
)
from benchmark.prices import with_price
from benchmark.registry import Catalog, audit_dataset, check_settings, is_known
from benchmark.report.baseline import Baseline, baseline_of, read_baseline
from benchmark.report.caveats import unequal_settings
from benchmark.report.changes import Change, changes, check_held_against
from benchmark.report.gates import exit_code
from benchmark.report.judging import judge_notes
from benchmark.report.samples import worst_samples
from benchmark.report.summary import Summary
from benchmark.report.tabular import summary_data
from benchmark.store.folder import find_run, new_run_folder
from benchmark.store.reader import StoreReader

_PARALLEL = 4
_ASK_ABOVE_USD = 1.0
_STOP_AT_ONCE_S = 1.5


@dataclass(frozen=True, slots=True)
class Ending:
    """What decides about the exit code besides the results."""

    interrupted: int
    """The code of the signal that ended the run; 0 when it ran to its end."""
    baseline: Baseline | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags(Asking):
    """The command line of a run."""

    model: tuple[str, ...] = ()
    models: str | None = None
    all_models: bool = False
    category: str | None = None
    provider: str | None = None
    config: Path | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    seed: int | None = None
    parallel: bool = False
    max_workers: int | None = None
    max_connections: int | None = None
    rpm: int | None = None
    tpm: int | None = None
    timeout: float | None = None
    request_timeout: float = 600.0
    use_engine: bool = False
    dataset: str | None = None
    limit: int | None = None
    repeats: int | None = None
    output: Path | None = None
    resume: str | None = None
    retry_failed: bool = False
    max_cost: float | None = None
    max_total_tokens: int | None = None
    max_time: float | None = None
    allow_failures: float = 0.0
    fail_under: float | None = None
    baseline: str | None = None
    stream: bool = False
    record: Path | None = None
    replay: Path | None = None
    cache: Path | None = None
    no_preflight: bool = False
    dry_run: bool = False
    yes: bool = False
    no_csv: bool = False
    as_json: bool = False
    markdown: bool = False
    quiet: bool = False

    @property
    def choice(self) -> Choice:
        """The flags that name models."""
        return Choice(**{f.name: getattr(self, f.name) for f in fields(Choice)})

    @property
    def settings(self) -> dict[str, Any]:
        """The flags that are sent to models."""
        return {
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "reasoning_effort": self.reasoning_effort,
            "seed": self.seed,
        }


def run_with(flags: Flags) -> int:
    """Do what the flags say; the exit code says how it went."""
    console = Console(to_stderr=flags.as_json)
    if flags.use_engine and not flags.quiet:
        console.line("--use-engine: there is one engine and it is always used", style="dim")
    spec = _resumed_spec(flags, console) if flags.resume else _new_spec(flags, console)
    if spec is None:
        return exits.FAILED
    plan = make_plan(spec)
    if not flags.quiet and not flags.as_json and not flags.resume:
        _note_findings(plan, console)
    baseline = read_baseline(flags.baseline, results_root()) if flags.baseline else None
    if baseline is not None:
        check_held_against(baseline, plan.protocol, [m.label for m in spec.models if not m.reference])
    if flags.dry_run:
        return _show_plan(plan, console)
    if not (_may_spend(plan, flags, console) and are_ready(plan, flags, console)):
        return exits.FAILED
    if not flags.resume:
        plan = plan.placed_in(folder_for(flags))
    interrupted, summary = run_watched(plan, view_for(flags, console), console)
    return _report(plan.spec.results_dir, summary, flags, console, Ending(interrupted, baseline))


# --- what to run ------------------------------------------------------------------------------------


def _new_spec(flags: Flags, console: Console) -> RunSpec | None:
    """The run the flags describe; None when a model cannot be used, which was then said."""
    if not flags.dataset:
        raise UsageError("no dataset was named: --dataset truthfulness, or a file of yours")
    models = checked_models(flags, console)
    if models is None:
        return None
    if flags.likelihood:
        check_likelihood(models)
    spec = paced(
        RunSpec(
            models=models,
            dataset=_dataset_name(flags.dataset),
            results_dir=Path(),
            source=flags.source,
            prompting=flags.prompting,
            scorers=flags.scorer,
            agents=("likelihood",) if flags.likelihood else ("direct",),
            limit=flags.limit,
            repeats=flags.repeats or 1,
            seed=flags.seed or 0,
            command=f"{invoked_as()} {shlex.join(sys.argv[1:])}",
        ),
        flags,
    )
    return with_judge(spec, flags, load_config(flags.config))


def _resumed_spec(flags: Flags, console: Console) -> RunSpec | None:
    """The stored run, with what may differ the second time taken from the flags."""
    folder = find_run(flags.resume or "", results_root())
    with StoreReader(folder) as reader:
        info = reader.info
    if info.protocol.imported:
        raise UsageError(f"{info.run_id} was imported: its questions cannot be asked on here, only scored anew (tiebreak score)")
    flags.refuse_other_than(info.protocol)
    models = info.models
    if flags.choice.names_any:
        added = checked_models(flags, console)
        if added is None:
            return None
        models = joined(models, added)
    protocol = info.protocol
    spec = RunSpec(
        models=models,
        dataset=_dataset_name(flags.dataset) if flags.dataset else protocol.dataset,
        results_dir=folder,
        agents=protocol.agents,
        source=protocol.source,
        prompting=protocol.prompting,
        scorers=protocol.chosen_scorers,
        judge=protocol.judge,
        limit=flags.limit or protocol.limit,
        repeats=flags.repeats or protocol.repeats,
        seed=protocol.seed if flags.seed is None else flags.seed,
        retry_failed=flags.retry_failed,
        command=info.command,
    )
    return paced(spec, flags)


def joined(stored: tuple[ModelRef, ...], named: tuple[ModelRef, ...]) -> tuple[ModelRef, ...]:
    """The stored models as they were, at today's prices and limits, then those that are new."""
    now = {model.label: model for model in named}
    known = tuple(_repriced(model, now.get(model.label, model)) for model in stored)
    labels = {model.label for model in stored}
    return known + tuple(model for model in named if model.label not in labels)


def _repriced(stored: ModelRef, now: ModelRef) -> ModelRef:
    return replace(stored, price=now.price or stored.price, limits=now.limits)


def _limited(model: ModelRef, flags: Flags) -> ModelRef:
    limits = Limits(rpm=flags.rpm or model.limits.rpm, tpm=flags.tpm or model.limits.tpm)
    return replace(model, limits=limits)


def paced(spec: RunSpec, flags: Flags) -> RunSpec:
    """The run at the pace and within the limits the flags set."""
    return replace(
        spec,
        models=tuple(_limited(model, flags) for model in spec.models),
        max_cost_usd=flags.max_cost,
        max_total_tokens=flags.max_total_tokens,
        max_time_s=flags.max_time,
        max_workers=(flags.max_workers or _PARALLEL) if flags.parallel or flags.max_workers else 1,
        max_connections=flags.max_connections,
        timeout_s=flags.timeout,
        request_timeout_s=flags.request_timeout,
        stream=flags.stream,
        record_dir=flags.record,
        replay_dir=flags.replay,
        cache_dir=flags.cache,
    )


def checked_models(flags: Flags, console: Console) -> tuple[ModelRef, ...] | None:
    """Every named model, checked; None when one cannot be used. Nothing has been sent by then."""
    config = load_config(flags.config)
    for warning in config.warnings:
        console.warn(warning)
    if flags.provider:
        console.warn("--provider is deprecated; name a model with --model")
    catalog = config.catalog(detect=needs_detection(flags.choice))
    checks = check_models(flags.choice, config, catalog, keys=flags.replay is None)
    if not flags.quiet or problems(checks):
        console.checks(checks)
    if problems(checks):
        _explain(checks, catalog, config, console)
        return None
    refs = tuple(with_price(with_settings(check.ref, flags.settings)) for check in checks if check.ref)
    for ref in refs:
        check_settings(ref)
    _caveat_unequal_settings(refs, console)
    return refs


def _explain(checks: list[Check], catalog: Catalog, config: Config, console: Console) -> None:
    invalid = ", ".join(check.typed for check in problems(checks))
    console.line(f"\nNothing was asked: cannot use {invalid}.", style="bold")
    console.line(f"Available models: {', '.join(catalog.names())}")
    if config.disabled:
        console.line(f"Disabled in {config.path}: {', '.join(config.disabled)}")


def _caveat_unequal_settings(models: tuple[ModelRef, ...], console: Console) -> None:
    if unequal_settings(models):
        console.line("Note: the models are asked with different settings, as shown above.", style="yellow")


def _dataset_name(name: str) -> str:
    """A file is remembered by its full path, so that the run can be resumed from anywhere."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() and not is_known("datasets", name) else name


def folder_for(flags: Flags, kind: str = "run") -> Path:
    """The folder the flags name, new or empty; else a new one among the results."""
    if flags.output is None or flags.output.suffix.lower() == ".csv":
        return new_run_folder(results_root(), datetime.now(UTC).astimezone(), kind)
    if (flags.output / "run.sqlite").exists():
        raise UsageError(f"{flags.output} holds a run already; go on with it by --resume {flags.output}, or name another folder")
    try:
        flags.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make the results folder {flags.output}: {error.strerror}; choose another with --output"
        ) from None
    return flags.output


def _may_spend(plan: Plan, flags: Flags, console: Console) -> bool:
    """Say what the run will cost; above a dollar, only with the user's consent."""
    expected = estimate(plan)
    if flags.replay or not (expected.dollars or expected.unknown):
        return True
    if expected.dollars and not flags.quiet:
        console.line(f"Expected cost: about ${expected.total_usd:.2f}{_parts(expected)}")
    if expected.total_usd <= _ASK_ABOVE_USD or flags.yes or flags.max_cost is not None:
        return True
    if sys.stdin.isatty() and console.is_terminal:
        return click.confirm("Go on?")
    console.line("Nothing was asked: above $1, say --yes, or set a limit with --max-cost.", style="bold")
    return False


def _parts(expected: Estimate) -> str:
    known = [f"{label} ${dollars:.2f}" for label, dollars in expected.dollars.items()]
    parts = (known if len(known) > 1 else []) + [f"{label} unknown" for label in expected.unknown]
    return f" ({', '.join(parts)})" if parts else ""


def _note_findings(plan: Plan, console: Console) -> None:
    """Say how the questions are put, since when they are public, and what an audit has against them."""
    protocol = plan.protocol
    if protocol.form:
        console.line(f"Protocol: {protocol.form}", style="dim")
    if protocol.public_since:
        console.line(f"Public since {protocol.public_since}: models may have learned the answers.", style="dim")
    for finding in audit_dataset(plan.dataset).findings:
        console.line(f"Note: {finding.message} (see tiebreak audit).", style="yellow")


def are_ready(plan: Plan, flags: Flags, console: Console) -> bool:
    """Try every hosted model with a tiny call: a dead key or a wrong name costs a second, not an hour."""
    if flags.no_preflight or flags.replay:
        return True
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        refused = runner.run(preflight(plan.spec.models))
    for label, reason in refused.items():
        console.line(f"✗ {label}  {reason}", style="red")
    if refused:
        console.line("Nothing was asked: these models would answer nothing. Leave them out, or say --no-preflight.", style="bold")
    return not refused


# --- running ----------------------------------------------------------------------------------------


def view_for(flags: Flags, console: Console) -> View:
    """How to watch: JSON lines, a live view on a terminal, plain lines elsewhere."""
    if flags.as_json:
        return JsonLines()
    if flags.quiet:
        return Silent()
    return Live(console.rich) if console.is_terminal else Plain(console.line)


def run_watched(plan: Plan, view: View, console: Console, *, attendant: Attendant | None = None) -> tuple[int, Summary]:
    """Run the plan under a view: 0 when it ran to its end, else the code of the signal that ended it, and the result."""
    stop = Stop()
    codes: list[int] = []

    def on_signal(code: int) -> None:
        codes.append(code)
        stop.ask()
        if len(codes) == 1:
            console.line("Stopping: finishing what is in flight. Once more stops at once.", style="yellow")
        else:
            # Whatever hangs, the second time we are gone; all that was reported is on disk.
            timer = threading.Timer(_STOP_AT_ONCE_S, os._exit, (codes[0],))
            timer.daemon = True
            timer.start()

    async def work() -> Summary:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, on_signal, exits.INTERRUPTED)
        loop.add_signal_handler(signal.SIGTERM, on_signal, exits.TERMINATED)
        return await run_plan(plan, watch=view.watch, stop=stop, attendant=attendant)

    with view, asyncio.Runner(loop_factory=loop_factory()) as runner:
        summary = runner.run(work())
    return (codes[0] if codes else 0), summary


def _report(folder: Path, summary: Summary, flags: Flags, console: Console, ending: Ending) -> int:
    """Write the files, show the result, and say how to go on where something is left to do."""
    named = flags.output if flags.output and flags.output.suffix.lower() == ".csv" else None
    csv_path = None if flags.no_csv else named or folder / TRIALS_CSV
    written = write_reports(folder, csv_path=csv_path, summary=summary)
    held = _held_against(ending.baseline, folder)
    worse = any(change.worse for change in held)
    code = ending.interrupted or exit_code(
        summary, allow_failures=flags.allow_failures, fail_under=flags.fail_under, worse_than_baseline=worse
    )
    if flags.as_json:
        more = {"changes": [asdict(change) for change in held]} if ending.baseline else {}
        JsonLines().say({"event": "run_finished", "exit_code": code, "run": str(folder), **summary_data(summary), **more})
        return code
    show(summary, folder, console, markdown=flags.markdown)
    for change in held:
        console.line(f"Against the baseline: {change.sentence}", style="red" if change.worse else "")
    console.written(written)
    if any(not model.finished or model.failed for model in summary.models):
        console.line(f"Not everything was answered. Go on with: {invoked_as()} run --resume {folder}", style="yellow")
    return code


def _held_against(baseline: Baseline | None, folder: Path) -> list[Change]:
    if baseline is None:
        return []
    with StoreReader(folder) as reader:
        return changes(baseline, baseline_of(reader))


def show(summary: Summary, folder: Path, console: Console, *, markdown: bool = False) -> None:
    """One model at length, several as a table."""
    console.line()
    with StoreReader(folder, check=False) as reader:
        if len(summary.models) > 1 or markdown:
            console.comparison(summary, markdown=markdown)
        else:
            worst = worst_samples(reader, summary.models[0].model.label)
            console.details(summary.models[0], worst, summary.info.protocol.dataset)
        for note in judge_notes(reader):
            console.line(note)


def _show_plan(plan: Plan, console: Console) -> int:
    """What would be asked, without asking it."""
    spec, samples = plan.spec, len(plan.order)
    total = plan.trials_per_model * len(spec.models)
    console.line(f"Dataset {spec.dataset}: {counted(samples, 'sample')}, scored by {', '.join(plan.scorers)}")
    parts = (counted(len(spec.models), "model"), counted(samples, "sample"), counted(spec.repeats, "repeat"))
    console.line(f"{' × '.join(parts)} = {counted(total, 'trial')}")
    console.line("The first would be asked:\n")
    console.line(next(plan.trials(spec.models[0])).sample.prompt)
    return 0
