"""What Python users import: run, arun, start, stream, open, resume, and the Run they give."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import logging
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Unpack, cast, get_type_hints, overload

from tiebreak.config import load_config, read_env_file, results_root
from tiebreak.core.errors import BenchmarkError, MissingExtra, ModelError, UsageError
from tiebreak.core.events import COMPLETE, Event
from tiebreak.core.files import atomic_writer
from tiebreak.core.model import ModelRef
from tiebreak.core.protocols import Watcher
from tiebreak.core.run import IN_MEMORY, SAMPLES_FILE, beside_store
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Score
from tiebreak.pipeline import (
    TRIALS_CSV,
    Plan,
    Stop,
    ignore,
    loop_factory,
    make_plan,
    read_summary,
    rebuild,
    run_plan,
    summary_if_done,
    up_to_date,
)
from tiebreak.readiness import ASK_ABOVE_USD, expected_cost, expected_spending, refuse_missing_agents, try_models
from tiebreak.registry import did_you_mean, use_agents, using_functions
from tiebreak.report.html import REPORT_HTML
from tiebreak.report.ranking import Comparison
from tiebreak.report.snippet import html_snippet
from tiebreak.report.summary import ContestantSummary, Summary, summarise_contestants
from tiebreak.report.tabular import StoredTrial, stored_trials
from tiebreak.report.verdict import verdict
from tiebreak.spec.build import spec_of
from tiebreak.spec.keywords import Asked, Options, asked, in_keywords
from tiebreak.spec.model_choice import Check
from tiebreak.store.folder import DATABASE, at_rest, empty_folder, find_run, gone_if_refused, new_run_folder, refuse_other_samples
from tiebreak.store.reader import StoreReader

__all__ = ["ModelRef", "Run", "Sample", "Score", "Stream", "Verdict", "arun", "open", "resume", "run", "start", "stream"]

log = logging.getLogger("tiebreak")
Models = str | ModelRef | Iterable[str | ModelRef] | None
Dataset = str | Path | Iterable[Sample | dict[str, Any]] | Any
"""A name, a file, samples, rows as dictionaries, or a data frame."""
_LARGEST_BACKLOG = 500
"""Events of a stream that its reader has not taken yet."""
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Verdict(list[str]):
    """What can be said of a run, a sentence each, most important first."""

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join(self)


class Run:
    """A run in its folder: going on, finished, or cut short. Everything is read from its store."""

    def __init__(self, folder: Path, *, background: _Background | None = None, session: _Session | None = None) -> None:
        self.folder = folder.resolve()
        self._background = background
        self._session = session
        self._kept: tuple[int, Summary] | None = None
        """The summary, and when the store it is of was written."""

    # --- while it goes

    @property
    def running(self) -> bool:
        """Whether this program is at work on it."""
        return self._session is not None and not self._session.over

    def cancel(self) -> None:
        """Stop a run that was started here: nothing more is sent, and everything reported is kept.

        What has been sent is waited for up to eight seconds; cancelled again, it is given up. `wait` returns when all is over.
        """
        if self._session is not None:
            self._session.cancel()

    def wait(self, timeout_s: float | None = None) -> Run:
        """Return once a run that was started in the background is over; what ended it early is raised."""
        if self._background is not None:
            self._background.wait(timeout_s)
        return self

    # --- what came of it

    @property
    def summary(self) -> Summary:
        """Every number of the run. To look before its end is noted in the store, and makes later tests stricter."""
        if self._kept is None or self._kept[0] != self._written or not at_rest(self.folder):
            summary = read_summary(self.folder)
            self._kept = self._written, summary
        return self._kept[1]

    @property
    def _written(self) -> int:
        return (self.folder / DATABASE).stat().st_mtime_ns

    @property
    def complete(self) -> bool:
        """Whether every contestant has done all that was planned."""
        return all(c.finished and c.state in COMPLETE for c in self._alone)

    @property
    def _alone(self) -> Sequence[ContestantSummary]:
        """Each contestant, compared with nobody: to see that is no look at the result."""
        with StoreReader(self.folder) as reader:
            return summarise_contestants(reader)

    @property
    def verdict(self) -> Verdict:
        """Who is better, or that it is a tie, in sentences."""
        return Verdict(verdict(self.summary))

    @property
    def contestants(self) -> tuple[ContestantSummary, ...]:
        """One record for each, in the order they were named: score, interval, counts, cost, times."""
        return self.summary.contestants

    def comparison(self, first: str, second: str) -> Comparison:
        """The comparison of two contestants by their labels; in the record, the better one comes first."""
        summary = self.summary
        labels = [contestant.label for contestant in summary.contestants]
        for label in (first, second):
            if label not in labels:
                there = did_you_mean(label, labels) or f"; there are {', '.join(labels)}"
                raise UsageError(f"there is no contestant {label!r}{there}")
        found = summary.comparison(first, second)
        if found is None:
            raise UsageError(
                f"{first!r} and {second!r} were not compared: that takes two contestants with scores, and no baselines"
            )
        return found

    @overload
    def trials(self, *, frame: Literal[False] = False) -> Iterator[StoredTrial]: ...

    @overload
    def trials(self, *, frame: Literal[True]) -> Any: ...

    def trials(self, *, frame: bool = False) -> Any:
        """Every trial, read from the store as it is needed; with `frame`, all of them as a pandas DataFrame."""
        if not frame:
            return stored_trials(self.folder)
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise MissingExtra("trials(frame=True) needs pandas, which is not installed: pip install pandas") from None
        names = StoredTrial.__struct_fields__
        rows = ([getattr(trial, name) for name in names] for trial in stored_trials(self.folder))
        return pandas.DataFrame(rows, columns=list(names))

    def report(self) -> Path:
        """The page with everything in it: one HTML file. It is written again where it is older than the store."""
        if not up_to_date(self.folder, self.folder / TRIALS_CSV, self.summary):
            rebuild(self.folder, summary=self.summary)
        return self.folder / REPORT_HTML

    def __repr__(self) -> str:
        contestants = self._alone
        asked_so_far, planned = (sum(getattr(c, name) for c in contestants) for name in ("asked", "planned"))
        state = "running" if self.running else "complete" if self.complete else "not complete"
        said = f"; {self.verdict[0]}" if state == "complete" else ""
        count = f"{len(contestants)} contestant{'' if len(contestants) == 1 else 's'}"
        return f"<Run {str(self.folder)!r}: {count}, {asked_so_far} of {planned} trials, {state}{said}>"

    def _repr_html_(self) -> str:
        return html_snippet(self.summary)


# --- the functions ----------------------------------------------------------------------------------


def _with_options(function: _Function) -> _Function:
    """The function with every option in its signature, as editors and `help` show it."""
    own = inspect.signature(function)
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in get_type_hints(Options).items()
        if name not in own.parameters
    ]
    cast(Any, function).__signature__ = own.replace(parameters=[*list(own.parameters.values())[:-1], *options])
    return function


@_with_options
def run(models: Models = None, dataset: Dataset = None, *, on_event: Watcher | None = None, **options: Unpack[Options]) -> Run:
    """Run a comparison to its end. Ctrl-C stops it: nothing more is sent, what was reported is kept, `resume` goes on.

    It works where an event loop runs already, as in a notebook. `on_event` is called with every event, in another thread; it
    may be async.
    """
    background = _Background(_Session(_order("run", models, dataset, options), on_event))
    background.start()
    return background.result()


@_with_options
async def arun(
    models: Models = None, dataset: Dataset = None, *, on_event: Watcher | None = None, **options: Unpack[Options]
) -> Run:
    """The same in the running event loop. To cancel its task is to stop the run."""
    return await _Session(_order("arun", models, dataset, options), on_event).go()


@_with_options
def start(models: Models = None, dataset: Dataset = None, *, on_event: Watcher | None = None, **options: Unpack[Options]) -> Run:
    """Start a comparison in the background, once all has been checked: see `wait`, `cancel` and `running` of the Run."""
    background = _Background(_Session(_order("start", models, dataset, options), on_event))
    background.start()
    return background.started()


@_with_options
def stream(models: Models = None, dataset: Dataset = None, **options: Unpack[Options]) -> Stream:
    """What happens in a run, as it happens: `async for event in tiebreak.stream(…)`. Leaving the loop stops the run."""
    return Stream(_order("stream", models, dataset, options))


@_with_options
def resume(folder: str | Path, models: Models = None, *, on_event: Watcher | None = None, **options: Unpack[Options]) -> Run:
    """Go on with a run: nothing that has a result is asked again. Only what is to change need be said."""
    options["resume"] = folder
    return run(models, on_event=on_event, **options)


def open(folder: str | Path) -> Run:
    """A run that is there already, by its folder or its id."""
    return Run(find_run(str(folder), results_root()))


class Stream:
    """The events of a run, each after it is on disk. It is read once.

    Whoever leaves the loop early leaves it inside `async with`, or awaits `aclose()`: an event loop that ends takes with it
    the answers that are still awaited.
    """

    def __init__(self, order: Asked) -> None:
        self._order: Asked | None = order
        self._session: _Session | None = None
        self._task: asyncio.Task[Any] | None = None
        self._reading: Callable[[], AsyncGenerator[Event] | None] = lambda: None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Send nothing more, and wait for the answers in flight, up to eight seconds."""
        if (reading := self._reading()) is not None:
            await reading.aclose()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def run(self) -> Run:
        """The run, from its first event on."""
        if self._session is None or self._session.run is None:
            raise UsageError("the run has not begun: it begins with the first event that is asked for")
        return self._session.run

    def __aiter__(self) -> AsyncIterator[Event]:
        # A generator that only the loop holds: it is closed as soon as the loop is left, whoever keeps the stream.
        events = self._events()
        self._reading = weakref.ref(events)
        return events

    async def _events(self) -> AsyncGenerator[Event]:
        if self._order is None:
            raise UsageError("a stream is read once: go on with the run by tiebreak.resume, or read it with tiebreak.open")
        events = _Events()
        self._session, self._order = _Session(self._order, events.put), None
        task = self._task = asyncio.create_task(self._session.go())
        task.add_done_callback(lambda _: events.end())
        try:
            while (event := await events.take()) is not None:
                yield event
            with contextlib.suppress(asyncio.CancelledError):
                task.result()
        finally:
            events.leave()
            if not task.done():
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class _Events:
    """Events on their way to a reader; while it has too many to read, the run waits."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Event | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(_LARGEST_BACKLOG)
        self._left = False

    async def put(self, event: Event) -> None:
        """Hand an event over once there is room."""
        if not self._left:
            await self._room.acquire()
            self._waiting.put_nowait(event)

    async def take(self) -> Event | None:
        """The next event; None when there will be none."""
        event = await self._waiting.get()
        self._room.release()
        return event

    def end(self) -> None:
        """There will be no more."""
        self._waiting.put_nowait(None)

    def leave(self) -> None:
        """Nobody reads any more: nothing waits for it."""
        self._left = True
        self._room.release()


def _order(function: str, models: Models, dataset: Dataset, options: Options) -> Asked:
    with _in_python_words():
        return asked(function, models, dataset, options)


# --- one run while it goes --------------------------------------------------------------------------


class _Session:
    """A run from what was asked to its reports, in whichever event loop it is awaited."""

    def __init__(self, order: Asked, watch: Watcher | None) -> None:
        if watch is not None and not callable(watch):
            raise UsageError(f"on_event={watch!r:.80}: must be a function of an event")
        self.run: Run | None = None
        self.over = False
        self.background: _Background | None = None
        self._order = order
        self._watch: Watcher = watch or ignore
        self._cancelled = False
        self._stop = Stop()
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def cancel(self) -> None:
        """Stop, from any thread: gently the first time, at once the second."""
        again, self._cancelled = self._cancelled, True
        if self._loop is not None and self._task is not None and not self.over:
            with contextlib.suppress(RuntimeError):  # The loop is closed once the run is over.
                self._loop.call_soon_threadsafe(self._let_go if again else self._task.cancel)

    def _let_go(self) -> None:
        """Wait no longer for what has been sent."""
        self._stop.be_silent()
        self._stop.ask()

    async def go(self) -> Run:
        """Everything, in order."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self._cancelled:
            raise asyncio.CancelledError
        try:
            with using_functions(self._order.functions), _in_python_words():
                return await self._run()
        finally:
            self.over = True

    async def _run(self) -> Run:
        plan = await asyncio.to_thread(self._plan)
        if not (self._order.flags.resume and summary_if_done(plan) is not None):
            await self._check_before_spending(plan)
        plan = plan if self._order.flags.resume else self._placed(plan)
        run = Run(plan.spec.results_dir, background=self.background, session=self)
        with gone_if_refused(plan.spec.results_dir, plan.spec.protocol):
            await self._drained_when_cancelled(plan, run)
        await asyncio.to_thread(run.report)
        return run

    async def _drained_when_cancelled(self, plan: Plan, run: Run) -> None:
        """Run the plan. Cancelled, it sends nothing more and keeps what has been answered; cancelled again, it lets go."""

        def watch(event: Event) -> Awaitable[object] | None:
            # The store is there by the first event: whoever has the run can read it.
            self.run = run
            if self.background is not None:
                self.background.ready.set()
            return self._watch(event)

        work = asyncio.ensure_future(self._run_where_asked(plan, watch))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            self._stop.be_silent()
            while not work.done():
                try:
                    await asyncio.shield(work)
                except asyncio.CancelledError:
                    self._let_go()
            raise

    async def _run_where_asked(self, plan: Plan, watch: Watcher) -> Summary:
        """Run the plan in this process, or on a cluster."""
        flags = self._order.flags
        if flags.on is None:
            return await run_plan(plan, watch=watch, stop=self._stop)
        from tiebreak.cluster.executor import executor_on, ray_for

        with ray_for(plan.spec, flags) as cluster:
            executor = await executor_on(cluster, plan.spec, plan.dataset.kinds, flags, is_own=cluster.is_own)
            return await run_plan(plan, watch=watch, stop=self._stop, executor_of=executor)

    def _plan(self) -> Plan:
        """What will be asked; names, keys, settings and samples are checked, and nothing is sent."""
        order = self._order
        read_env_file()
        config = load_config(order.flags.config)
        use_agents(config.agents)
        dataset = order.dataset
        spec = spec_of(order.flags.completed(config.batch), config, _Logged(), command=order.call)
        plan = make_plan(spec, dataset=dataset)
        for path, reason in plan.dataset.skipped:
            log.warning("skipped %s: %s", path, reason)
        if plan.dataset.ignored and not order.flags.resume:
            log.warning("columns that are not read: %s; fields= names them", ", ".join(plan.dataset.ignored))
        return plan

    async def _check_before_spending(self, plan: Plan) -> None:
        """Refuse what would cost more than anybody has agreed to, and what nobody would answer."""
        flags = self._order.flags
        agreed = flags.yes or plan.spec.pace.max_cost_usd is not None
        expected = None if agreed else expected_spending(plan)
        if expected is not None and expected.total.likely > ASK_ABOVE_USD:
            raise UsageError(f"{expected_cost(expected)}. Nothing was asked: above $1, say yes=True, or set max_cost_usd")
        if flags.no_preflight or flags.on is not None:
            return
        refuse_missing_agents(plan)
        tried = await try_models(plan, strict=flags.strict)
        if tried.stops:
            raise ModelError(f"Nothing was asked: {'; '.join(tried.sentences)}. Leave them out, or say preflight=False")
        for sentence in tried.sentences:
            log.warning("%s; the others are asked", sentence)

    def _placed(self, plan: Plan) -> Plan:
        """The plan in its own folder, with what the program had in memory kept there."""
        wanted = self._order.flags.output
        folder = new_run_folder(results_root(), datetime.now(UTC).astimezone()) if wanted is None else empty_folder(wanted)
        if plan.spec.protocol.dataset == IN_MEMORY:
            refuse_other_samples(folder)
            with atomic_writer(folder / SAMPLES_FILE) as file:
                file.writelines(cast(Any, plan.dataset).lines)
        return plan.with_protocol(beside_store(plan.spec.protocol, folder)).placed_in(folder)


@contextlib.contextmanager
def _in_python_words() -> Iterator[None]:
    """Have errors name keywords where the command has flags."""
    try:
        yield
    except BenchmarkError as error:
        error.args = (in_keywords(str(error)), *error.args[1:])
        raise


class _Logged:
    """Notes for whoever reads the log."""

    def line(self, text: str = "", *, style: str = "") -> None:
        """Tell something worth knowing."""
        log.warning("%s", text)

    def warn(self, text: str) -> None:
        """Tell something that should be changed."""
        log.warning("%s", text)

    def checks(self, checks: Sequence[Check]) -> None:
        """Which models can be used needs no words; one that cannot be is an error."""


class _Background(threading.Thread):
    """A session in a thread and an event loop of its own: the caller's loop, if there is one, may be running."""

    def __init__(self, session: _Session) -> None:
        super().__init__(name="tiebreak run", daemon=True)
        self.ready = threading.Event()
        """Set once the run has a folder, or will have none."""
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._session = session
        session.background = self

    def run(self) -> None:
        """Go through with it; what is raised is kept for whoever waits."""
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._session.go())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self._session.over = True
            self.ready.set()
            self._done.set()

    def started(self) -> Run:
        """The run as soon as it has begun."""
        with self._stopping_on_interrupt():
            self.ready.wait()
        if self._session.run is None:
            raise self._error or RuntimeError("the run was cancelled before it began")
        return self._session.run

    def result(self) -> Run:
        """The run when it is over."""
        run = self.started()
        with self._stopping_on_interrupt():
            self.wait()
        return run

    def wait(self, timeout_s: float | None = None) -> None:
        """Return when all is over; raise what ended it, or TimeoutError."""
        if not self._done.wait(timeout_s):
            raise TimeoutError(f"the run is still going on after {timeout_s:g} s")
        if self._error is not None:
            raise self._error

    @contextlib.contextmanager
    def _stopping_on_interrupt(self) -> Iterator[None]:
        """Ctrl-C stops the run, twice at once, and is raised again when it has stopped."""
        try:
            yield
        except KeyboardInterrupt as interrupt:
            self._session.cancel()
            if self._session.run is not None:
                interrupt.add_note(f"tiebreak.resume({str(self._session.run.folder)!r}) goes on from here")
            try:
                self._done.wait()
            except KeyboardInterrupt:
                self._session.cancel()
                self._done.wait()
            raise
