"""`tiebreak batch`: the same coding tasks to many models, each in a workspace of its own."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING

import click

from benchmark.cli import exits
from benchmark.cli.batch_view import LiveBatch, PlainBatch
from benchmark.cli.console import Console, counted, invoked_as
from benchmark.cli.progress import JsonLines, Silent, View
from benchmark.cli.run import Flags, are_ready, checked_models, folder_for, joined, paced, run_watched
from benchmark.config import BatchSettings, load_config, results_root
from benchmark.core.errors import UsageError
from benchmark.core.events import Event, ModelFinished
from benchmark.core.run import RetryPolicy, RunSpec, WorkSettings
from benchmark.core.sample import Sample
from benchmark.core.work import PermissionOption, PermissionRequest, Verdict, WorkOutcome, Workspace
from benchmark.pipeline import Plan, make_plan, read_batch, write_batch_reports
from benchmark.registry import make_agent, names, spelled_tasks, use_agents
from benchmark.report.batch import BatchSummary
from benchmark.report.batch_files import batch_data
from benchmark.report.batch_words import HEADINGS, MEDALS, batch_cells, batch_sentences, podium, standing
from benchmark.store.folder import find_run
from benchmark.store.reader import StoreReader

if TYPE_CHECKING:
    from rich.table import Table

_LONGEST_DETAILS = 1_500
_KINDER = {"most_efficient": "fewest prompts", "most_autonomous": "least help"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFlags(Flags):
    """The command line of a batch."""

    task: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    follow_ups: int | None = None
    max_model_calls: int | None = None
    attended: bool = False
    ask_permissions: str | None = None
    allow_unsandboxed: bool = False
    verbose: bool = False


def batch_with(flags: BatchFlags) -> int:
    """Do what the flags say; the exit code says how it went."""
    console = Console(to_stderr=flags.as_json)
    config = load_config(flags.config)
    settings = config.batch
    use_agents(config.agents)
    flags = _completed(flags, settings)
    spec = _resumed(flags, console, settings) if flags.resume else _new(flags, console, settings)
    if spec is None:
        return exits.FAILED
    plan = make_plan(spec)
    _refuse_silent_agents(spec)
    _say_skipped(plan, console, flags)
    if flags.dry_run:
        return _show_plan(plan, console)
    if not (_may_spend(plan, flags, console) and are_ready(plan, flags, console)):
        return exits.FAILED
    if not flags.resume:
        plan = plan.placed_in(folder_for(flags, kind="batch"))
    view = _Saving(_view(flags, console, settings), plan.spec.results_dir, on=settings.save_intermediate)
    interrupted, _ = run_watched(plan, view, console, attendant=AtTerminal(console) if flags.attended else None)
    return _report(plan.spec.results_dir, flags, console, interrupted)


# --- what to run ------------------------------------------------------------------------------------


def _completed(flags: BatchFlags, settings: BatchSettings) -> BatchFlags:
    """The flags with what was left out: all models, and the configuration's defaults."""
    everything = flags.models is not None and flags.models.strip().lower() == "all"
    named = (flags.choice.names_any and not everything) or flags.resume
    if flags.attended and flags.parallel:
        raise UsageError("--attended and --parallel exclude each other: a person answers one model at a time")
    if flags.ask_permissions == "person" and not flags.attended:
        raise UsageError("--ask-permissions person needs --attended: somebody must be at this terminal to answer")
    return replace(
        flags,
        all_models=flags.all_models or not named,
        models=None if everything else flags.models,
        timeout=flags.timeout or settings.default_timeout,
        max_workers=flags.max_workers or (settings.max_parallel if flags.parallel else None),
        verbose=flags.verbose or settings.verbose,
    )


def _work(flags: BatchFlags, follow_ups: int | None = None) -> WorkSettings:
    default = WorkSettings()
    wanted = flags.follow_ups if flags.follow_ups is not None else follow_ups
    return WorkSettings(
        timeout_s=flags.timeout or default.timeout_s,
        max_model_calls=flags.max_model_calls or default.max_model_calls,
        follow_ups=default.follow_ups if wanted is None else wanted,
        ask_permissions=flags.ask_permissions or "",
        allow_unsandboxed=flags.allow_unsandboxed,
    )


def _new(flags: BatchFlags, console: Console, settings: BatchSettings) -> RunSpec | None:
    """The batch the flags describe; None when a model cannot be used, which was then said."""
    if not flags.task:
        raise UsageError("no task was named: --task benchmark/tasks/easy/fix_typo.md, a folder of tasks, or a pattern")
    models = checked_models(flags, console)
    if models is None:
        return None
    spec = RunSpec(
        models=models,
        dataset=spelled_tasks(flags.task),
        results_dir=Path(),
        agents=agents_of(flags.agent),
        limit=flags.limit,
        repeats=flags.repeats or 1,
        seed=flags.seed or 0,
        command=f"{invoked_as()} {shlex.join(sys.argv[1:])}",
    )
    return _worked(spec, flags, settings)


def agents_of(named: tuple[str, ...]) -> tuple[str, ...]:
    """The agents that were named, each once; our own where none was."""
    return tuple(dict.fromkeys(name.strip() for text in named for name in text.split(",") if name.strip())) or ("builtin",)


def _resumed(flags: BatchFlags, console: Console, settings: BatchSettings) -> RunSpec | None:
    """The stored batch, with what may differ the second time taken from the flags."""
    folder = find_run(flags.resume or "", results_root())
    with StoreReader(folder) as reader:
        info = reader.info
    models, protocol = info.models, info.protocol
    if flags.choice.names_any:
        named = checked_models(flags, console)
        if named is None:
            return None
        models = joined(models, named)
    if not protocol.dataset.startswith("tasks:"):
        raise UsageError(
            f"{folder.name} is no batch but a run of questions; go on with it by: {invoked_as()} run --resume {folder}"
        )
    spec = RunSpec(
        models=models,
        dataset=spelled_tasks(flags.task) if flags.task else protocol.dataset,
        results_dir=folder,
        agents=agents_of(flags.agent) if flags.agent else protocol.agents,
        limit=flags.limit or protocol.limit,
        repeats=flags.repeats or protocol.repeats,
        seed=protocol.seed,
        retry_failed=flags.retry_failed,
        command=info.command,
    )
    return _worked(spec, flags, settings, follow_ups=protocol.follow_ups)


def _worked(spec: RunSpec, flags: BatchFlags, settings: BatchSettings, follow_ups: int | None = None) -> RunSpec:
    retry = RetryPolicy(max_attempts=1 + settings.max_retries if settings.retry_on_failure else 1)
    return replace(paced(spec, flags), timeout_s=None, work=_work(flags, follow_ups), retry=retry)


def _refuse_silent_agents(spec: RunSpec) -> None:
    """With --ask-permissions, agents that cannot ask would act without: that is refused before anything begins."""
    if spec.work is None or not spec.work.ask_permissions:
        return
    silent = [name for name in spec.agents if not getattr(make_agent(name), "speaks_acp", False)]
    if silent:
        able = [name for name in names("agents") if getattr(make_agent(name), "speaks_acp", False)]
        raise UsageError(f"--ask-permissions: {', '.join(silent)} cannot ask for leave; {', '.join(able)} can")


def _say_skipped(plan: Plan, console: Console, flags: BatchFlags) -> None:
    for path, reason in getattr(plan.dataset, "skipped", ()):
        console.line(f"skipped {path}: {reason}", style="yellow")
    unchecked = [s.id for s in (plan.dataset[p] for p in plan.order) if s.task is not None and s.task.check is None]
    if unchecked and not flags.quiet:
        console.line(f"Without a check: {', '.join(unchecked)}. It is worked on, and nobody can say how it went.", style="yellow")


def _may_spend(plan: Plan, flags: BatchFlags, console: Console) -> bool:
    """What a coding task costs depends on how often the model is called: it is limited, not foretold."""
    paid = [m.label for m in plan.spec.models if not (m.local or m.reference or m.provider == "scripted")]
    if not paid or flags.yes or flags.max_cost is not None or flags.max_total_tokens is not None:
        return True
    if not flags.quiet:
        calls = plan.spec.work.max_model_calls if plan.spec.work else 0
        console.line(
            f"What this costs cannot be foretold: each attempt may call its model up to {calls} times. --max-cost sets a limit.",
            style="dim",
        )
    return True


def _show_plan(plan: Plan, console: Console) -> int:
    spec = plan.spec
    tasks = [plan.dataset[position] for position in plan.order]
    parts = (
        counted(len(spec.models), "model"),
        counted(len(tasks), "task"),
        counted(len(spec.agents), "agent"),
        counted(spec.repeats, "repeat"),
    )
    console.line(f"{' × '.join(parts)} = {counted(plan.trials_per_model * len(spec.models), 'attempt')}")
    console.table(("Task", "Title", "Files", "Check"), [_task_row(task) for task in tasks])
    return 0


def _task_row(sample: Sample) -> tuple[str, str, str, str]:
    task = sample.task
    assert task is not None
    return sample.id, task.title, str(len(task.files)), "yes" if task.check else "none"


# --- running ----------------------------------------------------------------------------------------


def _view(flags: BatchFlags, console: Console, settings: BatchSettings) -> View:
    if flags.as_json:
        return JsonLines()
    if flags.quiet or not settings.show_progress:
        return Silent()
    if console.is_terminal and not flags.attended and not flags.verbose:
        return LiveBatch(console.rich)
    return PlainBatch(console.line, verbose=flags.verbose)


class _Saving:
    """A view that also writes a model's own files as soon as the model is done."""

    def __init__(self, view: View, folder: Path, *, on: bool) -> None:
        self._view = view
        self._folder = folder
        self._on = on

    def __enter__(self) -> _Saving:
        self._view.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._view.__exit__(*details)

    def watch(self, event: Event) -> None:
        """Pass it on; write what a finished model did."""
        self._view.watch(event)
        if self._on and isinstance(event, ModelFinished):
            write_batch_reports(self._folder)


class AtTerminal:
    """A person at the terminal who helps an agent that got stuck, and gives it leave to act."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def answer(self, sample: Sample, said: str, verdict: Verdict, workspace: Workspace) -> str | None:
        """Show where the agent got to, and ask what to say to it."""
        self._console.line(f"\n{sample.id}: the check does not pass.", style="bold")
        for title, text in (("The agent said", said), ("The check said", verdict.output)):
            if text.strip():
                self._console.line(f"{title}:", style="dim")
                self._console.line(text.strip()[-1500:])
        self._console.line(f"The workspace: {workspace.folder}  (files may be changed by hand now)", style="dim")
        return await asyncio.to_thread(_typed)

    async def permit(self, sample: Sample, request: PermissionRequest) -> PermissionOption | None:
        """Show what the agent wants to do, and ask which of its options to take."""
        what = f"{request.kind}: {request.title}" if request.kind else request.title
        self._console.line(f"\n{sample.id}: the agent asks for leave to act.", style="bold")
        self._console.line(_cut(what, 300))
        if request.details.strip():
            self._console.line(_cut(request.details.strip(), _LONGEST_DETAILS), style="dim")
        options = request.options[: len(ascii_lowercase)]
        for number, option in enumerate(options):
            self._console.line(f"  {number + 1} or {ascii_lowercase[number]}  {_cut(option.name or option.kind, 100)}")
        return await asyncio.to_thread(_chosen, options, self._console)


def _typed() -> str | None:
    """What the person types; an empty line leaves it at that."""
    try:
        text = click.prompt("What to tell the agent (empty: nothing more)", default="", show_default=False, err=True)
    except (click.Abort, EOFError):
        return None
    return str(text).strip() or None


def _chosen(options: Sequence[PermissionOption], console: Console) -> PermissionOption | None:
    """The option whose number or letter the person types; an empty line allows, the end of the input refuses."""
    allowing = next((number for number, option in enumerate(options) if option.allows), None)
    empty = "refuse" if allowing is None else f"{allowing + 1}, allow"
    known = {name: option for number, option in enumerate(options) for name in (str(number + 1), ascii_lowercase[number])}
    while True:
        try:
            text = click.prompt(f"Which (empty: {empty}; Ctrl-D: refuse)", default="", show_default=False, err=True)
        except (click.Abort, EOFError):
            return None
        typed = str(text).strip().lower()
        if not typed:
            return None if allowing is None else options[allowing]
        if typed in known:
            return known[typed]
        console.line(f"There is no option {typed[:20]!r}: type one of {', '.join(known)}.", style="yellow")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


# --- afterwards -------------------------------------------------------------------------------------


def _report(folder: Path, flags: BatchFlags, console: Console, interrupted: int) -> int:
    written = write_batch_reports(folder)
    summary = read_batch(folder)
    code = interrupted or batch_exit_code(summary, flags)
    if flags.as_json:
        JsonLines().say({"event": "batch_finished", "exit_code": code, "batch": str(folder), **batch_data(summary)})
        return code
    console.line()
    show_batch(summary, console)
    console.written(written)
    if any(not contestant.finished for contestant in summary.contestants):
        console.line(f"Not everything was done. Go on with: {invoked_as()} batch --resume {folder}", style="yellow")
    return code


def batch_exit_code(summary: BatchSummary, flags: BatchFlags) -> int:
    """0 all attempts ended, 1 nothing usable, 2 partial, 3 a gate missed. A task not solved is a result, not a failure."""
    attempts = summary.attempts
    broken = [a for a in attempts if not (a.work.outcome.scored and a.work.checked) and a.work.outcome not in _RESULTS]
    if not attempts or len(broken) == len(attempts):
        return exits.FAILED
    for contestant in summary.contestants:
        failed = sum(a in broken for a in contestant.attempts)
        if not contestant.finished or contestant.state != "finished" or failed > flags.allow_failures * contestant.planned:
            return exits.PARTIAL
    tested = [contestant for contestant in summary.contestants if not contestant.reference]
    if flags.fail_under is not None and any(contestant.solve_rate < flags.fail_under for contestant in tested):
        return exits.GATE
    return exits.DONE


_RESULTS = frozenset({WorkOutcome.UNCHECKED, WorkOutcome.BUDGET})
"""Not scored, and yet the model's own doing: no reason to call the batch partial."""


def show_batch(summary: BatchSummary, console: Console) -> None:
    """The models in a table, the rankings, and what to make of them."""
    console.rich.print(_table(summary, wide=console.rich.width >= 100))
    for attempt in summary.attempts if len(summary.attempts) <= 12 else ():
        if not attempt.solved:
            why = attempt.failure or _last_line(attempt.work.check_output)
            console.line(f"✗ {attempt.model.label}, {attempt.task}: {attempt.work.outcome.replace('_', ' ')}: {why}"[:400])
    console.line()
    for name, title in MEDALS.items():
        console.line(f"{title}: {podium(summary, name)}")
    console.line()
    for sentence in batch_sentences(summary):
        console.line(sentence)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "the check said nothing"


def _table(summary: BatchSummary, *, wide: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    left_out = () if wide else ("Prompts", "Tokens", "Files")
    for heading in HEADINGS:
        if heading not in left_out:
            right = heading not in ("Model", "Outcome")
            table.add_column(heading, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for contestant in standing(summary):
        cells = dict(zip(HEADINGS, batch_cells(contestant), strict=True))
        table.add_row(
            *(Text(cells[name]) for name in HEADINGS if name not in left_out), style="dim" if contestant.reference else ""
        )
    return table
