"""Front door for Python: run a function, or the built-in pipeline, on several models and get records back.

Models are isolated from each other: an error, a timeout or a crash becomes that model's result, and the others run.
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
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from numbers import Real
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import fmean
from typing import TYPE_CHECKING, Any

from tiebreak.core import errors
from tiebreak.core.errors import BenchmarkError, ProviderError, RateLimitError
from tiebreak.core.events import ContestantFinished, ContestantStarted, ContestantState, Event
from tiebreak.core.redact import Redactor
from tiebreak.isolation import BenchmarkFunction, BoundFunction, Call, CaughtError, Limits, Outcome, ProcessCall, Stopwatch

if TYPE_CHECKING:
    from tiebreak.core.model import ModelRef
    from tiebreak.core.protocols import Provider
    from tiebreak.pipeline import Plan
    from tiebreak.report.summary import ContestantSummary

__all__ = [
    "BenchmarkError",
    "BenchmarkFunction",
    "BenchmarkResult",
    "ExecutionMode",
    "ModelBenchmarkResult",
    "MultiModelBenchmarkRunner",
    "ProgressCallback",
    "ProgressTracker",
    "ProviderError",
    "RateLimitError",
    "get_provider_for_model",
    "run_benchmark",
]

log = logging.getLogger(__name__)

ProgressCallback = Callable[[str, int, int], object]
"""Called with a model's name, the number of completed models and the number of all models."""

_COUNTS = ("total_prompts", "successful_evaluations", "failed_evaluations")
_CLOSE_S = 10.0
"""How long an interrupted pipeline may take to close its connections and end its processes."""
_EVALUATIONS = (
    "SELECT t.sample AS sample_id, s.prompt AS prompt, t.text AS response, s.target AS expected, t.score AS score,"
    " t.outcome AS outcome, t.model_s AS response_time_seconds, t.failure AS error FROM trials t"
    " JOIN samples s ON s.asked = t.asked WHERE t.superseded = 0 AND t.contestant = ? ORDER BY t.sample, t.repeat"
)


def get_provider_for_model(name: str) -> type[Provider]:
    """The provider class of a model, built-in or configured; raises UnknownModel or AmbiguousModel."""
    from tiebreak.config import current_catalog
    from tiebreak.registry import get_provider_for_model as provider_of

    return provider_of(name, current_catalog())


def run_benchmark(model_name: str, dataset_name: str, **options: Any) -> dict[str, Any]:
    """The built-in pipeline as a benchmark function: run one model and return its counts, score and evaluations.

    Raises BenchmarkError when the model could not be run.
    """
    (result,) = MultiModelBenchmarkRunner(None).run([model_name], dataset_name, **options).model_results
    if result.error is not None:
        raise _error_class(result.error_type)(result.error)
    return {name: getattr(result, name) for name in (*_COUNTS, "overall_score", "evaluations", "model_config")}


def _error_class(name: str | None) -> type[BenchmarkError]:
    """The BenchmarkError of this name, so that a runner which calls run_benchmark() records the same error type."""
    found = getattr(errors, name or "", None)
    return found if isinstance(found, type) and issubclass(found, BenchmarkError) else BenchmarkError


# --- records ---------------------------------------------------------------------------------------


class ExecutionMode(StrEnum):
    """One model after another, or several at once."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


@dataclass
class ModelBenchmarkResult:
    """The result of one model. A plain dataclass: callers may fill it in field by field."""

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
    """The class name of the exception."""
    timed_out: bool = False
    model_config: Mapping[str, Any] = field(default_factory=dict)
    error_time: datetime | None = None

    @property
    def success(self) -> bool:
        """Whether the model finished, without an error and in time."""
        return self.error is None and not self.timed_out

    @property
    def average_response_time(self) -> float:
        """Mean response time of the evaluations that have one, in seconds; 0.0 when none has."""
        times = [entry.get("response_time_seconds") for entry in self.evaluations if isinstance(entry, Mapping)]
        return fmean(known) if (known := [float(t) for t in times if isinstance(t, Real)]) else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The result as data that JSON can represent."""
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
            "error_time": self.error_time,
            "timed_out": self.timed_out,
        }
        return {key: _plain(value) for key, value in data.items()}


@dataclass
class BenchmarkResult:
    """The results of a run, in the order of `models`. A plain dataclass: results may be appended."""

    dataset_name: str
    models: list[str]
    execution_mode: ExecutionMode
    start_time: datetime
    end_time: datetime | None = None
    total_duration_seconds: float = 0.0
    model_results: list[ModelBenchmarkResult] = field(default_factory=list)
    results_dir: Path | None = None
    """Where the built-in pipeline stored the run; None when a function was run."""

    @property
    def successful_models(self) -> list[ModelBenchmarkResult]:
        """Results of the models that finished."""
        return [result for result in self.model_results if result.success]

    @property
    def failed_models(self) -> list[ModelBenchmarkResult]:
        """Results of the models that had an error or timed out."""
        return [result for result in self.model_results if not result.success]

    @property
    def summary_stats(self) -> dict[str, Any]:
        """Counts, the average score, and the best and worst model. Baselines are left out unless nothing else succeeded."""
        succeeded = self.successful_models
        ranked = [result for result in succeeded if result.provider_name != "baseline"] or succeeded
        best = max(ranked, key=lambda result: result.overall_score, default=None)
        worst = min(ranked, key=lambda result: result.overall_score, default=None)
        return {
            "total_models": len(self.models),
            "successful_models": len(succeeded),
            "failed_models": len(self.failed_models),
            "average_score": fmean(result.overall_score for result in ranked) if ranked else 0.0,
            "best_model": best.model_name if best else None,
            "best_score": best.overall_score if best else 0.0,
            "worst_model": worst.model_name if worst else None,
            "worst_score": worst.overall_score if worst else 0.0,
        }

    def to_dict(self) -> dict[str, Any]:
        """The run as data that JSON can represent."""
        names = ("start_time", "end_time", "total_duration_seconds", "summary_stats", "results_dir")
        return {
            "dataset": self.dataset_name,
            "models": list(self.models),
            "execution_mode": str(self.execution_mode),
            **{name: _plain(getattr(self, name)) for name in names},
            "model_results": [result.to_dict() for result in self.model_results],
        }


def _plain(value: Any) -> Any:
    """The value as data that JSON can represent; text where JSON has no such type."""
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
    if hasattr(type(value), "tolist"):  # a NumPy array or scalar
        return _plain(value.tolist())
    return str(value)


class ProgressTracker:
    """Counts completed models. Thread-safe: the callback is called by one thread at a time, with rising counts."""

    def __init__(self, total_models: int, callback: ProgressCallback | None = None) -> None:
        self.total_models = total_models
        self._callback = callback
        self._completed = 0
        self._lock = threading.RLock()

    @property
    def completed_models(self) -> int:
        """The number of models that finished or failed."""
        return self._completed

    @property
    def progress_percentage(self) -> float:
        """From 0 to 100; a run without models is complete."""
        return min(100.0, 100.0 * self._completed / self.total_models) if self.total_models > 0 else 100.0

    def start_model(self, model: str) -> None:
        """Report that a model starts."""
        with self._lock:
            _notify(self._callback, model, self._completed, self.total_models)

    def complete_model(self, model: str) -> None:
        """Count a model as completed and report it."""
        with self._lock:
            self._completed += 1
            _notify(self._callback, model, self._completed, self.total_models)


def _notify(callback: Callable[..., object] | None, *values: object) -> None:
    """Call a callback; an exception in it is logged and does not stop the run."""
    if callback is None:
        return
    try:
        callback(*values)
    except Exception:
        log.exception("a callback raised an exception; the run continues")


# --- the runner ------------------------------------------------------------------------------------


@dataclass(eq=False)
class MultiModelBenchmarkRunner:
    """Runs several models on one dataset, isolated from each other: a benchmark function, or the built-in pipeline.

    Args:
        benchmark_function: called as `benchmark_function(model_name, dataset_name, **options)`; returns a dict with
            any of `total_prompts`, `successful_evaluations`, `failed_evaluations`, `overall_score`, `evaluations`,
            `model_config`. None runs the built-in pipeline.
        execution_mode: one model after another, or up to `max_workers` at once.
        max_workers: the most models at once in parallel mode.
        timeout_per_model: the most seconds per model.
        progress_callback: called as (model, completed, total) when a model starts and when it completes.
        on_result: called with each model's result when it completes.
        isolation: "thread": a function that times out is abandoned; "process": it is killed.
        memory_limit_mb: the most address space of a model's process.
        cpu_seconds: the most processor time of a model's process.
    """

    benchmark_function: BenchmarkFunction | None
    execution_mode: ExecutionMode = ExecutionMode.SEQUENTIAL
    max_workers: int = 4
    timeout_per_model: float | None = None
    progress_callback: ProgressCallback | None = None
    on_result: Callable[[ModelBenchmarkResult], object] | None = None
    isolation: str = "thread"
    memory_limit_mb: float | None = None
    cpu_seconds: float | None = None

    def __post_init__(self) -> None:
        self.execution_mode = ExecutionMode(self.execution_mode)
        self._limits = Limits(memory_limit_mb=self.memory_limit_mb, cpu_seconds=self.cpu_seconds)
        if self.benchmark_function is not None and not callable(self.benchmark_function):
            raise TypeError("benchmark_function must be a function of a model name and a dataset name, or None")
        if self.isolation not in ("thread", "process"):
            raise ValueError(f"isolation must be 'thread' or 'process', not {self.isolation!r}")
        for name in ("max_workers", "timeout_per_model", "memory_limit_mb", "cpu_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be more than 0, not {value!r}")
        if self._limits.description and self.isolation == "thread":
            raise ValueError('memory_limit_mb and cpu_seconds need isolation="process": a thread cannot be limited')
        if self.isolation == "process" and self.benchmark_function is None:
            raise ValueError('isolation="process" needs a benchmark_function; the built-in pipeline ends its own timeouts')

    def run(self, models: Iterable[str], dataset_name: str, **options: Any) -> BenchmarkResult:
        """Run every model and return all results, in the order of `models`.

        Other keyword arguments are passed on to the benchmark function.
        """
        if isinstance(models, str):
            raise TypeError(f"models must be a list of names: write [{models!r}]")
        names, watch, folder = list(models), Stopwatch(), None
        collector = _ResultCollector(dataset_name, names, self.progress_callback, self.on_result)
        if self.benchmark_function is not None:
            self._run_function(collector, self.benchmark_function, options)
        elif options:
            raise TypeError(f"the built-in pipeline does not take the keyword arguments {', '.join(map(repr, options))}")
        else:
            folder = self._run_pipeline(collector)
        seconds = watch.seconds()
        return BenchmarkResult(
            dataset_name=dataset_name,
            models=names,
            execution_mode=self.execution_mode,
            start_time=watch.start_time,
            end_time=watch.start_time + timedelta(seconds=seconds),
            total_duration_seconds=seconds,
            model_results=[collector.results[position] for position in range(len(names))],
            results_dir=folder,
        )

    @property
    def _slots(self) -> int:
        return self.max_workers if self.execution_mode is ExecutionMode.PARALLEL else 1

    # --- a benchmark function

    def _run_function(self, collector: _ResultCollector, function: BenchmarkFunction, options: Mapping[str, Any]) -> None:
        """Keep every slot busy until all models are completed. All callbacks are called from this thread."""
        waiting = deque(collector.models)
        running: dict[Call, _NamedModel] = {}
        finished: SimpleQueue[Call] = SimpleQueue()
        try:
            while waiting or running:
                while waiting and len(running) < self._slots:
                    model = waiting.popleft()
                    if model.error is not None:
                        collector.refuse(model, model.error)
                        continue
                    collector.start(model)
                    bound = BoundFunction(function, model.name, collector.dataset, options)
                    call = ProcessCall(bound, self._limits) if self.isolation == "process" else Call(bound)
                    running[call] = model
                    call.start(finished.put)
                if running:
                    self._complete_one(collector, running, finished)
        finally:
            for call in running:
                call.stop()

    def _complete_one(self, collector: _ResultCollector, running: dict[Call, _NamedModel], finished: SimpleQueue[Call]) -> None:
        """Wait until a call finishes or the oldest one times out, and record its result."""
        timeout = self.timeout_per_model
        call = min(running, key=lambda call: call.watch.started)
        with contextlib.suppress(Empty):
            call = finished.get(timeout=None if timeout is None else max(0.0, timeout - call.watch.seconds()))
        if call not in running:  # It timed out earlier and has finished since.
            return
        model, outcome = running.pop(call), call.outcome
        call.stop()
        if outcome is None or (timeout is not None and call.seconds > timeout):
            collector.complete(model, call.watch.start_time, call.watch.seconds(), **self._timeout_fields())
        elif outcome.error is not None and outcome.error.type_name == "KeyboardInterrupt":
            raise KeyboardInterrupt
        else:
            collector.complete(model, call.watch.start_time, call.seconds, **_outcome_fields(outcome))

    def _timeout_fields(self) -> dict[str, Any]:
        error = CaughtError(f"timed out after {self.timeout_per_model:g} seconds", "TimeoutError")
        return {"timed_out": True, **_error_fields(error)}

    # --- the built-in pipeline

    def _run_pipeline(self, collector: _ResultCollector) -> Path | None:
        """Run all models as one run of the pipeline, in its own thread: the caller may have a running event loop."""
        from tiebreak.pipeline import TRIALS_CSV, write_reports

        by_label = _resolve(collector)
        if not by_label:
            return None
        plan = self._plan([models[0] for models in by_label.values()], collector.dataset)
        thread = _PipelineThread(plan)
        thread.start()
        try:
            while (event := thread.events.get()) is not None:
                self._follow(collector, by_label[event.contestant], event, plan.spec.results_dir)
        finally:
            thread.stop()
        if thread.error is not None:
            raise thread.error
        write_reports(plan.spec.results_dir, csv_path=plan.spec.results_dir / TRIALS_CSV)
        return plan.spec.results_dir

    def _plan(self, models: Sequence[_NamedModel], dataset: str) -> Plan:
        """The plan of the run; a dataset that cannot be read is an error before the folder is created."""
        from tiebreak.config import results_root
        from tiebreak.core.contestant import Contestant
        from tiebreak.core.run import Pace, Protocol, RunSpec
        from tiebreak.pipeline import make_plan
        from tiebreak.store.folder import new_run_folder

        file = Path(dataset).expanduser()
        refs = [model.ref for model in models if model.ref is not None]
        spec = RunSpec(
            protocol=Protocol(dataset=str(file.resolve()) if file.is_file() else dataset),
            contestants=tuple(Contestant(label=ref.label, model=ref) for ref in refs),
            pace=Pace(max_workers=self._slots, timeout_s=self.timeout_per_model),
            results_dir=Path(),
            command=self._command([model.name for model in models], dataset),
        )
        return make_plan(spec).placed_in(new_run_folder(Path.cwd() / results_root(), datetime.now(UTC).astimezone()))

    def _command(self, names: Sequence[str], dataset: str) -> str:
        """The command line of the same run."""
        words = ["tiebreak", "run", *(word for name in names for word in ("--model", name)), "--dataset", dataset]
        if self._slots > 1:
            words += ["--parallel", "--max-workers", str(self._slots)]
        if self.timeout_per_model is not None:
            words += ["--timeout", f"{self.timeout_per_model:g}"]
        return shlex.join(words)

    def _follow(
        self,
        collector: _ResultCollector,
        models: Sequence[_NamedModel],
        event: ContestantStarted | ContestantFinished,
        folder: Path,
    ) -> None:
        if isinstance(event, ContestantStarted):
            for model in models:
                collector.start(model)
            return
        fields = self._stored_fields(event, folder)
        start_time = datetime.now(UTC) - timedelta(seconds=event.seconds)
        for model in models:
            # Callers may change a result: two names of one model do not share a list.
            fields["evaluations"] = list(fields["evaluations"])
            collector.complete(model, start_time, event.seconds, **fields)

    def _stored_fields(self, end: ContestantFinished, folder: Path) -> dict[str, Any]:
        """Counts and rows of a finished model, from the store, which has all its rows before the event is reported.

        Failed trials have no part in the score; their evaluations name the error.
        """
        from tiebreak.report.summary import summarise_contestants
        from tiebreak.store.reader import StoreReader

        with StoreReader(folder) as reader:
            summary = next(c for c in summarise_contestants(reader) if c.label == end.contestant)
            rows = [dict(row) for row in reader.records(_EVALUATIONS, reader.numbers[summary.label])]
        model = summary.model
        return {
            "total_prompts": summary.planned,
            "successful_evaluations": summary.right,
            "failed_evaluations": summary.wrong + summary.no_answer + summary.failed,
            "overall_score": summary.score or 0.0,
            "evaluations": rows,
            "model_config": {"provider": model.provider, "name": model.name, "settings": dict(model.sent)},
            **self._ending_fields(summary, end),
        }

    def _ending_fields(self, summary: ContestantSummary, end: ContestantFinished) -> dict[str, Any]:
        """The error fields of a model that failed or timed out; empty for one that finished."""
        if end.state is ContestantState.TIMED_OUT:
            return self._timeout_fields()
        if end.state is not ContestantState.FINISHED:
            unexpected = re.match(r"(?:unexpected|the agent '[^']*' raised) (\w+): ", end.message)
            return _error_fields(CaughtError(end.message, unexpected[1] if unexpected else "ProviderError"))
        if summary.planned and not summary.answered:
            kinds = ", ".join(f"{count} {kind}" for kind, count in summary.failures.items())
            return _error_fields(CaughtError(f"no trial has a result: {kinds}", "ProviderError"))
        return {}


@dataclass(slots=True)
class _NamedModel:
    """A model as the caller named it."""

    position: int
    """Its position in the list of models."""
    name: str
    provider: str = "unknown"
    error: CaughtError | None = None
    """Why the model cannot be run."""
    ref: ModelRef | None = None


class _ResultCollector:
    """Collects the results by the position of their models, and calls the caller's callbacks."""

    def __init__(
        self,
        dataset: str,
        names: Sequence[str],
        progress: ProgressCallback | None,
        on_result: Callable[[ModelBenchmarkResult], object] | None,
    ) -> None:
        self.dataset = dataset
        self.models = [_look_up(position, name) for position, name in enumerate(names)]
        """Every model with its provider, or with the error of looking it up."""
        self.results: dict[int, ModelBenchmarkResult] = {}
        self._tracker = ProgressTracker(len(names), progress)
        self._on_result = on_result

    def start(self, model: _NamedModel) -> None:
        self._tracker.start_model(model.name)

    def complete(self, model: _NamedModel, start_time: datetime, seconds: float, **fields: Any) -> None:
        self.results[model.position] = result = ModelBenchmarkResult(
            model_name=model.name,
            provider_name=model.provider,
            dataset_name=self.dataset,
            start_time=start_time,
            end_time=start_time + timedelta(seconds=seconds),
            duration_seconds=seconds,
            **fields,
        )
        self._tracker.complete_model(model.name)
        _notify(self._on_result, result)

    def refuse(self, model: _NamedModel, error: CaughtError) -> None:
        """Start and complete a model that cannot be run."""
        self.start(model)
        self.complete(model, datetime.now(UTC), 0.0, **_error_fields(error))


def _look_up(position: int, name: str) -> _NamedModel:
    try:
        provider = get_provider_for_model(name)
    except Exception as error:
        return _NamedModel(position, name, error=CaughtError(str(error) or type(error).__name__, "ModelNotFoundError"))
    known = getattr(provider, "name", None)
    return _NamedModel(position, name, provider=known if isinstance(known, str) else getattr(provider, "__name__", "unknown"))


def _error_fields(error: CaughtError) -> dict[str, Any]:
    """The fields of a result that describe an error; keys and other secrets are removed from its message."""
    message = Redactor.from_environment()(error.message)
    return {"error": message, "error_type": error.type_name, "error_time": datetime.now(UTC)}


def _outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """The fields of a result for what a function returned or raised."""
    if outcome.error is not None:
        return _error_fields(outcome.error)
    try:
        return _returned_fields(outcome.value)
    except Exception as error:
        return _error_fields(CaughtError.of(error, f"the benchmark function's result cannot be used: {error}"))


def _returned_fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"it is a {type(value).__name__}, not a dict")
    score = float(value.get("overall_score") or 0.0)
    if not math.isfinite(score):
        raise ValueError(f"overall_score is {score}")
    counts = {name: int(value.get(name) or 0) for name in _COUNTS}
    evaluations = list(value.get("evaluations") or ())
    return {**counts, "overall_score": score, "evaluations": evaluations, "model_config": value.get("model_config") or {}}


# --- running the pipeline --------------------------------------------------------------------------


def _resolve(collector: _ResultCollector) -> dict[str, list[_NamedModel]]:
    """The models that can be run, by label. A model named twice is run once, and each of its names gets the result."""
    from tiebreak.config import current_catalog
    from tiebreak.registry import check_key

    by_label: dict[str, list[_NamedModel]] = {}
    labels: dict[str, str] = {}
    catalog = current_catalog() if any(model.error is None for model in collector.models) else None
    for model in collector.models:
        try:
            if catalog is not None and model.error is None:
                model.ref = catalog.resolve(model.name)
                check_key(model.ref)
                model.provider = model.ref.provider
        except BenchmarkError as error:
            model.error = CaughtError.of(error)
        if model.error is not None:
            collector.refuse(model, model.error)
        elif model.ref is not None:
            label = labels.setdefault(model.ref.digest, model.ref.label)
            by_label.setdefault(label, []).append(model)
    return by_label


class _PipelineThread(threading.Thread):
    """A run of the pipeline in its own thread and event loop; its events are put into a queue."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(name="benchmark pipeline", daemon=True)
        self.events: SimpleQueue[ContestantStarted | ContestantFinished | None] = SimpleQueue()
        """The events of the run; None is the last."""
        self.error: BaseException | None = None
        self._plan = plan
        self._loop_started = threading.Event()
        self._request_stop: Callable[[], object] = lambda: None

    def run(self) -> None:
        """Run the pipeline; an exception is stored in `error`."""
        from tiebreak.pipeline import loop_factory

        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._main())
        except BaseException as error:
            self.error = error
        finally:
            self._loop_started.set()
            self.events.put(None)

    async def _main(self) -> None:
        from tiebreak.pipeline import Stop, run_plan

        stop, loop = Stop(), asyncio.get_running_loop()
        self._request_stop = lambda: loop.call_soon_threadsafe(stop.ask)
        self._loop_started.set()
        await run_plan(self._plan, watch=self._watch, stop=stop)

    def _watch(self, event: Event) -> None:
        if isinstance(event, ContestantStarted | ContestantFinished):
            self.events.put(event)

    def stop(self) -> None:
        """Stop the run at once if it is not over, and wait until it has closed what it opened."""
        self._loop_started.wait(_CLOSE_S)
        with contextlib.suppress(RuntimeError):  # The loop is closed once the run is over.
            self._request_stop()  # The first request lets trials finish,
            self._request_stop()  # the second cancels them.
        self.join(_CLOSE_S)
