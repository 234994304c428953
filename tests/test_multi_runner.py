"""The Python front door: records, progress, isolation, timeouts, limits, and the built-in pipeline."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tiebreak
from tiebreak import (
    BenchmarkResult,
    ExecutionMode,
    ModelBenchmarkResult,
    MultiModelBenchmarkRunner,
    ProgressTracker,
    ProviderError,
    RateLimitError,
    get_provider_for_model,
)
from tiebreak.core.model import ModelRef
from tiebreak.multi_runner import run_benchmark
from tiebreak.providers.openai import OpenAI
from tiebreak.registry import Catalog

ROOT = Path(tiebreak.__file__).resolve().parents[1]
MODELS = ["gpt-4", "claude-3", "gemini-1.5"]
RESULT_KEYS = (
    *("model", "provider", "dataset", "start_time", "end_time", "total_duration_seconds", "total_prompts"),
    *("successful_evaluations", "failed_evaluations", "overall_score", "average_response_time_seconds"),
    *("evaluations", "model_config", "error", "error_type", "error_time", "timed_out"),
)
FUNCTIONS = '''
import os, signal, subprocess, sys, time
from pathlib import Path


def scores(model, dataset):
    return {"total_prompts": 2, "overall_score": 0.5, "model_config": {"pid": os.getpid()}}


def raises(model, dataset):
    raise LookupError(f"{model} is not there")


def sleeps(model, dataset):
    """Leaves the ids of itself and of a process it started."""
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(dataset).write_text(f"{os.getpid()} {started.pid}")
    time.sleep(60)


def takes_memory(model, dataset):
    return {"evaluations": ["x" * (4 << 30)]}


def takes_processor(model, dataset):
    while True:
        pass


def dies(model, dataset):
    os.kill(os.getpid(), signal.SIGSEGV)


def leaves(model, dataset):
    os._exit(7)


def leaves_another_behind(model, dataset):
    """The process forked holds the pipe open when this one is gone."""
    if os.fork():
        os._exit(9)
    time.sleep(60)


def returns_a_lock(model, dataset):
    import threading
    return {"evaluations": [threading.Lock()]}


def returns_a_list(model, dataset):
    return [1]


def returns_options(model, dataset, **options):
    return {"model_config": options}
'''


@pytest.fixture(autouse=True)
def shipped_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the shipped models, whatever this machine has configured."""
    monkeypatch.setattr("tiebreak.config.current_catalog", Catalog)


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Functions another process can import."""
    (tmp_path / "functions_to_run.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("functions_to_run")
    del sys.modules["functions_to_run"]


def half_right(model: str, dataset: str) -> dict:
    return {"total_prompts": 10, "successful_evaluations": 5, "failed_evaluations": 5, "overall_score": 0.5}


def sleeping(model: str, dataset: str) -> dict:
    time.sleep(30)
    return {}


def a_result(name: str = "gpt-4", provider: str = "openai", **fields) -> ModelBenchmarkResult:
    return ModelBenchmarkResult(name, provider, "capitals", datetime.now(UTC), **fields)


def a_run(*results: ModelBenchmarkResult) -> BenchmarkResult:
    return BenchmarkResult(
        dataset_name="capitals",
        models=[result.model_name for result in results],
        execution_mode=ExecutionMode.SEQUENTIAL,
        start_time=datetime.now(UTC),
        model_results=list(results),
    )


def script(text: str, folder: Path, timeout: float = 20) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, path], cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be buried does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def soon(true, seconds: float = 3.0) -> bool:
    """Whether something comes true within a while."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


# --- records


def test_result_takes_the_documents_fields():
    """The record of the document, naive dates and placeholders included, is a record and becomes JSON."""
    result = ModelBenchmarkResult(
        model_name="gpt-4",
        provider_name="openai",
        dataset_name="truthfulness",
        start_time=datetime.now(),
        end_time=datetime.now(),
        duration_seconds=45.2,
        total_prompts=100,
        successful_evaluations=85,
        failed_evaluations=15,
        overall_score=0.85,
        evaluations=[...],
        error=None,
        error_type=None,
        timed_out=False,
        model_config={...},  # type: ignore[arg-type]
    )

    assert result.success
    assert tuple(result.to_dict()) == RESULT_KEYS
    assert json.loads(json.dumps(result.to_dict()))["total_duration_seconds"] == 45.2


def test_run_takes_the_documents_fields():
    """The aggregated record of the document is a record and becomes JSON."""
    result = BenchmarkResult(
        dataset_name="truthfulness",
        models=["gpt-4", "claude-3", "gemini-1.5"],
        execution_mode=ExecutionMode.PARALLEL,
        start_time=datetime.now(),
        end_time=datetime.now(),
        total_duration_seconds=120.5,
        model_results=[a_result()],
    )

    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert data["execution_mode"] == "parallel"
    assert data["model_results"][0]["model"] == "gpt-4"


def test_four_fields_are_enough():
    """Everything but the names and the start has a default."""
    result = a_result()

    assert result.success
    assert (result.total_prompts, result.overall_score, result.evaluations, result.error) == (0, 0.0, [], None)


def test_records_can_be_filled_in_field_by_field():
    """As callers do who build a result while a benchmark runs."""
    result, run = a_result(), a_run()

    result.error, result.error_type, result.end_time = "no", "ValueError", datetime(2026, 1, 2, tzinfo=UTC)
    result.error_time = result.end_time
    run.model_results.append(result)
    run.end_time = result.end_time

    assert run.failed_models == [result]
    assert (result.to_dict()["error"], result.to_dict()["error_time"]) == ("no", "2026-01-02T00:00:00+00:00")
    assert run.to_dict()["end_time"] == "2026-01-02T00:00:00+00:00"


def test_the_summary_counts_the_models_asked_for():
    """A model without a result yet is one of them."""
    run = BenchmarkResult("capitals", MODELS, ExecutionMode.SEQUENTIAL, datetime.now(UTC), model_results=[a_result()])

    assert (run.summary_stats["total_models"], run.summary_stats["successful_models"]) == (3, 1)


@pytest.mark.parametrize("fields", [{"error": "no"}, {"timed_out": True}])
def test_an_error_or_a_timeout_is_no_success(fields):
    """Either is enough."""
    assert not a_result(**fields).success


def test_average_response_time_counts_what_has_one():
    """Evaluations without a response time do not pull the mean down."""
    times = [{"response_time_seconds": 1.0}, {"response_time_seconds": 3}, {"response_time_seconds": None}, {}, ...]

    assert a_result(evaluations=times).average_response_time == 2.0
    assert a_result(evaluations=[{}]).average_response_time == 0.0


def test_to_dict_is_json_whatever_a_function_returned():
    """Dates, sets, paths, odd keys and numbers JSON cannot hold."""
    odd = {1: {2, 3}, "when": datetime(2026, 1, 2, tzinfo=UTC), "where": Path("a"), "nan": float("nan"), "what": object}

    data = a_result(evaluations=[odd]).to_dict()

    again = json.loads(json.dumps(data, allow_nan=False))["evaluations"][0]
    assert again["1"] == [2, 3]
    assert again["when"] == "2026-01-02T00:00:00+00:00"
    assert (again["where"], again["nan"]) == ("a", None)


def test_summary_names_best_and_worst():
    """Failed models count as failed and nowhere else."""
    run = a_run(a_result("a", overall_score=0.2), a_result("b", overall_score=0.8), a_result("c", overall_score=1, error="no"))

    assert run.summary_stats == {
        "total_models": 3,
        "successful_models": 2,
        "failed_models": 1,
        "average_score": 0.5,
        "best_model": "b",
        "best_score": 0.8,
        "worst_model": "a",
        "worst_score": 0.2,
    }
    assert [r.model_name for r in run.successful_models] == ["a", "b"]
    assert [r.model_name for r in run.failed_models] == ["c"]


def test_summary_with_nothing_successful():
    """Names are None and scores 0.0."""
    for run in (a_run(), a_run(a_result(error="no"))):
        stats = run.summary_stats
        assert (stats["best_model"], stats["worst_model"]) == (None, None)
        assert (stats["average_score"], stats["best_score"], stats["worst_score"]) == (0.0, 0.0, 0.0)


def test_a_baseline_is_never_best():
    """A model that knows nothing is a line to compare with, unless it is alone."""
    guess = a_result("baseline/random", "baseline", overall_score=0.9)

    assert a_run(guess, a_result(overall_score=0.4)).summary_stats["best_model"] == "gpt-4"
    assert a_run(guess).summary_stats["best_model"] == "baseline/random"


# --- progress


def test_progress_counts_completed_models():
    """The callback hears the count so far at a start and the new count at an end."""
    heard = []
    tracker = ProgressTracker(2, lambda *words: heard.append(words))

    tracker.start_model("a")
    tracker.complete_model("a")

    assert heard == [("a", 0, 2), ("a", 1, 2)]
    assert (tracker.completed_models, tracker.progress_percentage) == (1, 50.0)


def test_progress_of_nothing():
    """A tracker needs neither a callback nor models."""
    assert ProgressTracker(0).progress_percentage == 100.0
    assert ProgressTracker(3).progress_percentage == 0.0


def test_progress_is_safe_from_many_threads():
    """No completion is lost, and the callback hears the counts in order."""
    heard: list[int] = []
    tracker = ProgressTracker(32 * 50, lambda _, completed, __: heard.append(completed))
    together = threading.Barrier(32)

    def complete() -> None:
        together.wait(10)
        for _ in range(50):
            tracker.complete_model("m")

    threads = [threading.Thread(target=complete) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert tracker.completed_models == 1600
    assert heard == list(range(1, 1601))
    assert tracker.progress_percentage == 100.0


def test_callback_may_ask_the_tracker():
    """The callback can read the percentage of the tracker that calls it."""
    heard = []
    tracker = ProgressTracker(4, lambda *_: heard.append(tracker.progress_percentage))

    tracker.complete_model("a")

    assert heard == [25.0]


# --- running a function


def test_the_documents_example_runs_as_printed(capsys):
    """The programmatic example of the document, word for word."""
    code = """
from tiebreak import MultiModelBenchmarkRunner, ExecutionMode

# Define your benchmark function
def my_benchmark(model_name: str, dataset_name: str) -> dict:
    # Run evaluation logic
    return {
        'total_prompts': 100,
        'successful_evaluations': 85,
        'failed_evaluations': 15,
        'overall_score': 0.85,
        'evaluations': [...]
    }

# Create runner
runner = MultiModelBenchmarkRunner(
    benchmark_function=my_benchmark,
    execution_mode=ExecutionMode.PARALLEL,
    max_workers=4,
    timeout_per_model=60,
    progress_callback=lambda m, c, t: print(f"[{c}/{t}] {m}")
)

# Run benchmarks
result = runner.run(
    models=["gpt-4", "claude-3", "gemini-1.5"],
    dataset_name="my_dataset"
)

# Access results
print(f"Successful: {len(result.successful_models)}")
print(f"Failed: {len(result.failed_models)}")
print(f"Best model: {result.summary_stats['best_model']}")
"""
    exec(code, {})

    said = capsys.readouterr().out
    assert "[0/3] gpt-4" in said
    assert "[3/3]" in said
    assert said.endswith("Successful: 3\nFailed: 0\nBest model: gpt-4\n")


def test_sequential_runs_one_after_another():
    """The next model starts when the one before is over; the function gets both names."""
    calls = []

    def note(model: str, dataset: str) -> dict:
        calls.append(("in", model, dataset))
        time.sleep(0.02)
        calls.append(("out", model, dataset))
        return half_right(model, dataset)

    result = MultiModelBenchmarkRunner(note).run(MODELS, "capitals")

    assert calls == [(word, model, "capitals") for model in MODELS for word in ("in", "out")]
    first = result.model_results[0]
    assert (first.provider_name, first.total_prompts, first.successful_evaluations, first.overall_score) == ("openai", 10, 5, 0.5)
    assert (first.failed_evaluations, first.dataset_name, first.success) == (5, "capitals", True)


def test_parallel_runs_at_once_and_keeps_the_order():
    """Results stand as the models were named, whoever finished first; on_result hears them as they finish."""
    together = threading.Barrier(3)
    heard = []

    def wait(model: str, dataset: str) -> dict:
        together.wait(60)
        # The last one ends first, and each of the others once those behind it have been heard.
        ends = time.monotonic() + 60
        while len(heard) < 2 - MODELS.index(model) and time.monotonic() < ends:
            time.sleep(0.01)
        return {"overall_score": 1}

    runner = MultiModelBenchmarkRunner(
        wait, ExecutionMode.PARALLEL, max_workers=3, on_result=lambda r: heard.append(r.model_name)
    )
    result = runner.run(MODELS, "d")

    assert [r.model_name for r in result.model_results] == result.models == MODELS
    assert all(r.success for r in result.model_results)
    assert heard == MODELS[::-1]


def test_no_more_models_at_once_than_workers():
    """max_workers is a promise."""
    lock, now, most, pair = threading.Lock(), 0, 0, threading.Barrier(2)

    def count(model: str, dataset: str) -> dict:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        pair.wait(60)
        time.sleep(0.02)
        with lock:
            now -= 1
        return {}

    MultiModelBenchmarkRunner(count, ExecutionMode.PARALLEL, max_workers=2).run(["gpt-4"] * 8, "d")

    assert most == 2


def test_keyword_arguments_are_passed_to_the_function():
    """run() takes any, and every model's call gets them."""
    calls = []

    def note(model_name: str, dataset_name: str, **options) -> dict:
        calls.append((model_name, dataset_name, options))
        return {}

    MultiModelBenchmarkRunner(note).run(models=["gpt-4", "claude-3"], dataset_name="d", limit=5, verbose=True)

    assert calls == [(model, "d", {"limit": 5, "verbose": True}) for model in ("gpt-4", "claude-3")]


def test_a_keyword_argument_the_function_does_not_take_is_its_models_error():
    """Python's own message names it."""
    (result,) = MultiModelBenchmarkRunner(half_right).run(["gpt-4"], "d", limit=5).model_results

    assert result.error_type == "TypeError" and "'limit'" in result.error


@pytest.mark.parametrize("models", [[], ["baseline/random"]])
def test_the_pipeline_refuses_keyword_arguments_it_does_not_have(models, tmp_path, monkeypatch):
    """They are named, and nothing is run."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(TypeError, match="'limt', 'sed'"):
        MultiModelBenchmarkRunner(None).run(models, "warmup", limt=5, sed=1)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", list(ExecutionMode))
@pytest.mark.parametrize(
    "error", [ProviderError("the server is down"), RateLimitError("slow down", retry_after=3), ZeroDivisionError(), SystemExit(3)]
)
def test_an_error_stays_with_its_model(mode, error):
    """Message, class name and time are recorded; the others run."""

    def fail(model: str, dataset: str) -> dict:
        if model == "claude-3":
            raise error
        return half_right(model, dataset)

    result = MultiModelBenchmarkRunner(fail, mode).run(MODELS, "d")

    (failed,) = result.failed_models
    assert (failed.model_name, failed.provider_name, failed.error_type) == ("claude-3", "anthropic", type(error).__name__)
    assert failed.error == (str(error) or "ZeroDivisionError")
    assert failed.error_time is not None and failed.error_time.tzinfo is UTC
    assert not failed.timed_out
    assert len(result.successful_models) == 2


def test_no_secret_in_an_error(monkeypatch):
    """What an error quotes from the environment is hidden."""
    monkeypatch.setenv("OPENAI_API_KEY", "a-very-secret-key")

    def fail(model: str, dataset: str) -> dict:
        raise ProviderError("rejected a-very-secret-key")

    (result,) = MultiModelBenchmarkRunner(fail).run(["gpt-4"], "d").model_results

    assert result.error == "rejected [hidden]"


def test_an_unknown_model_is_a_result():
    """It is never called, has the error that says so, and the others run."""
    called = []

    def note(model: str, dataset: str) -> dict:
        called.append(model)
        return {}

    result = MultiModelBenchmarkRunner(note).run(["gpt-4", "gtp-4"], "d")

    assert called == ["gpt-4"]
    (missing,) = result.failed_models
    assert (missing.error_type, missing.provider_name) == ("ModelNotFoundError", "unknown")
    assert "did you mean 'gpt-4'" in missing.error


def test_models_are_resolved_through_the_modules_own_name(monkeypatch):
    """A test, or a program, can put its own resolver there; whatever it raises is a missing model."""

    class House:
        """A provider of somebody else."""

        name = "house"

    def resolve(name: str) -> type:
        if name != "ours":
            raise KeyError(name)
        return House

    monkeypatch.setattr("tiebreak.multi_runner.get_provider_for_model", resolve)

    ours, theirs = MultiModelBenchmarkRunner(half_right).run(["ours", "theirs"], "d").model_results

    assert (ours.success, ours.provider_name) == (True, "house")
    assert (theirs.error_type, theirs.error) == ("ModelNotFoundError", "'theirs'")


def test_provider_of_a_configured_model(monkeypatch):
    """Names of the configuration count as well as ours."""
    mine = ModelRef(provider="openai", name="gpt-4", label="mine")
    monkeypatch.setattr("tiebreak.config.current_catalog", lambda: Catalog(configured={"mine": mine}))

    assert get_provider_for_model("mine") is OpenAI


@pytest.mark.parametrize("returned", [None, [1], "score", 0.9, {"overall_score": "high"}, {"overall_score": float("nan")}])
def test_a_result_that_cannot_be_used_breaks_its_own_model(returned):
    """Something else than a dict, or a dict with no numbers where numbers belong."""

    def odd(model: str, dataset: str):
        return returned if model == "gpt-4" else {"overall_score": 1}

    odd_one, other = MultiModelBenchmarkRunner(odd).run(["gpt-4", "claude-3"], "d").model_results

    assert odd_one.error_type in ("TypeError", "ValueError")
    assert "the benchmark function's result cannot be used" in odd_one.error
    assert other.success


def test_callbacks_that_raise_break_nothing():
    """Every model still runs and has its result."""

    def broken(*_: object) -> None:
        raise ValueError("callback")

    result = MultiModelBenchmarkRunner(half_right, progress_callback=broken, on_result=broken).run(MODELS, "d")

    assert len(result.successful_models) == 3


def test_progress_and_results_are_told_in_turn():
    """Start with the count so far, completion with the new count, one result each; missing models too."""
    heard: list[tuple] = []
    runner = MultiModelBenchmarkRunner(
        half_right, progress_callback=lambda *w: heard.append(w), on_result=lambda r: heard.append((r.model_name, r.success))
    )

    runner.run(["gpt-4", "nobody"], "d")

    assert heard == [("gpt-4", 0, 2), ("gpt-4", 1, 2), ("gpt-4", True), ("nobody", 1, 2), ("nobody", 2, 2), ("nobody", False)]


@pytest.mark.parametrize("function", [half_right, None])
def test_no_models_no_work(function, tmp_path, monkeypatch):
    """An empty list gives an empty result and leaves nothing behind."""
    monkeypatch.chdir(tmp_path)

    result = MultiModelBenchmarkRunner(function).run([], "warmup")

    assert result.model_results == []
    assert result.summary_stats["total_models"] == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", list(ExecutionMode))
def test_a_timeout_is_not_waited_for(mode):
    """The thread is left alone and its slot is free for the next model."""

    def first_sleeps(model: str, dataset: str) -> dict:
        return sleeping(model, dataset) if model == "gpt-4" else half_right(model, dataset)

    began = time.monotonic()
    runner = MultiModelBenchmarkRunner(first_sleeps, mode, max_workers=1, timeout_per_model=0.2)
    late, *others = runner.run(MODELS, "d").model_results

    assert time.monotonic() - began < 1.5
    assert late.timed_out and not late.success
    assert (late.error, late.error_type) == ("timed out after 0.2 seconds", "TimeoutError")
    assert 0.2 <= late.duration_seconds < 1
    assert all(other.success for other in others)


def test_the_interpreter_leaves_at_once(tmp_path):
    """A function that is still asleep keeps nobody."""
    text = """
import time
from tiebreak import MultiModelBenchmarkRunner, ExecutionMode
runner = MultiModelBenchmarkRunner(lambda m, d: time.sleep(30), ExecutionMode.PARALLEL, timeout_per_model=0.2)
print(len(runner.run(["baseline/random", "baseline/constant"], "d").failed_models))
"""
    began = time.monotonic()
    done = script(text, tmp_path)

    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    assert time.monotonic() - began < 5


def test_times_are_utc_and_durations_fit():
    """The end is the start plus the measured duration."""
    result = MultiModelBenchmarkRunner(half_right).run(["gpt-4"], "d")

    for record, seconds in (
        (result, result.total_duration_seconds),
        (result.model_results[0], result.model_results[0].duration_seconds),
    ):
        assert record.start_time.tzinfo is UTC
        assert (record.end_time - record.start_time).total_seconds() == pytest.approx(seconds, abs=1e-5)


def test_a_keyboard_interrupt_passes_through():
    """It is the caller's, not a model's."""

    def interrupted(model: str, dataset: str) -> dict:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MultiModelBenchmarkRunner(interrupted).run(["gpt-4"], "d")


@pytest.mark.parametrize(
    "options",
    [
        {"isolation": "container"},
        {"memory_limit_mb": 100},
        {"cpu_seconds": 1},
        {"max_workers": 0},
        {"timeout_per_model": 0},
        {"isolation": "process", "memory_limit_mb": -1},
        {"benchmark_function": None, "isolation": "process"},
        {"execution_mode": "sideways"},
    ],
)
def test_what_cannot_hold_is_refused_at_construction(options):
    """Limits a thread cannot keep, and values that mean nothing."""
    with pytest.raises(ValueError, match=r".+"):
        MultiModelBenchmarkRunner(**{"benchmark_function": half_right, **options})


def test_one_name_is_not_a_list_of_letters():
    """A forgotten bracket is told, not run letter by letter."""
    with pytest.raises(TypeError, match=r"\['gpt-4'\]"):
        MultiModelBenchmarkRunner(half_right).run("gpt-4", "d")


# --- a process for each model


def test_each_model_has_its_own_process(functions):
    """Results come back, errors too, each from another process than ours."""
    runner = MultiModelBenchmarkRunner(functions.scores, ExecutionMode.PARALLEL, isolation="process", timeout_per_model=20)

    results = runner.run(["gpt-4", "claude-3"], "d").model_results

    assert [r.overall_score for r in results] == [0.5, 0.5]
    assert len({os.getpid(), *(r.model_config["pid"] for r in results)}) == 3


def test_a_timeout_ends_the_process_and_all_it_started(functions, tmp_path):
    """When run() returns nothing of the model is left."""
    note = tmp_path / "pids"

    began = time.monotonic()
    runner = MultiModelBenchmarkRunner(functions.sleeps, isolation="process", timeout_per_model=1.5)
    (result,) = runner.run(["gpt-4"], str(note)).model_results

    assert time.monotonic() - began < 4
    assert (result.timed_out, result.error) == (True, "timed out after 1.5 seconds")
    child, grandchild = map(int, note.read_text().split())
    assert soon(lambda: not alive(child) and not alive(grandchild))


@pytest.mark.parametrize(
    ("name", "limits", "error_type", "says"),
    [
        ("raises", {}, "LookupError", "gpt-4 is not there"),
        ("takes_memory", {"memory_limit_mb": 1024}, "MemoryError", "the limit is 1024 MB (memory_limit_mb)"),
        (
            "takes_processor",
            {"cpu_seconds": 0.5},
            "ChildProcessError",
            "stopped after 0.5 seconds of processor time (cpu_seconds)",
        ),
        ("dies", {"memory_limit_mb": 2048}, "ChildProcessError", "killed by SIGSEGV (memory_limit_mb=2048)"),
        ("leaves", {}, "ChildProcessError", "ended with exit code 7"),
        ("leaves_another_behind", {}, "ChildProcessError", "ended with exit code 9"),
        ("returns_a_lock", {}, "TypeError", 'use isolation="thread"'),
        ("returns_a_list", {}, "TypeError", "it is a list, not a dict"),
    ],
)
def test_what_ended_a_process_is_said(functions, name, limits, error_type, says):
    """Which error, which limit, which signal."""
    runner = MultiModelBenchmarkRunner(getattr(functions, name), isolation="process", timeout_per_model=20, **limits)

    (result,) = runner.run(["gpt-4"], "d").model_results

    assert says in result.error
    assert (result.error_type, result.timed_out) == (error_type, False)


def test_keyword_arguments_are_sent_to_the_process(functions):
    """One that cannot be sent is named."""
    runner = MultiModelBenchmarkRunner(functions.returns_options, isolation="process", timeout_per_model=20)

    (result,) = runner.run(["gpt-4"], "d", limit=5, tags=["a"]).model_results
    (unsendable,) = runner.run(["gpt-4"], "d", limit=5, lock=threading.Lock()).model_results

    assert result.model_config == {"limit": 5, "tags": ["a"]}
    assert "the keyword argument 'lock' cannot be sent" in unsendable.error
    assert 'use isolation="thread"' in unsendable.error


def test_a_function_that_cannot_travel_names_the_other_isolation():
    """A lambda has no name another process could find it by."""
    (result,) = MultiModelBenchmarkRunner(lambda m, d: {}, isolation="process").run(["gpt-4"], "d").model_results

    assert 'use isolation="thread"' in result.error


def test_a_script_without_a_guard_is_told_so(tmp_path):
    """The new process runs the script again: the error says what to write, and nothing goes round in circles."""
    text = """
from tiebreak import MultiModelBenchmarkRunner
def scores(model, dataset): return {}
print(MultiModelBenchmarkRunner(scores, isolation="process").run(["baseline/random"], "d").model_results[0].error)
"""
    done = script(text, tmp_path)

    assert 'below `if __name__ == "__main__":`' in done.stdout


def test_an_interrupted_run_leaves_no_process(functions, tmp_path):
    """Ctrl-C ends what runs before it goes on to the caller."""
    note = tmp_path / "pids"

    def interrupt(model: str, completed: int, total: int) -> None:
        if model == "claude-3":
            assert soon(note.exists, 10) and soon(lambda: " " in note.read_text())
            raise KeyboardInterrupt

    runner = MultiModelBenchmarkRunner(
        functions.sleeps, ExecutionMode.PARALLEL, progress_callback=interrupt, isolation="process", timeout_per_model=20
    )
    with pytest.raises(KeyboardInterrupt):
        runner.run(["gpt-4", "claude-3"], str(note))

    assert soon(lambda: not any(map(alive, map(int, note.read_text().split()))))


# --- the built-in pipeline


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scripted(folder: Path, name: str, **answers) -> str:
    """A model that says what it is told to."""
    (folder / name).write_text(json.dumps({"answers": [], **answers}))
    return f"scripted/{name}"


@pytest.mark.parametrize("mode", list(ExecutionMode))
def test_the_pipeline_runs_all_models_as_one_run(here, mode):
    """One folder, every model's counts and rows, progress and results told as they finish."""
    progress, heard = [], []
    models = ["baseline/random", "baseline/always-first"]
    runner = MultiModelBenchmarkRunner(None, mode, progress_callback=lambda *w: progress.append(w), on_result=heard.append)

    result = runner.run(models, "warmup")

    assert [r.model_name for r in result.model_results] == models
    assert list((here / "benchmark" / "results").iterdir()) == [result.results_dir]
    for one in result.model_results:
        assert one.success and one.provider_name == "baseline"
        assert one.total_prompts == len(one.evaluations) == one.successful_evaluations + one.failed_evaluations == 50
        assert one.overall_score == one.successful_evaluations / 50
    assert {r.model_name for r in heard} == set(models)
    assert sorted(words[1] for words in progress)[-1] == 2
    json.dumps(result.to_dict(), allow_nan=False)


def test_evaluations_are_the_stores_rows(here):
    """What was asked, said, expected and how it was judged; a failure has an error and no score."""
    answers = [{"when": "France", "text": "Paris"}, {"when": "Italy", "error": "bad_request", "text": "not this one"}]
    model = scripted(here, "some.json", answers=answers, default="I do not know")

    (result,) = MultiModelBenchmarkRunner(None).run([model], "warmup").model_results

    rows = {row["sample_id"]: row for row in result.evaluations}
    keys = ["sample_id", "prompt", "response", "expected", "score", "outcome", "response_time_seconds", "error"]
    assert list(rows["capitals-france"]) == keys
    assert rows["capitals-france"]["response"] == rows["capitals-france"]["expected"] == "Paris"
    assert (rows["capitals-france"]["score"], rows["capitals-france"]["outcome"]) == (1.0, "answered")
    assert (rows["capitals-italy"]["score"], rows["capitals-italy"]["error"]) == (None, "not this one")
    assert result.overall_score == result.successful_evaluations / 49


def test_a_model_nobody_could_reach_is_an_error(here):
    """Trials that all failed are no score of zero; the others have theirs."""
    refused = scripted(here, "refused.json", answers=[{"error": "bad_request"}])
    locked = scripted(here, "locked.json", answers=[{"error": "auth", "text": "the key was rejected"}])

    run = MultiModelBenchmarkRunner(None).run([refused, locked, "scripted/nowhere.json", "baseline/constant"], "warmup")

    first, second, third, fourth = run.model_results
    assert (first.error, first.error_type) == ("20 trials in a row failed, the last with: scripted bad_request", "ProviderError")
    assert (second.error, second.error_type) == ("the key was rejected", "ProviderError")
    assert "cannot be read" in third.error
    assert fourth.success


def test_a_missing_key_or_name_stops_only_its_model(here, monkeypatch):
    """Nothing is asked of them, and the others run."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    keyless, missing, fine = MultiModelBenchmarkRunner(None).run(["gpt-4", "nobody", "baseline/constant"], "warmup").model_results

    assert keyless.error_type == "MissingKey" and "OPENAI_API_KEY" in keyless.error
    assert missing.error_type == "ModelNotFoundError"
    assert fine.success


def test_the_pipeline_keeps_the_timeout(here):
    """A model that takes too long is told so, with what it finished."""
    slow = scripted(here, "slow.json", answers=[{"when": "France", "text": "Paris"}, {"delay_s": 30}])

    began = time.monotonic()
    (result,) = MultiModelBenchmarkRunner(None, timeout_per_model=0.5).run([slow], "warmup").model_results

    assert time.monotonic() - began < 5
    assert (result.timed_out, result.error) == (True, "timed out after 0.5 seconds")


def test_a_model_named_twice_is_asked_once(here):
    """Its result stands under each of its names."""
    first, second = MultiModelBenchmarkRunner(None).run(["baseline/random", "baseline/random"], "warmup").model_results

    assert first == second
    assert len(first.evaluations) == 50
    first.evaluations.clear()
    assert len(second.evaluations) == 50


def test_the_pipeline_as_a_benchmark_function(here):
    """run_benchmark() returns what a runner takes, and a runner records the same result and the same errors."""
    right = scripted(here, "right.json", answers=[{"when": "France", "text": "Paris"}], default="I do not know")
    locked = scripted(here, "locked.json", answers=[{"error": "auth", "text": "the key was rejected"}])

    returned = run_benchmark(right, "warmup")
    result, failed, keyless = MultiModelBenchmarkRunner(run_benchmark).run([right, locked, "gpt-4"], "warmup").model_results

    keys = ("total_prompts", "successful_evaluations", "failed_evaluations", "overall_score", "evaluations", "model_config")
    assert tuple(returned) == keys
    assert (returned["total_prompts"], len(returned["evaluations"]), returned["model_config"]["name"]) == (50, 50, "right.json")
    for key in ("total_prompts", "successful_evaluations", "failed_evaluations", "overall_score", "model_config"):
        assert getattr(result, key) == returned[key]
    assert (failed.error, failed.error_type) == ("the key was rejected", "ProviderError")
    assert keyless.error_type == "MissingKey" and "OPENAI_API_KEY" in keyless.error


@pytest.mark.parametrize(("options", "error"), [({}, tiebreak.BenchmarkError), ({"limt": 3}, TypeError)])
def test_run_benchmark_raises_what_went_wrong(here, options, error):
    """A name nobody has, a keyword argument that does not exist."""
    with pytest.raises(error, match=r"gtp-4|limt"):
        run_benchmark("gtp-4", "warmup", **options)


def test_an_unknown_dataset_is_raised_and_leaves_no_folder(here):
    """It is nobody's result."""
    with pytest.raises(tiebreak.BenchmarkError, match="warmup"):
        MultiModelBenchmarkRunner(None).run(["baseline/random"], "warmpu")

    assert not list(here.iterdir())


async def test_it_can_be_called_where_a_loop_runs(here):
    """As in a notebook."""
    asyncio.get_running_loop()

    result = MultiModelBenchmarkRunner(None).run(["baseline/random"], "warmup")

    assert len(result.successful_models) == 1


def test_it_can_be_called_from_any_thread(here):
    """As in a server."""
    results: list[BenchmarkResult] = []
    thread = threading.Thread(target=lambda: results.append(MultiModelBenchmarkRunner(None).run(["baseline/random"], "warmup")))
    thread.start()
    thread.join(20)

    assert len(results[0].successful_models) == 1


def test_an_interrupted_pipeline_stops_and_can_go_on(here):
    """Ctrl-C passes through, soon, and the run's folder is free for the next."""
    slow = scripted(here, "slow.json", answers=[{"delay_s": 30}])

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        MultiModelBenchmarkRunner(None, progress_callback=interrupt).run([slow], "warmup")

    assert time.monotonic() - began < 5
    assert not [thread for thread in threading.enumerate() if thread.name == "benchmark pipeline"]
