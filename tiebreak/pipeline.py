"""The whole program on one page: a spec becomes a plan, a plan trials, trials events, events a store, a store a report."""

from __future__ import annotations

import asyncio
import contextlib
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from tiebreak import __version__
from tiebreak.core.batch import FILES
from tiebreak.core.clock import Clock, SystemClock
from tiebreak.core.contestant import Contestant
from tiebreak.core.errors import ProtocolMismatch, StoreBusy, StoreError, UsageError
from tiebreak.core.events import COMPLETE, ContestantFinished, ContestantStarted, ContestantState, Event, TrialFinished
from tiebreak.core.message import user
from tiebreak.core.model import ModelRef
from tiebreak.core.protocols import Attendant, Watcher
from tiebreak.core.run import Pace, Protocol, RunInfo, RunSpec, resumed
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Failure, TrialResult, make_trial
from tiebreak.engine.abilities import without_schema
from tiebreak.engine.batches import Batch, unbatched_because
from tiebreak.engine.budget import Amount, worst_usage
from tiebreak.engine.estimate import Estimate, estimate
from tiebreak.engine.execute import Assignment, execute
from tiebreak.engine.plan import Plan, make_plan
from tiebreak.engine.race import Answered, Race
from tiebreak.engine.rescore import Rescorer
from tiebreak.engine.stop import Stop
from tiebreak.engine.timing import time_answers
from tiebreak.engine.workshop import Conditions, Executor, Workshop
from tiebreak.report.browse import keep_facts, kept_census
from tiebreak.report.html import REPORT_HTML, write_page
from tiebreak.report.spread import spreads
from tiebreak.report.summary import Summary, summarise
from tiebreak.report.tabular import write_files
from tiebreak.report.work_files import write_work_files
from tiebreak.store.batches import BATCHES, BatchBook, has_batches
from tiebreak.store.folder import DATABASE, at_rest, has_database, unused_folder
from tiebreak.store.ledger import Ledger
from tiebreak.store.looks import look_into
from tiebreak.store.reader import FiguresKeeper, StoreReader
from tiebreak.store.store import STANDING, Store, bring_in_votes, continued

__all__ = [
    "Estimate",
    "Plan",
    "Stop",
    "ask_models",
    "asked_as_usual",
    "estimate",
    "loop_factory",
    "make_plan",
    "preflight",
    "read_summary",
    "rebuild",
    "rescore",
    "run_benchmark",
    "run_plan",
    "same_plan",
    "settle",
    "shares_left",
    "spent_before",
    "summary_if_done",
    "to_ask",
    "up_to_date",
    "without_schema",
    "write_elsewhere",
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
    executor_of: Callable[[Conditions], Executor] = Workshop,
) -> Summary:
    """Ask what the store does not have yet; every event is on disk before it is told.

    `executor_of` makes whoever makes the attempts: this process, unless told otherwise.
    """
    spec, kinds = plan.spec, plan.dataset.kinds
    if (done := summary_if_done(plan)) is not None:
        for event in _nothing_happens(spec):
            await _told(watch, event)
        return done
    info = describe(plan, clock or SystemClock())
    with (
        Store.open(spec.results_dir, info, without=indexes_to_put_off(plan)) as store,
        _book_of(spec, store) as book,
        Ledger.open(spec.results_dir) as ledger,
    ):
        plan = plan.share()
        todo, spent = assignments(plan, store, book), spent_before(plan.spec, store)
        if book is not None:
            spent += _collected_before(book, spec.results_dir)
        spent |= Amount(nano_usd=ledger.risked[0], tokens=ledger.risked[1])
        race = race_of(plan, store) if plan.spec.protocol.races else None
        happening = execute(
            todo,
            plan.spec,
            kinds=kinds,
            stop=stop,
            clock=clock,
            already_spent=spent,
            keep_risked=lambda risked: ledger.keep(risked.nano_usd, risked.tokens),
            attendant=attendant,
            race=race,
            executor_of=executor_of,
        )
        events = store.committed(happening)
        async with contextlib.aclosing(events):  # type: ignore[type-var]
            async for event in events:
                await _told(watch, event)
        store.complete()
        if spec.pace.timed_samples and not store.timed():
            await _keep_timings(plan, store, stop)
        # Whoever had it stopped in silence is shown nothing.
        seen = not (stop is not None and stop.silent) and look_into(spec.results_dir)
        # Written by ourselves a moment ago: it need not be looked through for damage.
        with StoreReader(spec.results_dir, check=False) as reader:
            summary = summarise(reader, seen=seen)
        if seen:
            store.keep("summary", summary)
        if book is not None and all(c.state in COMPLETE and not c.failed for c in summary.contestants):
            book.forget_answers()
    return summary


@contextlib.contextmanager
def _book_of(spec: RunSpec, store: Store) -> Iterator[BatchBook | None]:
    """The book of a run's batches, for one that has any."""
    known = has_batches(spec.results_dir)
    if not known and store.may_wait():
        raise StoreError(
            f"{spec.results_dir / BATCHES} is missing, which says what the run waits for: "
            "without it everything would be sent, and paid for, once more"
        )
    if not (spec.pace.batch or known):
        yield None
        return
    for left in spec.results_dir.glob(f"{FILES}*.jsonl"):
        left.unlink(missing_ok=True)
    with BatchBook.open(spec.results_dir) as book:
        yield book


def _collected_before(book: BatchBook, folder: Path) -> Amount:
    """What answers cost that are home and not in the store yet."""
    nano_usd, tokens = book.not_in_store(folder)
    return Amount(nano_usd=nano_usd, tokens=tokens)


async def _told(watch: Watcher, event: Event) -> None:
    """Tell a watcher; one that takes its time, by what it returns, is waited for, and then the run waits too."""
    if (taking := watch(event)) is not None:
        await taking


def summary_if_done(plan: Plan) -> Summary | None:
    """The summary of a run at rest in which nothing is left to ask; None where something is, or would be written.

    The plan is the stored one, contestant by contestant and sample by sample: then as many results as trials are all.
    """
    folder = plan.spec.results_dir
    if not has_database(folder) or not at_rest(folder):
        return None
    with StoreReader(folder) as reader:
        summary = reader.figures("summary", Summary)
        if plan.spec.pace.timed_samples and not next(reader.rows("SELECT count(*) FROM timings"))[0]:
            return None
        if next(reader.rows("SELECT 1 FROM trials WHERE unjudged IS NOT NULL AND superseded = 0 LIMIT 1"), None):
            return None
        if summary is None or continued(reader.info, describe(plan, SystemClock())) != reader.info:
            return None
    again, until = plan.spec.retry_failed, plan.spec.protocol.until
    for c in summary.contestants:
        if c.state == ContestantState.DECIDED and until == summary.info.protocol.until:
            continue
        results = c.answered - c.exhausted if again else c.answered + sum(c.failures.get(kind, 0) for kind in STANDING)
        if results != plan.trials_per_contestant or c.state != ContestantState.FINISHED:
            return None
    return summary


def _nothing_happens(spec: RunSpec) -> Iterator[Event]:
    """What is told of a run in which nothing is left to ask."""
    count = len(spec.contestants)
    for position, contestant in enumerate(spec.contestants, start=1):
        yield ContestantStarted(contestant=contestant.label, position=position, contestants=count, trials=0)
        yield ContestantFinished(contestant=contestant.label, state=ContestantState.FINISHED, message="", seconds=0.0, done=0)


async def _keep_timings(plan: Plan, store: Store, stop: Stop | None) -> None:
    """Measure how fast each contestant answers when it is asked one thing at a time; what it costs counts too."""
    async for answer in time_answers(plan, spent=spent_before(plan.spec, store, this_session=True), stop=stop):
        store.keep_timing(answer.contestant, answer.asked, answer.model_s, answer.first_token_s, answer.cost_usd)


def indexes_to_put_off(plan: Plan) -> list[str]:
    """What a new run need not look for: a plan has no trial twice, and for one contestant alone no sample either."""
    once = len(plan.spec.contestants) == plan.spec.protocol.repeats == 1
    return ["one_result_per_trial", *(["one_row_per_sample"] if once else [])]


def asked_as_usual(plan: Plan) -> dict[str, str]:
    """In a run with batches, whose questions go into none, and why."""
    if not plan.spec.pace.batch:
        return {}
    reasons = {c.label: unbatched_because(c) for c in plan.spec.contestants if not c.reference}
    more = {"turns after the first": "they go on from an answer"} if plan.dataset.needs & {"turns", "tools"} else {}
    tasks = {"coding tasks": "an agent asks more than once"} if plan.tasks else {}
    return {label: reason for label, reason in reasons.items() if reason} | more | tasks


def assignments(plan: Plan, store: Store, book: BatchBook | None = None) -> list[Assignment]:
    """Each contestant with the trials it still has to do."""
    again = plan.spec.retry_failed
    finished, unjudged = store.finished_counts(retry_failed=again), store.unjudged_counts()
    todo = []
    for contestant in plan.spec.contestants:
        batch = None if book is None else _batch_of(plan, contestant, store, book)
        todo.append(
            Assignment(
                contestant=contestant,
                trials=batch.ready() if batch else store.unfinished(plan.trials(contestant), retry_failed=again),
                count=plan.trials_per_contestant - finished.get(contestant.label, 0),
                kept=unjudged.get(contestant.label, 0),
                batch=batch,
            )
        )
    return todo


def _batch_of(plan: Plan, contestant: Contestant, store: Store, book: BatchBook) -> Batch | None:
    """What a contestant's batches need; None for one that is asked as usual."""
    spec = plan.spec
    if unbatched_because(contestant):
        return None
    return Batch(
        trials=lambda: store.unfinished(plan.trials(contestant), retry_failed=spec.retry_failed),
        book=book,
        folder=spec.results_dir,
        detach=spec.detach,
        again=spec.retry_failed,
    )


def shares_left(plan: Plan) -> dict[str, float]:
    """By contestant, the share of its trials that a run which goes on has still to ask; nothing for a new one."""
    if not has_database(plan.spec.results_dir):
        return {}
    with StoreReader(plan.spec.results_dir) as reader:
        done = reader.answered_counts(retry_failed=plan.spec.retry_failed)
    planned = max(1, plan.trials_per_contestant)
    return {label: max(0.0, 1 - count / planned) for label, count in done.items()}


def to_ask(plan: Plan) -> list[Contestant]:
    """The contestants that have something left to answer; answers that only wait for a judge are there already."""
    folder = plan.spec.results_dir
    if not has_database(folder):
        return list(plan.spec.contestants)
    with StoreReader(folder, check=False) as reader:
        answered = reader.answered_counts(retry_failed=plan.spec.retry_failed)
    return [c for c in plan.spec.contestants if answered.get(c.label, 0) < plan.trials_per_contestant]


def spent_before(spec: RunSpec, store: Store, *, this_session: bool = False) -> Amount:
    """What earlier sessions of the run used, or this one too, at its worst where nobody knows."""
    used, spent = store.used(this_session=this_session), Amount()
    for contestant in spec.contestants:
        if (own := used.get(contestant.label)) is not None:
            model = contestant.model
            spent += Amount.of(own.priced, model) + Amount.of(own.unpriced, model)
            spent += Amount.of(worst_usage(own.unknown_characters, model.sent, own.unknown_attempts), model)
    judging = store.used_by_judges()
    return sum((Amount.of(judging[judge.label], judge) for judge in spec.protocol.judges if judge.label in judging), spent)


def race_of(plan: Plan, store: Store) -> Race:
    """The race a plan is run as, where it stood when it was stopped."""
    protocol = plan.spec.protocol
    racing = [contestant.label for contestant in plan.spec.contestants if not contestant.reference]
    race = Race.by(protocol.until, racing, planned=len(plan.order), repeats=protocol.repeats)
    race.replay(Answered(**row) for row in store.answered())
    return race


def describe(plan: Plan, clock: Clock) -> RunInfo:
    """What the store keeps about the run as a whole."""
    spec = plan.spec
    return RunInfo(
        run_id=spec.results_dir.name,
        created_at=clock.now(),
        command=spec.command,
        protocol=spec.protocol,
        contestants=spec.contestants,
        pace=spec.pace,
        planned=plan.trials_per_contestant,
        planned_tasks=plan.tasks * spec.protocol.repeats,
        shard=spec.shard,
        whole=(plan.whole[0] * spec.protocol.repeats, plan.whole[1] * spec.protocol.repeats),
        made_with=f"tiebreak {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    )


def read_summary(folder: Path, *, answers: bool = True) -> Summary:
    """The summary of a run, from its store alone."""
    seen = settle(folder)
    with StoreReader(folder, answers=answers) as reader:
        return summarise(reader, seen=seen)


def settle(folder: Path) -> bool:
    """Have a run at rest keep what its reports and pages need; where it cannot, they work it out every time.

    Says whether the run may be seen: who sees one before its end is written down first.
    """
    bring_in_votes(folder)
    seen = look_into(folder)
    if not seen or not at_rest(folder):
        return seen
    with contextlib.suppress(StoreBusy, OSError), FiguresKeeper.open(folder) as keeper:
        if kept_census(keeper) is None:
            summary = summarise(keeper)
            keeper.keep("summary", summary)
            keeper.keep("spreads", spreads(keeper, summary))
            keep_facts(keeper, summary)
    return seen


def write_reports(folder: Path, *, csv_path: Path | None, summary: Summary | None = None) -> list[Path]:
    """Write the run's files and say where they are; `csv_path` None leaves the CSV out."""
    seen = settle(folder)
    # Whoever has a summary has read the store already.
    with StoreReader(folder, check=summary is None) as reader:
        return _write_files(reader, summary or summarise(reader, seen=seen), folder, csv_path)


def write_elsewhere(folder: Path, into: Path, *, csv: bool = True, answers: bool = True) -> list[Path]:
    """Write a run's files into another folder, as they are or without what was asked and answered."""
    seen, into = settle(folder), unused_folder(into)
    with StoreReader(folder, answers=answers) as reader:
        return _write_files(reader, summarise(reader, seen=seen), into, into / TRIALS_CSV if csv else None)


def _write_files(reader: StoreReader, summary: Summary, into: Path, csv_path: Path | None) -> list[Path]:
    report = into / REPORT_JSON
    write_files(reader, summary, report, csv_path)
    written = write_work_files(reader, summary, into) if summary.tasks else []
    page = write_page(reader, summary, into / REPORT_HTML)
    return [page, *written, report] if csv_path is None else [page, *written, report, csv_path]


def up_to_date(folder: Path, csv_path: Path | None, summary: Summary) -> bool:
    """Whether the files of a run are there and younger than its store; those of coding tasks are always rewritten."""
    stored = (folder / DATABASE).stat().st_mtime_ns
    paths = [folder / REPORT_HTML, folder / REPORT_JSON, *([csv_path] if csv_path else [])]
    return summary.tasks is None and all(path.is_file() and path.stat().st_mtime_ns > stored for path in paths)


def rebuild(folder: Path, *, csv: bool = True, summary: Summary | None = None) -> list[Path]:
    """Rewrite every file of a run from its store, and say where they are."""
    return write_reports(folder, csv_path=folder / TRIALS_CSV if csv else None, summary=summary)


async def rescore(folder: Path, scorer: str | None = None) -> int:
    """Score a run's answers again, by one scorer or by the dataset's own, and say how many. Nothing is asked."""
    with StoreReader(folder) as reader:
        info = reader.info
    if info.protocol.imported and scorer is None:
        raise UsageError(f"{info.run_id} was imported, without the scorers of the tool that made it: name one with --scorer")
    plan = None if info.protocol.imported else same_plan(info, folder)
    rescorer = Rescorer(scorer)
    own = () if plan is None else plan.scorers
    scorers = rescorer.versions(own if scorer is None else (scorer,))
    count = 0
    with Store.open(folder, info) as store, store.all_or_nothing():
        for contestant in info.contestants:
            # Where another tool asked there is no dataset: the store itself says what was asked.
            trials = store.trials(contestant) if plan is None else plan.trials(contestant)
            while some := list(islice(trials, _JUDGED_AT_ONCE)):
                outputs = store.outputs(some)
                scored = [(trial, await rescorer.score(trial, outputs[trial.id])) for trial in some if trial.id in outputs]
                store.rescore([(trial, scores) for trial, scores in scored if scores])
                count += sum(bool(scores) or trial.sample.task is None for trial, scores in scored)
        if not count and info.planned_tasks:
            raise UsageError("coding tasks are judged by their check, in a workspace that is gone: run them again instead")
        store.judged_by(scorers)
    return count


def same_plan(info: RunInfo, folder: Path, *, judges: tuple[ModelRef, ...] = (), scorers: tuple[str, ...] = ()) -> Plan:
    """The plan a run was made by, with the dataset's own scorers or others; the dataset must not have changed since."""
    spec = resumed(info, folder)
    plan = make_plan(replace(spec, protocol=replace(spec.protocol, chosen_scorers=scorers, judges=judges)))
    if plan.spec.protocol.dataset_digest != info.protocol.dataset_digest:
        dataset = info.protocol.dataset
        raise ProtocolMismatch(f"{dataset} has changed since the run {info.run_id}: its answers cannot be judged by it")
    return plan


async def ask_models(models: Sequence[ModelRef], prompt: str, *, timeout_s: float | None = None) -> dict[str, TrialResult | str]:
    """One prompt to several models at once: each model's result, or the reason why it has none. Nothing is stored."""
    sample = Sample(id="ask", messages=(user(prompt),), scorers=())
    contestants = [Contestant(label=model.label, model=model) for model in models]
    spec = RunSpec(
        protocol=Protocol(dataset=""),
        contestants=tuple(contestants),
        pace=Pace(max_workers=len(models), timeout_s=timeout_s),
        results_dir=Path(),
    )
    todo = [Assignment(contestant=c, trials=iter([make_trial(sample, c)]), count=1) for c in contestants]
    results: dict[str, TrialResult | str] = {}
    async for event in execute(todo, spec):
        if isinstance(event, TrialFinished):
            results[event.result.trial.contestant.label] = event.result
        elif isinstance(event, ContestantFinished):
            results.setdefault(event.contestant, event.message)
    return results


PREFLIGHT_PROMPT = "Reply with the word: ready"


async def preflight(models: Sequence[ModelRef]) -> dict[str, Failure]:
    """One tiny call per hosted model, all at once: why those that can never answer cannot, by label."""
    hosted = [model for model in models if not model.local and (model.key_variable or model.base_url)]
    # As little to say as a model may be asked for; a reasoning model refuses less.
    asked = [replace(model, settings={**model.settings, "max_tokens": _PREFLIGHT_TOKENS}) for model in hosted]
    results = await ask_models(asked, PREFLIGHT_PROMPT, timeout_s=_PREFLIGHT_S) if asked else {}
    failures = {label: result.failure for label, result in results.items() if isinstance(result, TrialResult)}
    return {label: failure for label, failure in failures.items() if failure is not None and failure.kind.ends_model}


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The fastest event loop there is here."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
