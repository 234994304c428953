"""Everything the three original documents show, done as they show it.

The command lines themselves are run by test_run_benchmarks_cli.py and test_batch_runner.py, from the list in support/seeds.py.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import pytest
from support.command import ROOT, clean_environment
from support.seeds import (
    BATCH_LINES,
    RESUME_LINE,
    RUN_LINES,
    Block,
    blocks,
    commands,
    documents,
    make_checkout,
    run_as_printed,
    start_as_printed,
)
from support.server import FakeServer

import benchmark
from run_benchmarks import run_benchmark
from tiebreak.cli.main import tiebreak
from tiebreak.config import load_config

pytestmark = pytest.mark.needs("seeds")

INSTALL_LINE = "uv pip install rich"
BLOCKS = {
    "Example Usage": ["bash"],
    "Sequential Mode": ["python"],
    "Parallel Mode": ["python"],
    "Result Structure": ["python"],
    "Basic Usage": ["bash"],
    "Programmatic Usage": ["python"],
    "Installation": ["bash"],
    "Run on all available models": ["bash"],
    "Run on specific models": ["bash"],
    "Run with custom timeout": ["bash"],
    "Resume an interrupted batch": ["bash"],
    "Models Configuration": ["yaml"],
    "Example Output Structure": [""],
    "Command-Line Options": [""],
    "Quick Test": ["bash"],
    "Full Benchmark": ["bash"],
    "Production Run": ["bash"],
}
"""The languages of the blocks under each heading."""
MODELS = ["gpt-4", "claude-3", "gemini-1.5"]


def document(title: str) -> str:
    """The text of the one document with this title."""
    (text,) = [text for text in documents().values() if title in text]
    return text


def block(heading: str) -> Block:
    """The one block below a heading; its number and anything in parentheses may be left out."""
    (found,) = [block for block in blocks() if _short(block.heading) == heading]
    return found


def _short(heading: str) -> str:
    return re.sub(r"^[\d.]+ | \(.*\)$", "", heading)


def execute(text: str) -> list[Any]:
    """Run Python as it stands behind the imports it presupposes; the values of its expressions, and of `runner`."""
    names: dict[str, Any] = {"datetime": datetime, "run_benchmark": run_benchmark}
    names |= {name: getattr(benchmark, name) for name in benchmark.__all__}
    values = []
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Expr):
            values.append(eval(compile(ast.Expression(statement.value), "seed", "eval"), names))
        else:
            exec(compile(ast.Module([statement], []), "seed", "exec"), names)
    return [*values, names.get("runner")]


# --- nothing in the documents is left out


def test_every_block_is_known() -> None:
    """A new block, or one of another language, needs a test."""
    found: dict[str, list[str]] = {}
    for each in blocks():
        found.setdefault(_short(each.heading), []).append(each.language)
    assert found == BLOCKS
    assert sum(text.count("```") for text in documents().values()) == 2 * len(blocks())


def test_every_command_line_is_run_by_a_test() -> None:
    """And every line we claim to run is in the documents."""
    printed = {line for each in blocks("bash") for line in commands(each)}
    assert printed == {*RUN_LINES, *BATCH_LINES, RESUME_LINE, INSTALL_LINE}


def test_what_is_to_be_installed_comes_with_us() -> None:
    """`uv pip install rich` has nothing left to do."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    installed = {re.split(r"\W", requirement)[0] for requirement in needed}
    assert commands(block("Installation")) == [INSTALL_LINE]
    assert set(shlex.split(INSTALL_LINE)[3:]) <= installed


def test_every_flag_in_the_text_exists() -> None:
    options = {name for command in ("run", "batch") for param in tiebreak.commands[command].params for name in param.opts}
    used = {flag for text in documents().values() for flag in re.findall(r"`(--[a-z-]+)`", text)}
    assert used and used <= options


def test_every_class_in_the_text_can_be_imported() -> None:
    engine = document("Multi-Model Benchmark Execution Engine")
    classes = re.findall(r"\*\*(\w+)\*\*: ", engine.partition("#### 2.")[0])
    errors = re.findall(r"`(\w+Error)`", engine)
    assert len(classes) == 5 and len(errors) == 2
    assert all(isinstance(getattr(benchmark, name), type) for name in (*classes, *errors))


def test_every_file_in_the_text_exists() -> None:
    """The modules, test files and tasks the documents name."""
    named = {name for text in documents().values() for name in re.findall(r"(?<![\w/])((?:benchmark|tests)/[\w/]+\.\w+)", text)}
    assert "tests/test_multi_runner.py" in named
    assert [name for name in sorted(named) if "/results/" not in name and not (ROOT / name).is_file()] == []


# --- Python


@pytest.mark.parametrize(("heading", "mode"), [("Sequential Mode", "sequential"), ("Parallel Mode", "parallel")])
def test_a_runner_made_as_printed_runs_run_benchmark(
    heading: str, mode: str, tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipeline asks every model every question, and each model's run is stored."""
    monkeypatch.chdir(tmp_path)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    (runner,) = execute(block(heading).text)

    result = runner.run(MODELS, "warmup")

    assert [(r.model_name, r.error, r.total_prompts) for r in result.model_results] == [(m, None, 50) for m in MODELS]
    assert result.execution_mode == mode
    assert len(server.ledger) == 150
    assert len(list((tmp_path / "benchmark" / "results").iterdir())) == 3


def test_the_records_can_be_made_as_printed() -> None:
    """Placeholders included; what they say becomes JSON."""
    model, run, _ = execute(block("Result Structure").text)

    assert (model.success, model.overall_score, model.average_response_time) == (True, 0.85, 0.0)
    assert json.loads(json.dumps(model.to_dict(), allow_nan=False))["evaluations"] == ["Ellipsis"]
    assert (run.models, str(run.execution_mode), run.total_duration_seconds) == (MODELS, "parallel", 120.5)


def test_a_printed_run_with_placeholders_has_a_summary() -> None:
    """`model_results=[...]` stands for results; with a real one in its place the whole run becomes JSON."""
    model, run, _ = execute(block("Result Structure").text)

    run.model_results[:] = [model]

    assert run.summary_stats["best_model"] == "gpt-4"
    assert run.summary_stats["total_models"] == 3
    assert json.loads(json.dumps(run.to_dict(), allow_nan=False))["model_results"][0]["model"] == "gpt-4"


def test_the_program_runs_as_printed() -> None:
    """In a checkout, with nothing around it."""
    text = block("Programmatic Usage").text
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, env=clean_environment(), capture_output=True, text=True, timeout=30, check=False
    )

    assert done.stderr == ""
    assert {f"[0/3] {model}" for model in MODELS} <= set(done.stdout.splitlines())
    assert "[3/3] " in done.stdout
    assert done.stdout.endswith("Successful: 3\nFailed: 0\nBest model: gpt-4\n")


# --- configuration and options


def test_the_configuration_loads_as_printed(tmp_path: Path) -> None:
    path = tmp_path / "models_config.yaml"
    path.write_text(block("Models Configuration").text)
    config = load_config(path)
    model = config.models["gpt-4"]

    assert config.warnings == ()
    assert (model.provider, model.name, model.display_name, model.key_variable) == ("openai", "gpt-4", "GPT-4", "OPENAI_API_KEY")
    assert dict(model.settings) == {"temperature": 0.7, "max_tokens": 2048}


def test_every_category_of_the_document_ships() -> None:
    section = document("# Batch Benchmark Runner").partition("### Model Categories")[2].partition("##")[0]
    names = re.findall(r"- \*\*(\w+)\*\*", section)
    shipped = load_config(ROOT / "benchmark" / "models_config.yaml").categories
    assert len(names) == 4
    assert all(shipped[name] for name in names)


def test_the_option_list_is_that_of_batch() -> None:
    """Each option exists, takes a value where the document shows one, and has the default it names."""
    options = {name: param for param in tiebreak.commands["batch"].params for name in param.opts}
    context = click.Context(tiebreak.commands["batch"], terminal_width=200)
    for line in block("Command-Line Options").text.splitlines():
        name, value, text = re.fullmatch(r"(--\w+) (\w*) +(.+)", line).groups()  # type: ignore[union-attr]
        option = options[name]
        assert isinstance(option, click.Option) and option.is_flag == (not value), name
        shown = option.get_help_record(context)
        assert shown is not None and shown[0].startswith(name)
        default = re.search(r"default: (\d+)", text)
        assert default is None or default[1] in shown[1], name


def test_task_is_required_and_models_are_all_by_default(tmp_path: Path, server: FakeServer) -> None:
    """The two remarks of the option list that are about behaviour."""
    checkout, line = make_checkout(tmp_path), BATCH_LINES[0]
    refused = run_as_printed(line.partition(" --task")[0], checkout, **server.environment())
    default = run_as_printed(f"{line} --dry-run", checkout, **server.environment())
    named = run_as_printed(f"{line} --dry-run --models all", checkout, **server.environment())

    assert refused.returncode == 1 and "--task" in refused.stderr
    assert default.returncode == 0, default.stdout + default.stderr
    assert default.stdout == named.stdout and "llama3" in default.stdout


# --- a batch is interrupted and resumed


@pytest.mark.needs("bubblewrap")
def test_an_interrupted_batch_is_resumed_as_printed_and_has_the_printed_files(tmp_path: Path) -> None:
    """The batch of the document, with its id, its models and its task."""
    folder, *tree = block("Example Output Structure").text.splitlines()
    names = {re.search(r"[\w.-]+\.(?:json|html|csv)", line)[0] for line in tree}  # type: ignore[index]
    checkout = make_checkout(tmp_path)
    first = RESUME_LINE.replace("--resume batch_20241213_143022", f"--models llama2,mistral,gpt-4 --output {folder}")
    with FakeServer(lambda prompt: "FINISH", ollama_models=("llama2:latest", "mistral:latest")) as server:
        _interrupt(first, checkout, server)
        assert not names <= {path.name for path in (checkout / folder).iterdir()}

        done = run_as_printed(RESUME_LINE, checkout, **server.environment())

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(names) == 6 and names <= {path.name for path in (checkout / folder).iterdir()}
    report = json.loads((checkout / folder / "comparison_report.json").read_text())
    assert (report["batch_id"], report["models_tested"], report["task"]) == (RESUME_LINE.split()[-1], 3, "refactor_metrics")


def _interrupt(line: str, checkout: Path, server: FakeServer) -> None:
    """Press Ctrl-C twice while the first model works."""
    server.latency_s = 30
    with start_as_printed(line, checkout, **server.environment()) as process:
        deadline = time.monotonic() + 20
        while not server.ledger and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130, out + err
    server.latency_s = 0.0
