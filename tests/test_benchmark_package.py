"""`benchmark` in a checkout, used as the tests of the original documents used it: sixteen of them, with mocks and patches."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta
from unittest.mock import Mock, patch

import pytest
from support.command import ROOT, clean_environment

from benchmark import (
    BenchmarkResult,
    ExecutionMode,
    ModelBenchmarkResult,
    MultiModelBenchmarkRunner,
    ProgressTracker,
    ProviderError,
    RateLimitError,
    get_provider_for_model,
)

NAMES = (
    *("MultiModelBenchmarkRunner", "ExecutionMode", "ModelBenchmarkResult", "BenchmarkResult", "ProgressTracker"),
    *("get_provider_for_model", "ProviderError", "RateLimitError"),
)
START = datetime(2024, 12, 13, 14, 30, 22)


@pytest.fixture
def mock_get_provider():
    """Every model exists and is served by a mock."""
    with patch("benchmark.multi_runner.get_provider_for_model") as mock:
        mock.return_value = Mock(__name__="MockProvider")
        yield mock


@pytest.fixture
def benchmark_function() -> Mock:
    """A function that always gets the same result."""
    return Mock(
        return_value={
            "total_prompts": 10,
            "successful_evaluations": 8,
            "failed_evaluations": 2,
            "overall_score": 0.8,
            "evaluations": [{"response_time_seconds": 1.5}],
            "model_config": {"temperature": 0.7},
        }
    )


def model_result(name: str, score: float = 0.0) -> ModelBenchmarkResult:
    return ModelBenchmarkResult(model_name=name, provider_name="mock", dataset_name="test", start_time=START, overall_score=score)


def benchmark_result(models: list[str]) -> BenchmarkResult:
    return BenchmarkResult(dataset_name="test", models=models, execution_mode=ExecutionMode.SEQUENTIAL, start_time=START)


class TestModelBenchmarkResult:
    """Results of one model."""

    def test_success_property(self):
        result = model_result("gpt-4")
        assert result.success

        result.error = "Something went wrong"
        assert not result.success

        result.error = None
        result.timed_out = True
        assert not result.success

    def test_average_response_time(self):
        result = model_result("gpt-4")
        assert result.average_response_time == 0.0

        result.evaluations = [{"response_time_seconds": 1.0}, {"response_time_seconds": 2.0}, {"other": 1}]
        assert result.average_response_time == 1.5

    def test_to_dict(self):
        result = model_result("gpt-4", 0.85)
        result.end_time = START + timedelta(seconds=45)
        result.duration_seconds = 45.0
        result.total_prompts = 100
        result.error_time = result.end_time

        data = result.to_dict()

        assert (data["model"], data["provider"], data["dataset"]) == ("gpt-4", "mock", "test")
        assert (data["start_time"], data["end_time"]) == ("2024-12-13T14:30:22", "2024-12-13T14:31:07")
        assert (data["total_duration_seconds"], data["total_prompts"], data["overall_score"]) == (45.0, 100, 0.85)
        assert data["error_time"] == data["end_time"]


class TestBenchmarkResult:
    """Results of several models."""

    def test_successful_and_failed_models(self):
        result = benchmark_result(["a", "b"])
        result.model_results.append(model_result("a"))
        failed = model_result("b")
        failed.error = "Failed"
        result.model_results.append(failed)

        assert [r.model_name for r in result.successful_models] == ["a"]
        assert [r.model_name for r in result.failed_models] == ["b"]

    def test_summary_stats(self):
        result = benchmark_result(["a", "b", "c"])
        result.model_results.extend([model_result("a", 0.8), model_result("b", 0.6)])

        stats = result.summary_stats

        assert (stats["total_models"], stats["successful_models"], stats["failed_models"]) == (3, 2, 0)
        assert stats["average_score"] == pytest.approx(0.7)
        assert (stats["best_model"], stats["best_score"]) == ("a", 0.8)
        assert (stats["worst_model"], stats["worst_score"]) == ("b", 0.6)

    def test_summary_stats_without_a_success(self):
        stats = benchmark_result(["a"]).summary_stats

        assert (stats["total_models"], stats["best_model"], stats["average_score"]) == (1, None, 0.0)


class TestProgressTracker:
    """Progress over several models."""

    def test_progress(self):
        callback = Mock()
        tracker = ProgressTracker(total_models=2, callback=callback)
        assert (tracker.completed_models, tracker.progress_percentage) == (0, 0.0)

        tracker.start_model("gpt-4")
        callback.assert_called_with("gpt-4", 0, 2)

        tracker.complete_model("gpt-4")
        callback.assert_called_with("gpt-4", 1, 2)
        assert (tracker.completed_models, tracker.progress_percentage) == (1, 50.0)

    def test_thread_safety(self):
        tracker = ProgressTracker(total_models=100)

        def complete_ten() -> None:
            for i in range(10):
                tracker.start_model(f"model-{i}")
                tracker.complete_model(f"model-{i}")

        threads = [threading.Thread(target=complete_ten) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert (tracker.completed_models, tracker.progress_percentage) == (100, 100.0)


class TestMultiModelBenchmarkRunner:
    """The execution engine."""

    def test_sequential_execution(self, mock_get_provider, benchmark_function):
        runner = MultiModelBenchmarkRunner(benchmark_function=benchmark_function, execution_mode=ExecutionMode.SEQUENTIAL)
        result = runner.run(models=["model-1", "model-2"], dataset_name="test")

        assert [r.model_name for r in result.model_results] == ["model-1", "model-2"]
        assert result.execution_mode == ExecutionMode.SEQUENTIAL
        assert all(r.success and r.overall_score == 0.8 for r in result.model_results)
        assert [call.args for call in benchmark_function.call_args_list] == [("model-1", "test"), ("model-2", "test")]
        assert [call.args for call in mock_get_provider.call_args_list] == [("model-1",), ("model-2",)]

    def test_parallel_execution(self, mock_get_provider):
        def slow(model_name: str, dataset_name: str) -> dict:
            time.sleep(0.5)
            return {"overall_score": 0.5}

        runner = MultiModelBenchmarkRunner(benchmark_function=slow, execution_mode=ExecutionMode.PARALLEL, max_workers=4)
        start = time.time()
        result = runner.run(models=["a", "b", "c", "d"], dataset_name="test")

        assert len(result.successful_models) == 4
        assert time.time() - start < 1.6

    def test_error_isolation(self, mock_get_provider):
        def fails_for_one(model_name: str, dataset_name: str) -> dict:
            if model_name == "bad":
                raise ValueError("Test error")
            return {"overall_score": 1.0}

        result = MultiModelBenchmarkRunner(benchmark_function=fails_for_one).run(["good", "bad", "fine"], "test")

        assert [r.model_name for r in result.successful_models] == ["good", "fine"]
        (failed,) = result.failed_models
        assert (failed.error, failed.error_type, failed.timed_out) == ("Test error", "ValueError", False)

    def test_timeout(self, mock_get_provider):
        runner = MultiModelBenchmarkRunner(benchmark_function=lambda m, d: time.sleep(5), timeout_per_model=0.2)

        (result,) = runner.run(["slow"], "test").model_results

        assert result.timed_out
        assert "timed out after 0.2 seconds" in result.error

    def test_invalid_model(self, mock_get_provider, benchmark_function):
        mock_get_provider.side_effect = ValueError("Model not found: nobody")

        (result,) = MultiModelBenchmarkRunner(benchmark_function=benchmark_function).run(["nobody"], "test").model_results

        assert (result.error_type, result.error) == ("ModelNotFoundError", "Model not found: nobody")
        benchmark_function.assert_not_called()

    @pytest.mark.parametrize("error", [ProviderError("API error"), RateLimitError("Rate limit exceeded", retry_after=60)])
    def test_provider_errors(self, mock_get_provider, benchmark_function, error):
        benchmark_function.side_effect = error

        (result,) = MultiModelBenchmarkRunner(benchmark_function=benchmark_function).run(["gpt-4"], "test").model_results

        assert (result.error, result.error_type) == (str(error), type(error).__name__)

    def test_empty_model_list(self, mock_get_provider, benchmark_function):
        result = MultiModelBenchmarkRunner(benchmark_function=benchmark_function).run([], "test")

        assert (result.model_results, result.summary_stats["total_models"]) == ([], 0)
        benchmark_function.assert_not_called()

    def test_progress_callback(self, mock_get_provider, benchmark_function):
        callback = Mock()
        runner = MultiModelBenchmarkRunner(benchmark_function=benchmark_function, progress_callback=callback)

        runner.run(["a", "b"], "test", limit=3)

        assert [call.args for call in callback.call_args_list] == [("a", 0, 2), ("a", 1, 2), ("b", 1, 2), ("b", 2, 2)]
        benchmark_function.assert_called_with("b", "test", limit=3)


# --- what makes these work


@pytest.mark.parametrize("module", ["benchmark", "benchmark.multi_runner", "tiebreak", "tiebreak.multi_runner"])
def test_the_names_are_the_same_everywhere(module):
    """One class each, whatever it is imported from."""
    for name in NAMES:
        assert getattr(importlib.import_module(module), name) is getattr(importlib.import_module("tiebreak"), name)


@pytest.mark.parametrize("module", ["benchmark.multi_runner", "tiebreak.multi_runner"])
@pytest.mark.parametrize("function", [lambda model_name, dataset_name: {}, None])
def test_a_patched_provider_lookup_has_its_effect(module, function, tmp_path, monkeypatch):
    """Under either name of the module, for a function and for the built-in pipeline."""
    monkeypatch.chdir(tmp_path)
    with patch(f"{module}.get_provider_for_model", side_effect=LookupError("patched")) as mock:
        (result,) = MultiModelBenchmarkRunner(function).run(["gpt-4"], "warmup").model_results

    assert result.error == "patched"
    mock.assert_called_once_with("gpt-4")
    assert get_provider_for_model("gpt-4").name == "openai"


@pytest.mark.parametrize("line", ["from benchmark import *", *(f"from benchmark.multi_runner import {name}" for name in NAMES)])
def test_a_fresh_interpreter_in_a_checkout_finds_the_names(line):
    """Whichever is imported first."""
    code = f"{line}\nimport benchmark.multi_runner, tiebreak.multi_runner\nassert benchmark.multi_runner is tiebreak.multi_runner"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=clean_environment(), check=True, timeout=30)
