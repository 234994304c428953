"""Front door for Python: run a function, or the built-in pipeline, on several models and get records back.

One model's trouble stays its own: an error, a timeout or a crash becomes that model's result and the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import re
import shlex
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from numbers import Real
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benchmark.core.errors import BenchmarkError
from benchmark.core.events import Event, ModelFinished, ModelStarted, ModelState
from benchmark.core.redact import Redactor
from benchmark.isolation import BenchmarkFunction, Call, Limits, Outcome, ProcessCall, Stopwatch, ThreadCall, Trouble, Work

if TYPE_CHECKING:
    from benchmark.core.model import ModelRef
    from benchmark.core.protocols import Provider
    from benchmark.pipeline import Plan
    from benchmark.report.summary import ModelSummary
    from benchmark.store.reader import StoreReader

log = logging.getLogger(__name__)

ProgressCallback = Callable[[str, int, int], object]
"""Called with a model's name, how many models are completed and how many there are."""

_COUNTS = ("total_prompts", "successful_evaluations", "failed_evaluations")
_CLOSE_S = 10.0
"""How long an interrupted pipeline may take to let go of its connections and processes."""
_EVALUATIONS = (
    "SELECT t.sample AS sample_id, s.prompt AS prompt, t.text AS response, s.target AS expected, t.score AS score,"
    " t.outcome AS outcome, t.model_s AS response_time_seconds, t.failure AS error FROM trials t"
    " JOIN models m ON m.model = t.model JOIN samples s ON s.asked = t.asked"
    " WHERE t.superseded = 0 AND m.label = ? ORDER BY t.sample, t.repeat"
)


def get_provider_for_model(name: str) -> type[Provider]:
    """The provider class that serves a model, configured models included; raises UnknownModel or AmbiguousModel."""
    from benchmark.config import current_catalog
    from benchmark.registry import get_provider_for_model as provider_of

    return provider_of(name, current_catalog())


# --- records ---------------------------------------------------------------------------------------


class ExecutionMode(StrEnum):
    """One model after another, or several at once."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


@dataclass(frozen=True, slots=True)
class ModelBenchmarkResult:
    """One model's part of a run."""

    model_name: str
    provider_name: str
    dataset_name: str
    start_time: datetime
    end_time: datetime | None = None
    duration_seconds: float = 0.0
    total_prompts: int = 0
    successful_evaluations: int = 0
    failed_evaluations: int = 0
    overall_score: float = 0.0
    evaluations: list[Any] = field(default_factory=list)
    """One entry per evaluation, usually a dict."""
    error: str | None = None
    error_type: str | None = None
    """The name of the error's class."""
    timed_out: bool = False
    model_config: Mapping[str, Any] = field(default_factory=dict)
    error_time: datetime | None = None

    @property
    def success(self) -> bool:
        """Whether the model got through."""
        return self.error is None and not self.timed_out

    @property
    def average_response_time(self) -> float:
        """Mean seconds of the evaluations that have a response time; 0.0 when none has."""
        times = [entry.get("response_time_seconds") for entry in self.evaluations if isinstance(entry, Mapping)]
        return fmean(known) if (known := [float(t) for t in times if isinstance(t, Real)]) else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON can hold it."""
        data = {
            "model": self.model_name,
            "provider": self.provider_name,
            "dataset": self.dataset_name,
            "start_time": self.start_time,
            "end_time": self.end_time,
            "total_duration_seconds": self.duration_seconds,
            "total_prompts": self.total_prompts,
            "successful_evaluations": self.successful_evaluations,
            "failed_evaluations": self.failed_evaluations,
            "overall_score": self.overall_score,
            "average_response_time_seconds": self.average_response_time,
            "evaluations": self.evaluations,
            "model_config": self.model_config,
            "error": self.error,
            "error_type": self.error_type,
            "timed_out": self.timed_out,
        }
        return {key: _plain(value) for key, value in data.items()}


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """A whole run: every model's result, in the order the models were named."""

    dataset_name: str
    models: list[str]
    execution_mode: ExecutionMode
    start_time: datetime
    end_time: datetime | None = None
    total_duration_seconds: float = 0.0
    model_results: list[ModelBenchmarkResult] = field(default_factory=list)
    results_dir: Path | None = None
    """Where the built-in pipeline keeps the run; None when a function was run."""

    @property
    def successful_models(self) -> list[ModelBenchmarkResult]:
        """Results of the models that got through."""
        return [result for result in self.model_results if result.success]

    @property
    def failed_models(self) -> list[ModelBenchmarkResult]:
        """Results of the models that did not."""
        return [result for result in self.model_results if not result.success]

    @property
    def summary_stats(self) -> dict[str, Any]:
        """The run in eight numbers and names. Baselines are never best or worst, unless there is nothing else."""
        succeeded = self.successful_models
        ranked = [result for result in succeeded if result.provider_name != "baseline"] or succeeded
        best = max(ranked, key=lambda result: result.overall_score, default=None)
        worst = min(ranked, key=lambda result: result.overall_score, default=None)
        return {
            "total_models": len(self.model_results),
            "successful_models": len(succeeded),
            "failed_models": len(self.failed_models),
            "average_score": fmean(result.overall_score for result in ranked) if ranked else 0.0,
            "best_model": best.model_name if best else None,
            "best_score": best.overall_score if best else 0.0,
            "worst_model": worst.model_name if worst else None,
            "worst_score": worst.overall_score if worst else 0.0,
        }

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON can hold it."""
        return {
            "dataset": self.dataset_name,
            "models": list(self.models),
            "execution_mode": str(self.execution_mode),
            "start_time": _plain(self.start_time),
            "end_time": _plain(self.end_time),
            "total_duration_seconds": _plain(self.total_duration_seconds),
            "summary_stats": _plain(self.summary_stats),
            "model_results": [result.to_dict() for result in self.model_results],
            "results_dir": _plain(self.results_dir),
        }


def _plain(value: Any) -> Any:
    """The value as JSON can hold it; what JSON has no form for is given as text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(entry) for entry in value]
    if isinstance(value, date):
        return value.isoformat()
    if hasattr(type(value), "tolist"):  # an array, or a number that came out of one
        return _plain(value.tolist())
    return str(value)


class ProgressTracker:
    """Counts completed models; safe from many threads. The callback is called by one of them at a time, in order."""

    def __init__(self, total_models: int, callback: ProgressCallback | None = None) -> None:
        self.total_models = total_models
        self._callback = callback
        self._completed = 0
        self._lock = threading.RLock()

    @property
    def completed_models(self) -> int:
        """How many models are over, one way or another."""
        return self._completed

    @property
    def progress_percentage(self) -> float:
        """From 0 to 100; a run of no models is complete."""
        return min(100.0, 100.0 * self._completed / self.total_models) if self.total_models > 0 else 100.0

    def start_model(self, model: str) -> None:
        """A model starts."""
        with self._lock:
            _tell(self._callback, model, self._completed, self.total_models)

    def complete_model(self, model: str) -> None:
        """A model is over."""
        with self._lock:
            self._completed += 1
            _tell(self._callback, model, self._completed, self.total_models)


def _tell(callback: Callable[..., object] | None, *values: object) -> None:
    """Call a callback; what it raises is logged and stops nothing."""
    if callback is None:
        return
    try:
        callback(*values)
    except Exception:
        log.exception("a callback raised an error; the run goes on")


# --- the runner ------------------------------------------------------------------------------------


class MultiModelBenchmarkRunner:
    """Runs several models on one dataset, each apart from the others."""

    def __init__(  # noqa: PLR0917 — the order users were promised
        self,
        benchmark_function: BenchmarkFunction | None,
        execution_mode: ExecutionMode = ExecutionMode.SEQUENTIAL,
        max_workers: int = 4,
        timeout_per_model: float | None = None,
        progress_callback: ProgressCallback | None = None,
        on_result: Callable[[ModelBenchmarkResult], object] | None = None,
        isolation: str = "thread",
        memory_limit_mb: float | None = None,
        cpu_seconds: float | None = None,
    ) -> None:
        """Take a function of a model's and a dataset's name, or None for the built-in pipeline.

        Args:
            benchmark_function: returns a dict with any of `total_prompts`, `successful_evaluations`,
                `failed_evaluations`, `overall_score`, `evaluations`, `model_config`.
            execution_mode: one model after another, or up to `max_workers` at once.
            max_workers: most models at once in parallel mode.
            timeout_per_model: most seconds per model.
            progress_callback: called as (model, completed, total) when a model starts and when it completes.
            on_result: called with each model's result as it finishes.
            isolation: "thread": a timed-out function cannot be ended and is left alone; "process": it is ended.
            memory_limit_mb: most address space of a model's process.
            cpu_seconds: most processor time of a model's process.
        """
        self.benchmark_function = benchmark_function
        self.execution_mode = ExecutionMode(execution_mode)
        self.max_workers = max_workers
        self.timeout_per_model = timeout_per_model
        self.progress_callback = progress_callback
        self.on_result = on_result
        self.isolation = isolation
        self._limits = Limits(memory_limit_mb=memory_limit_mb, cpu_seconds=cpu_seconds)
        self._check()

    def _check(self) -> None:
        if self.benchmark_function is not None and not callable(self.benchmark_function):
            raise TypeError("benchmark_function must be a function of a model's and a dataset's name, or None")
        if self.isolation not in ("thread", "process"):
            raise ValueError(f"isolation is 'thread' or 'process', not {self.isolation!r}")
        given = {"max_workers": self.max_workers, "timeout_per_model": self.timeout_per_model, **asdict(self._limits)}
        for name, value in given.items():
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be more than 0, not {value!r}")
        if self._limits.words and self.isolation == "thread":
            raise ValueError('memory_limit_mb and cpu_seconds need isolation="process": a thread cannot be limited')
        if self.isolation == "process" and self.benchmark_function is None:
            raise ValueError('isolation="process" is for a benchmark_function; the built-in pipeline ends its own timeouts')

    def run(self, models: Iterable[str], dataset_name: str) -> BenchmarkResult:
        """Run every model and return all results, in the order of `models`."""
        if isinstance(models, str):
            raise TypeError(f"models is a list of names: write [{models!r}]")
        names, watch = list(models), Stopwatch()
        board = _Board(dataset_name, names, self.progress_callback, self.on_result)
        folder = None
        if self.benchmark_function is None:
            folder = self._run_pipeline(board)
        else:
            self._run_function(board, self.benchmark_function)
        seconds = watch.seconds()
        return BenchmarkResult(
            dataset_name=dataset_name,
            models=names,
            execution_mode=self.execution_mode,
            start_time=watch.start_time,
            end_time=watch.start_time + timedelta(seconds=seconds),
            total_duration_seconds=seconds,
            model_results=[board.results[position] for position in range(len(names))],
            results_dir=folder,
        )

    @property
    def _slots(self) -> int:
        return self.max_workers if self.execution_mode is ExecutionMode.PARALLEL else 1

    # --- a function of the caller's

    def _run_function(self, board: _Board, function: BenchmarkFunction) -> None:
        """Keep the slots filled until every model is over. Only this thread decides; it alone calls the callbacks."""
        waiting = deque(board.entrants())
        running: list[Call] = []
        ended: SimpleQueue[Call] = SimpleQueue()
        try:
            while waiting or running:
                while waiting and len(running) < self._slots:
                    entrant = waiting.popleft()
                    board.begin(entrant)
                    if entrant.trouble is not None:
                        board.finish(entrant, board.result(entrant, **_error_fields(entrant.trouble)))
                        continue
                    running.append(self._call(Work(function, entrant.name, board.dataset), entrant))
                    running[-1].start(ended.put)
                if running:
                    self._end_one(board, running, ended)
        finally:
            for call in running:
                call.end()

    def _call(self, work: Work, entrant: _Entrant) -> Call:
        call: Call = ProcessCall(work, self._limits) if self.isolation == "process" else ThreadCall(work)
        call.entrant, call.watch = entrant, Stopwatch()
        return call

    def _end_one(self, board: _Board, running: list[Call], ended: SimpleQueue[Call]) -> None:
        """Wait until a call ends or its time is over, and record its result."""
        first = min(running, key=lambda call: call.watch.started)
        call = _next(ended, self._left(first))
        if call is None:
            call = first
        elif call not in running:  # given up before, and ended since
            return
        running.remove(call)
        late = call.outcome is None or self._late(call)
        call.end()
        board.finish(call.entrant, self._result(board, call, late=late))

    def _left(self, call: Call) -> float | None:
        """Seconds until the call's time is over."""
        return None if self.timeout_per_model is None else max(0.0, self.timeout_per_model - call.watch.seconds())

    def _late(self, call: Call) -> bool:
        return self.timeout_per_model is not None and call.seconds > self.timeout_per_model

    def _result(self, board: _Board, call: Call, *, late: bool) -> ModelBenchmarkResult:
        outcome = call.outcome
        if late or outcome is None:
            return board.result(call.entrant, call.watch, **self._timeout_fields())
        if outcome.trouble is not None and outcome.trouble.kind == "KeyboardInterrupt":
            raise KeyboardInterrupt
        return board.result(call.entrant, call.watch, call.seconds, **_fields(outcome))

    def _timeout_fields(self) -> dict[str, Any]:
        trouble = Trouble(f"timed out after {self.timeout_per_model:g} seconds", "TimeoutError")
        return {"timed_out": True, **_error_fields(trouble)}

    # --- the built-in pipeline

    def _run_pipeline(self, board: _Board) -> Path | None:
        """Run all models as one run of the pipeline, in a thread of its own, so that a running event loop does not matter."""
        from benchmark.pipeline import TRIALS_CSV, write_reports

        asked = _resolve(board)
        if not asked:
            return None
        plan = self._plan([entrants[0] for entrants in asked.values()], board.dataset)
        thread = _PipelineThread(plan)
        thread.start()
        try:
            while (event := thread.events.get()) is not None:
                self._follow(board, asked, event, plan.spec.results_dir)
        finally:
            thread.stop()
        if thread.error is not None:
            raise thread.error
        write_reports(plan.spec.results_dir, csv_path=plan.spec.results_dir / TRIALS_CSV)
        return plan.spec.results_dir

    def _plan(self, entrants: Sequence[_Entrant], dataset: str) -> Plan:
        """What is to be asked; a wrong dataset is found before a folder is made for it."""
        from benchmark.config import results_root
        from benchmark.core.run import RunSpec
        from benchmark.pipeline import make_plan
        from benchmark.store.folder import new_run_folder

        file = Path(dataset).expanduser()
        spec = RunSpec(
            models=tuple(entrant.ref for entrant in entrants if entrant.ref is not None),
            dataset=str(file.resolve()) if file.is_file() else dataset,
            results_dir=Path(),
            max_workers=self._slots,
            timeout_s=self.timeout_per_model,
            command=self._command([entrant.name for entrant in entrants], dataset),
        )
        return make_plan(spec).placed_in(new_run_folder(Path.cwd() / results_root(), datetime.now(UTC).astimezone()))

    def _command(self, names: Sequence[str], dataset: str) -> str:
        """The same run as a command."""
        words = ["tiebreak", "run", *(word for name in names for word in ("--model", name)), "--dataset", dataset]
        if self._slots > 1:
            words += ["--parallel", "--max-workers", str(self._slots)]
        if self.timeout_per_model is not None:
            words += ["--timeout", f"{self.timeout_per_model:g}"]
        return shlex.join(words)

    def _follow(self, board: _Board, asked: Mapping[str, Sequence[_Entrant]], event: Event, folder: Path) -> None:
        if isinstance(event, ModelStarted):
            for entrant in asked[event.model]:
                board.begin(entrant)
        elif isinstance(event, ModelFinished):
            result = self._stored_result(board.dataset, event, folder)
            for entrant in asked[event.model]:
                board.finish(entrant, replace(result, model_name=entrant.name))

    def _stored_result(self, dataset: str, end: ModelFinished, folder: Path) -> ModelBenchmarkResult:
        """A finished model's result; all its rows were on disk before anyone heard of its end."""
        from benchmark.report.summary import summarise_models
        from benchmark.store.reader import StoreReader

        now = datetime.now(UTC)
        with StoreReader(folder) as reader:
            summary = next(model for model in summarise_models(reader) if model.model.label == end.model)
            return ModelBenchmarkResult(
                model_name=end.model,
                provider_name=summary.model.provider,
                dataset_name=dataset,
                start_time=now - timedelta(seconds=end.seconds),
                end_time=now,
                duration_seconds=end.seconds,
                **_summary_fields(summary, reader),
                **self._ending_fields(summary, end),
            )

    def _ending_fields(self, summary: ModelSummary, end: ModelFinished) -> dict[str, Any]:
        """The error of a model that did not get through; nothing when it did."""
        if end.state is ModelState.TIMED_OUT:
            return self._timeout_fields()
        if end.state is not ModelState.FINISHED:
            unexpected = re.match(r"unexpected (\w+): ", end.message)
            return _error_fields(Trouble(end.message, unexpected[1] if unexpected else "ProviderError"))
        if summary.planned and not summary.answered:
            kinds = ", ".join(f"{count} {kind}" for kind, count in summary.failures.items())
            return _error_fields(Trouble(f"no trial has a result: {kinds}", "ProviderError"))
        return {}


@dataclass(slots=True)
class _Entrant:
    """A model of the run, with its place among them."""

    position: int
    name: str
    provider: str = "unknown"
    trouble: Trouble | None = None
    ref: ModelRef | None = None


class _Board:
    """Who began and who finished, in the order the models were named; tells the caller's callbacks."""

    def __init__(
        self,
        dataset: str,
        names: Sequence[str],
        progress: ProgressCallback | None,
        on_result: Callable[[ModelBenchmarkResult], object] | None,
    ) -> None:
        self.dataset = dataset
        self.results: dict[int, ModelBenchmarkResult] = {}
        self._names = names
        self._tracker = ProgressTracker(len(names), progress)
        self._on_result = on_result

    def entrants(self) -> list[_Entrant]:
        """Every model with its provider, or with what is wrong with its name."""
        return [_entrant(position, name) for position, name in enumerate(self._names)]

    def begin(self, entrant: _Entrant) -> None:
        self._tracker.start_model(entrant.name)

    def finish(self, entrant: _Entrant, result: ModelBenchmarkResult) -> None:
        self.results[entrant.position] = result
        self._tracker.complete_model(entrant.name)
        _tell(self._on_result, result)

    def result(
        self, entrant: _Entrant, watch: Stopwatch | None = None, seconds: float | None = None, **fields: Any
    ) -> ModelBenchmarkResult:
        watch = watch or Stopwatch()
        seconds = watch.seconds() if seconds is None else seconds
        return ModelBenchmarkResult(
            model_name=entrant.name,
            provider_name=entrant.provider,
            dataset_name=self.dataset,
            start_time=watch.start_time,
            end_time=watch.start_time + timedelta(seconds=seconds),
            duration_seconds=seconds,
            **fields,
        )


def _entrant(position: int, name: str) -> _Entrant:
    try:
        provider = get_provider_for_model(name)
    except Exception as error:
        return _Entrant(position, name, trouble=Trouble(str(error) or type(error).__name__, "ModelNotFoundError"))
    known = getattr(provider, "name", None)
    return _Entrant(position, name, provider=known if isinstance(known, str) else getattr(provider, "__name__", "unknown"))


def _error_fields(trouble: Trouble) -> dict[str, Any]:
    """An error as fields of a result; no secret goes with it."""
    text = Redactor.from_environment()(trouble.text)
    return {"error": text, "error_type": trouble.kind, "error_time": datetime.now(UTC)}


def _fields(outcome: Outcome) -> dict[str, Any]:
    """What a function returned, or raised, as fields of a result."""
    if outcome.trouble is not None:
        return _error_fields(outcome.trouble)
    try:
        return _checked(outcome.value)
    except Exception as error:
        return _error_fields(Trouble(f"the benchmark function's result cannot be used: {error}", type(error).__name__))


def _checked(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"it is a {type(value).__name__}, not a dict")
    score = float(value.get("overall_score") or 0.0)
    if not math.isfinite(score):
        raise ValueError(f"overall_score is {score}")
    counts = {name: int(value.get(name) or 0) for name in _COUNTS}
    evaluations = list(value.get("evaluations") or ())
    return {**counts, "overall_score": score, "evaluations": evaluations, "model_config": value.get("model_config") or {}}


def _next(ended: SimpleQueue[Call], timeout: float | None) -> Call | None:
    """The next call that ended, or None when the time is over."""
    try:
        return ended.get(timeout=timeout)
    except Empty:
        return None


# --- running the pipeline --------------------------------------------------------------------------


def _resolve(board: _Board) -> dict[str, list[_Entrant]]:
    """The models to ask, by label. One named twice, or by two names, is asked once and answers for all of them."""
    from benchmark.config import current_catalog
    from benchmark.registry import check_key

    asked: dict[str, list[_Entrant]] = {}
    labels: dict[str, str] = {}
    entrants = board.entrants()
    catalog = current_catalog() if any(entrant.trouble is None for entrant in entrants) else None
    for entrant in entrants:
        try:
            if catalog is not None and entrant.trouble is None:
                entrant.ref = catalog.resolve(entrant.name)
                check_key(entrant.ref)
        except BenchmarkError as error:
            entrant.trouble = Trouble.of(error)
        if entrant.trouble is not None:
            board.begin(entrant)
            board.finish(entrant, board.result(entrant, **_error_fields(entrant.trouble)))
        elif entrant.ref is not None:
            label = labels.setdefault(entrant.ref.digest, entrant.ref.label)
            asked.setdefault(label, []).append(entrant)
    return asked


def _summary_fields(summary: ModelSummary, reader: StoreReader) -> dict[str, Any]:
    """Counts and rows of a model. Failures are left out of the score and stand among the evaluations, with their error."""
    model = summary.model
    return {
        "total_prompts": summary.planned,
        "successful_evaluations": summary.right,
        "failed_evaluations": summary.wrong + summary.no_answer + summary.failed,
        "overall_score": summary.score or 0.0,
        "evaluations": [dict(row) for row in reader.records(_EVALUATIONS, model.label)],
        "model_config": {"provider": model.provider, "name": model.name, "settings": dict(model.settings)},
    }


class _PipelineThread(threading.Thread):
    """One run of the pipeline in a thread and an event loop of its own; its events are taken from a queue."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(name="benchmark pipeline", daemon=True)
        self.events: SimpleQueue[Event | None] = SimpleQueue()
        """What happens, and None at the end."""
        self.error: BaseException | None = None
        self._plan = plan
        self._begun = threading.Event()
        self._ask_to_stop: Callable[[], object] = lambda: None

    def run(self) -> None:
        """Run to the end; an error is kept for whoever started this thread."""
        from benchmark.pipeline import loop_factory

        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._main())
        except BaseException as error:
            self.error = error
        finally:
            self._begun.set()
            self.events.put(None)

    async def _main(self) -> None:
        from benchmark.pipeline import Stop, run_plan

        stop, loop = Stop(), asyncio.get_running_loop()
        self._ask_to_stop = lambda: loop.call_soon_threadsafe(stop.ask)
        self._begun.set()
        await run_plan(self._plan, watch=self._watch, stop=stop)

    def _watch(self, event: Event) -> None:
        if isinstance(event, ModelStarted | ModelFinished):
            self.events.put(event)

    def stop(self) -> None:
        """End the run at once if it still goes on, and give it a while to let go of what it holds."""
        self._begun.wait(_CLOSE_S)
        with contextlib.suppress(RuntimeError):  # The loop is closed once the run is over.
            self._ask_to_stop()
            self._ask_to_stop()
        self.join(_CLOSE_S)
