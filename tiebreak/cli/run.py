"""`tiebreak run` and `tiebreak batch`: questions and coding tasks to one or many contestants."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from tiebreak.cli import exits
from tiebreak.cli.attendant import AtTerminal
from tiebreak.cli.cluster import executor_for
from tiebreak.cli.console import Console, counted
from tiebreak.cli.invocation import invoked_as
from tiebreak.cli.progress import JsonLines, Live, Plain, Silent, View
from tiebreak.cli.task_sets import task_set
from tiebreak.cli.unusable import explain_unusable
from tiebreak.config import BatchSettings, load_config, results_root
from tiebreak.core.errors import UsageError
from tiebreak.core.events import COMPLETE, ContestantFinished, ContestantState, Event
from tiebreak.core.protocols import Attendant
from tiebreak.core.run import RunSpec
from tiebreak.core.sample import Sample
from tiebreak.engine.workshop import Conditions, Executor, Workshop
from tiebreak.pipeline import (
    TRIALS_CSV,
    Plan,
    Stop,
    asked_as_usual,
    loop_factory,
    make_plan,
    rebuild,
    run_plan,
    summary_if_done,
    up_to_date,
    without_schema,
    write_reports,
)
from tiebreak.readiness import ASK_ABOVE_USD, expected_cost, expected_spending, refuse_missing_agents, try_models
from tiebreak.registry import audit_dataset, make_strategy, use_agents
from tiebreak.report.baseline import Baseline, baseline_of, read_baseline
from tiebreak.report.changes import Change, changes, check_held_against, unmatched
from tiebreak.report.gates import exit_code, is_complete
from tiebreak.report.judging import judge_notes, judging_notes
from tiebreak.report.markdown import markdown_report
from tiebreak.report.samples import why_failed, worst_samples
from tiebreak.report.summary import Summary
from tiebreak.report.tabular import is_trials_csv, summary_data
from tiebreak.runfile import write_run_file
from tiebreak.spec.build import UnusableModels, spec_of
from tiebreak.spec.flags import Flags
from tiebreak.store.batches import waiting_batches
from tiebreak.store.folder import empty_folder, new_run_folder
from tiebreak.store.reader import StoreReader

_SHOWN_COLUMNS = 12
_LEAST_FILES = 48
_STOP_AT_ONCE_S = 1.5


@dataclass(frozen=True, slots=True)
class Ending:
    """What decides about the exit code besides the results."""

    interrupted: int
    """The code of the signal that ended the run; 0 when it ran to its end."""
    baseline: Baseline | None


def run_with(flags: Flags, adjusted: Callable[[RunSpec], RunSpec] = lambda spec: spec) -> int:
    """Do what the flags say; the exit code says how it went. `adjusted` changes what they come to before it is planned."""
    console = Console(to_stderr=flags.as_json or flags.markdown)
    config = load_config(flags.config)
    use_agents(config.agents)
    _refuse_idle_flags(flags)
    flags = flags.with_file().completed(config.batch)
    if flags.use_engine and not flags.quiet:
        console.line("--use-engine: there is one engine and it is always used", style="dim")
    try:
        spec = adjusted(spec_of(flags, config, console, command=how_to_repeat(sys.argv[1:])))
    except UnusableModels as error:
        explain_unusable(error, console)
        return exits.FAILED
    plan = make_plan(spec, dataset=task_set(spec.protocol, console, quiet=flags.quiet))
    _note_findings(plan, flags, console)
    baseline = read_baseline(flags.baseline, results_root()) if flags.baseline else None
    if baseline is not None:
        check_held_against(
            baseline, plan.spec.protocol, [c for c in plan.spec.contestants if not c.reference], changed=flags.changed
        )
    if flags.dry_run:
        return _show_plan(plan, flags, console)
    _refuse_few_files()
    done = flags.resume and summary_if_done(plan) is not None
    if not done and not (_may_spend(plan, flags, console) and _are_ready(plan, flags, console)):
        return exits.FAILED
    with executor_for(plan, flags) as executor_of:
        if not flags.resume:
            plan = plan.placed_in(_folder_for(flags))
        view = _view_for(plan, flags, config.batch, console)
        attendant = AtTerminal(console) if flags.attended else None
        interrupted, summary = run_watched(plan, view, console, attendant=attendant, executor_of=executor_of)
    return _report(plan.spec.results_dir, summary, flags, console, Ending(interrupted, baseline))


def how_to_repeat(arguments: Sequence[str]) -> str:
    """A line that starts the same run again, in a folder of its own."""
    kept, skip = [], False
    for word in arguments:
        if not skip and not word.startswith("--output="):
            skip = word == "--output"
            kept += [] if skip else [word]
        else:
            skip = False
    return f"{invoked_as()} {shlex.join(kept)}"


def _refuse_idle_flags(flags: Flags) -> None:
    """Flags that would do nothing, or write over what is not ours."""
    if flags.save and not flags.dry_run:
        raise UsageError("--save goes with --dry-run: it writes down what would be run")
    if flags.save and flags.save.exists():
        raise UsageError(f"--save {flags.save}: the file is there already; name another, or remove it")
    if flags.changed and not flags.baseline:
        raise UsageError("--changed goes with --baseline: it says what is meant to differ from it")
    if flags.output is not None and flags.output.suffix.lower() == ".csv":
        _refuse_unwritable(flags.output)


def _refuse_unwritable(csv: Path) -> None:
    """A CSV file that could not be written is found now, and not when everything has been paid for."""
    if csv.is_dir():
        raise UsageError(f"--output {csv}: this is a folder; a name that ends in .csv is that of a file")
    if csv.exists() and not is_trials_csv(csv):
        raise UsageError(f"--output {csv}: this file is no result of tiebreak, and is not written over; name another")
    folder = next(parent for parent in csv.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--output {csv}: nothing can be written to {folder}; name another file")


# --- before anything is asked -----------------------------------------------------------------------


def _folder_for(flags: Flags) -> Path:
    """The folder the flags name, new or empty; else a new one among the results."""
    if flags.output is None or flags.output.suffix.lower() == ".csv":
        return new_run_folder(results_root(), datetime.now(UTC).astimezone(), flags.door)
    return empty_folder(flags.output)


def _may_spend(plan: Plan, flags: Flags, console: Console) -> bool:
    """Say what the run will cost; above a dollar, only with the user's consent."""
    capped = flags.yes or plan.spec.pace.max_cost_usd is not None
    if _say_cost(plan, flags, console) <= ASK_ABOVE_USD or capped:
        return True
    if sys.stdin.isatty() and console.is_terminal:
        return click.confirm("Go on?")
    console.line("Nothing was asked: above $1, say --yes, or set a limit with --max-cost.", style="bold")
    return False


def _say_cost(plan: Plan, flags: Flags, console: Console) -> float:
    """Say what the run will cost, as far as that can be told; the likely dollars."""
    expected = expected_spending(plan)
    if expected is None:
        if plan.tasks and not plan.spec.pace.replay_dir:
            _note_unknown_cost(plan, flags, console)
        return 0.0
    if expected.dollars and not flags.quiet:
        console.line(expected_cost(expected))
    return expected.total.likely


def _note_unknown_cost(plan: Plan, flags: Flags, console: Console) -> None:
    """What a coding task costs depends on how often the model is called: it is limited, not foretold."""
    pace = plan.spec.pace
    paid = [m for m in plan.spec.models if not (m.local or m.reference or m.provider == "scripted")]
    capped = flags.yes or pace.max_cost_usd is not None or pace.max_total_tokens is not None
    if paid and not capped and not flags.quiet:
        calls = plan.spec.protocol.tasks.max_model_calls
        console.line(
            f"What this costs cannot be foretold: each attempt may call its model up to {calls} times. --max-cost sets a limit.",
            style="dim",
        )


def _note_findings(plan: Plan, flags: Flags, console: Console) -> None:
    """Say what was left out, how the questions are put, since when they are public, and what an audit has against them."""
    for path, reason in plan.dataset.skipped:
        console.line(f"skipped {path}: {reason}", style="yellow")
    if flags.quiet:
        return
    if usual := asked_as_usual(plan):
        named = ", ".join(f"{label} ({reason})" for label, reason in usual.items())
        console.line(f"Asked as usual, at the full price, and in no batch: {named}.", style="yellow")
    unchecked = [s.id for s in plan.samples if s.task is not None and s.task.check is None] if plan.tasks else []
    if unchecked:
        console.line(f"Without a check: {', '.join(unchecked)}. It is worked on, and nobody can say how it went.", style="yellow")
    if flags.as_json or flags.resume:
        return
    protocol = plan.spec.protocol
    if plan.dataset.ignored:
        shown = ", ".join(plan.dataset.ignored[:_SHOWN_COLUMNS])
        more = "" if len(plan.dataset.ignored) <= _SHOWN_COLUMNS else f" and {len(plan.dataset.ignored) - _SHOWN_COLUMNS} more"
        console.line(f"Columns that are not read: {shown}{more}. --field COLUMN=FIELD reads one.", style="yellow")
    if unsent := without_schema(plan.spec.contestants, plan.dataset.needs):
        console.line(f"Without structured output, and judged by the schema all the same: {', '.join(unsent)}.", style="yellow")
    if protocol.form:
        console.line(f"Protocol: {protocol.form}", style="dim")
    if protocol.public_since:
        console.line(f"Public since {protocol.public_since}: models may have learned the answers.", style="dim")
    for finding in audit_dataset(plan.dataset).findings if plan.tasks < len(plan.order) else ():
        if finding.kind == "no answer" and protocol.source.without_target:
            continue
        console.line(f"Note: {finding.message} (see {invoked_as()} audit).", style="yellow")


def _refuse_few_files() -> None:
    """With fewer open files not even the store can be opened, and the reasons given would be wrong ones."""
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most != resource.RLIM_INFINITY and most < _LEAST_FILES:
        raise UsageError(f"only {most} files may be open at once, and a run needs {_LEAST_FILES}: raise the limit with ulimit -n")


def _are_ready(plan: Plan, flags: Flags, console: Console) -> bool:
    """Try every hosted model with a tiny call, and say which will answer nothing."""
    if flags.no_preflight or flags.on:
        # On a cluster its machines ask, with keys and addresses of their own.
        return True
    refuse_missing_agents(plan)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        tried = runner.run(try_models(plan, strict=flags.strict))
    for sentence in tried.sentences:
        console.line(f"✗ {sentence}", style="red")
    if tried.stops:
        console.line("Nothing was asked: these models would answer nothing. Leave them out, or say --no-preflight.", style="bold")
        console.line(f"What can run here, and what is missing: {invoked_as()} doctor")
    elif tried.refused:
        console.line("These models will answer nothing; the others are asked. --strict stops here instead.", style="yellow")
    return not tried.stops


def _show_plan(plan: Plan, flags: Flags, console: Console) -> int:
    """What would be asked, without asking it."""
    spec, samples = plan.spec, len(plan.order)
    total = plan.trials_per_contestant * len(spec.contestants)
    noun = "model" if all(c.label == c.model.label for c in spec.contestants) else "contestant"
    if plan.tasks < samples:
        console.line(f"Dataset {spec.protocol.dataset}: {counted(samples, 'sample')}, scored by {', '.join(plan.scorers)}")
    words = ("task", "attempt") if plan.tasks == samples else ("sample", "trial")
    parts = (counted(len(spec.contestants), noun), counted(samples, words[0]), counted(spec.protocol.repeats, "repeat"))
    console.line(f"{' × '.join(parts)} = {counted(total, words[1])}")
    _say_cost(plan, flags, console)
    for line in _forecast(plan):
        console.line(line)
    if plan.tasks:
        console.table(("Task", "Title", "Files", "Check"), [_task_row(s) for s in plan.samples if s.task is not None])
    if plan.tasks < samples:
        console.line("The first would be asked:\n")
        console.line(next(plan.trials(spec.contestants[0])).sample.prompt)
    if flags.save:
        write_run_file(spec, flags.save)
        console.written([flags.save])
    return 0


def _forecast(plan: Plan) -> list[str]:
    """What a race is expected to ask; nothing where everyone is asked everything."""
    until = plan.spec.protocol.until
    if not plan.spec.protocol.races:
        return []
    from tiebreak.report.race_forecast import race_forecast

    expected = expected_spending(plan)
    dollars = {} if expected is None else {label: cost.likely for label, cost in expected.dollars.items()}
    racing = {c.label: dollars.get(c.label, 0.0) for c in plan.spec.contestants if not c.reference}
    return race_forecast(until, lambda labels, planned: make_strategy(until, labels, planned), len(plan.order), dollars=racing)


def _task_row(sample: Sample) -> tuple[str, str, str, str]:
    task = sample.task
    assert task is not None
    return sample.id, task.title, str(len(task.files)), "yes" if task.check else "none"


# --- running ----------------------------------------------------------------------------------------


def _view_for(plan: Plan, flags: Flags, settings: BatchSettings, console: Console) -> View:
    """How to watch: JSON lines, a live view on a terminal, plain lines elsewhere."""
    view: View
    if flags.as_json:
        view = JsonLines()
    elif flags.quiet:
        view = Silent()
    elif console.is_terminal and not flags.attended and not flags.verbose:
        view = Live(console.rich)
    else:
        view = Plain(console.line, verbose=flags.verbose)
    return _Saving(view, plan.spec.results_dir) if plan.tasks and settings.save_intermediate else view


class _Saving:
    """A view that also writes the files as soon as a contestant has done its tasks."""

    def __init__(self, view: View, folder: Path) -> None:
        self._view = view
        self._folder = folder

    def __enter__(self) -> _Saving:
        self._view.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._view.__exit__(*details)

    def watch(self, event: Event) -> None:
        """Pass it on; write what a finished contestant did."""
        self._view.watch(event)
        if isinstance(event, ContestantFinished):
            rebuild(self._folder)


def run_watched(
    plan: Plan,
    view: View,
    console: Console,
    *,
    attendant: Attendant | None = None,
    executor_of: Callable[[Conditions], Executor] = Workshop,
) -> tuple[int, Summary]:
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
        return await run_plan(plan, watch=watch, stop=stop, attendant=attendant, executor_of=executor_of)

    def watch(event: Event) -> None:
        # A screen or log that takes no more words does not end a run that people pay for; a reader who left does.
        try:
            view.watch(event)
        except BrokenPipeError:
            raise
        except OSError:
            pass

    with view, asyncio.Runner(loop_factory=loop_factory()) as runner:
        summary = runner.run(work())
    return (codes[0] if codes else 0), summary


# --- afterwards -------------------------------------------------------------------------------------


def _report(folder: Path, summary: Summary, flags: Flags, console: Console, ending: Ending) -> int:
    """Write the files, show the result, and say how to go on where something is left to do."""
    if any(c.state == ContestantState.WAITING for c in summary.contestants):
        return _report_waiting(folder, summary, flags, console, ending)
    if summary.info.shard is not None:
        return _report_shard(folder, summary, flags, console, ending)
    named = flags.output if flags.output and flags.output.suffix.lower() == ".csv" else None
    csv_path = None if flags.no_csv else named or folder / TRIALS_CSV
    kept = up_to_date(folder, csv_path, summary)
    written = [] if kept else write_reports(folder, csv_path=csv_path, summary=summary)
    held, alone = _held_against(ending.baseline, folder, flags.changed)
    worse = any(change.worse for change in held)
    # An interrupt that came when all was done interrupted nothing.
    code = (0 if is_complete(summary) else ending.interrupted) or exit_code(
        summary, allow_failures=flags.allow_failures, fail_under=flags.fail_under, worse_than_baseline=worse
    )
    if flags.as_json:
        more = {"changes": [asdict(change) for change in held], "unmatched": alone} if ending.baseline else {}
        ended = {"event": f"{flags.door}_finished", "exit_code": code, flags.door: str(folder)}
        JsonLines().say({**ended, **summary_data(summary), **more})
        return code
    show(summary, folder, console, markdown=flags.markdown)
    for change in held:
        console.line(f"Against the baseline: {change.sentence}", style="red" if change.worse else "")
    for sentence in alone:
        console.line(f"Against the baseline: {sentence}", style="yellow")
    console.written(written)
    if kept:
        console.line(f"Nothing was left to ask; the reports in {folder} are up to date.", style="dim")
    if any(not c.finished or c.failed or c.awaiting_judge for c in summary.contestants):
        line = _how_to_go_on(folder, flags)
        console.line(f"Not everything was answered. Go on with: {line}", style="yellow")
    return code


def _report_waiting(folder: Path, summary: Summary, flags: Flags, console: Console, ending: Ending) -> int:
    """While batches wait nothing is shown but how many answers are still to come, and how to collect them.

    Sending was all that a new run was asked to do: that ends well. Who comes back learns by the code whether all is there.
    """
    sent = all(c.state in (*COMPLETE, ContestantState.WAITING) for c in summary.contestants)
    code = 0 if sent and not flags.resume and not ending.interrupted else exit_code(summary)
    if flags.as_json:
        ended = {"event": f"{flags.door}_finished", "exit_code": code, flags.door: str(folder)}
        JsonLines().say({**ended, **summary_data(summary)})
        return code
    for waiting in waiting_batches(folder):
        names = ", ".join(waiting.ids) or "not confirmed yet"
        told = f"{counted(waiting.lines, 'question')} in batches since {waiting.since:%Y-%m-%d %H:%M} UTC"
        console.line(f"{waiting.contestant}: {told} ({names})")
    for contestant in summary.contestants:
        if contestant.state not in (*COMPLETE, ContestantState.WAITING):
            console.line(f"{contestant.label}: {contestant.state.replace('_', ' ')}: {contestant.message}", style="yellow")
    console.line(f"Providers answer within a day. Collect the answers with: {_how_to_go_on(folder, flags)}", style="bold")
    return code


def _how_to_go_on(folder: Path, flags: Flags) -> str:
    """The line that resumes a run where it was."""
    return f"{invoked_as()} {flags.door} --resume {shlex.quote(str(folder))}{f' --on {flags.on}' if flags.on else ''}"


def _report_shard(folder: Path, summary: Summary, flags: Flags, console: Console, ending: Ending) -> int:
    """Of a shard nothing is shown but whether all of it was asked: who saw more would have looked early at the whole."""
    code = (0 if is_complete(summary) else ending.interrupted) or exit_code(summary, allow_failures=flags.allow_failures)
    if flags.as_json:
        ended = {"event": f"{flags.door}_finished", "exit_code": code, flags.door: str(folder)}
        JsonLines().say({**ended, **summary_data(summary)})
        return code
    info = summary.info
    assert info.shard is not None
    asked, failed = (sum(counts) for counts in zip(*((c.answered, c.failed) for c in summary.contestants), strict=True))
    console.line(f"Shard {info.shard.words}: {asked:,} answered, {failed:,} failed, in {folder}")
    if is_complete(summary):
        console.line(
            f"When all {info.shard.of} are done, put them together: {invoked_as()} merge OUT SHARD SHARD ...", style="bold"
        )
    else:
        line = _how_to_go_on(folder, flags)
        console.line(f"Not everything was answered. Go on with: {line}", style="yellow")
    return code


def _held_against(baseline: Baseline | None, folder: Path, changed: Sequence[str]) -> tuple[list[Change], list[str]]:
    """What changed since the baseline, and who was compared with nobody."""
    if baseline is None:
        return [], []
    with StoreReader(folder) as reader:
        now = baseline_of(reader)
    return changes(baseline, now, changed=changed), unmatched(baseline, now, changed)


def show(summary: Summary, folder: Path, console: Console, *, markdown: bool = False, answers: bool = True) -> None:
    """One contestant at length, several as a table; what was done on coding tasks, where there are any."""
    only_tasks = summary.tasks is not None and summary.info.planned_tasks == summary.info.planned
    with StoreReader(folder, check=False, answers=answers) as reader:
        if markdown:
            console.markdown(markdown_report(summary, notes=[*judge_notes(reader), *judging_notes(summary.judging)]))
            return
        console.line()
        if summary.tasks is not None:
            console.work(summary)
        if len(summary.contestants) > 1 or only_tasks:
            console.comparison(summary, table=not only_tasks)
        else:
            worst = worst_samples(reader, summary.contestants[0].label) if answers else []
            console.details(summary.contestants[0], worst, summary.info.protocol.dataset)
        if not only_tasks and any(contestant.failed or contestant.unjudged for contestant in summary.contestants):
            told = [contestant.message for contestant in summary.contestants]
            for reason in why_failed(reader, told):
                console.line(reason, style="yellow")
        console.judging(summary.judging)
        for note in judge_notes(reader):
            console.line(note)
