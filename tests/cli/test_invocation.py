"""Lines that can be copied: they start this program again, however it was started."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import ROOT, clean_environment, run

from tiebreak.cli.invocation import invoked_as, with_help
from tiebreak.core.errors import DatasetError, MissingKey, StoreError, UsageError

SCRIPT = str(ROOT / "run_benchmarks.py")


def start(command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = clean_environment(PYTHONPATH=str(ROOT), **environment)
    return subprocess.run(shlex.split(command), cwd=cwd, env=variables, capture_output=True, text=True, timeout=60, check=False)


def installed(folder: Path) -> Path:
    """The command as a wheel installs it."""
    command = folder / "bin" / "tiebreak"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom tiebreak.cli import main\nsys.exit(main())\n")
    command.chmod(0o755)
    return command


@pytest.mark.parametrize("way", ["script", "module", "command on the path", "command elsewhere"])
def test_every_error_ends_with_a_command_that_works(way: str, tmp_path: Path) -> None:
    """Also outside the repository, where a bare `python` is another one and the script is not in the folder."""
    command = installed(tmp_path)
    path = f"{command.parent}:{os.environ['PATH']}" if way == "command on the path" else "/usr/bin:/bin"
    ways = {"script": f"{sys.executable} {SCRIPT}", "module": f"{sys.executable} -m tiebreak", "command elsewhere": str(command)}
    work = tmp_path / "work"
    work.mkdir()
    failed = start(f"{ways.get(way, 'tiebreak')} report nobody", work, PATH=path)
    helps = re.search(r"see: (.*)$", failed.stderr)

    assert failed.returncode == 1
    assert helps is not None, failed.stderr
    assert helps[1].endswith(" list runs")
    assert way != "command on the path" or helps[1].startswith("tiebreak ")
    again = start(helps[1], work, PATH=path)
    assert (again.returncode, again.stdout) == (0, "Run  Label  Dataset  Done  Contestants\nNo runs yet.\n")


def test_the_line_to_go_on_with_works_as_it_is_printed(tmp_path: Path) -> None:
    """With a space in the folder's name, outside the repository."""
    (tmp_path / "d.jsonl").write_text('{"id": "a", "input": "Hi", "target": "x"}\n')
    asked = "--model baseline/random --dataset d.jsonl --max-time 0.000001 --output 'my results'"
    done = start(f"{sys.executable} {SCRIPT} {asked}", tmp_path)
    line = re.search(r"Go on with: (.*)", done.stdout)

    assert line is not None, done.stdout + done.stderr
    again = start(f"{line[1]} --max-time 60", tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Go on with" not in again.stdout


def test_under_uv_the_line_names_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run_benchmarks.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1")
    monkeypatch.setattr(sys, "argv", ["run_benchmarks.py"])
    assert invoked_as() == "uv run run_benchmarks.py"
    monkeypatch.delenv("UV_RUN_RECURSION_DEPTH")
    assert re.search(r"python[\d.]* run_benchmarks.py$", invoked_as())


@pytest.mark.parametrize(
    ("error", "helps"),
    [
        (MissingKey("no key"), "doctor"),
        (DatasetError("none"), "list datasets"),
        (StoreError("none"), "list runs"),
        (UsageError("wrong"), "run --help"),
    ],
)
def test_help_fits_the_error(error: UsageError, helps: str) -> None:
    assert with_help(error, "run") == f"{error}\nsee: {invoked_as()} {helps}"


def test_an_error_that_names_a_command_names_it_as_it_is_typed() -> None:
    said = with_help(UsageError("make one with: tiebreak export RUN --to baseline"), "run")
    assert said == f"make one with: {invoked_as()} export RUN --to baseline"


def test_help_of_the_script_names_the_other_commands(tmp_path: Path) -> None:
    shown = run("--help", cwd=tmp_path).stdout
    assert re.search(r"Other commands \(.*COMMAND --help\):\n  batch +Have many models", shown)
    for command in ("demo", "list", "report", "doctor"):
        assert re.search(rf"^  {command} ", shown, re.MULTILINE)
    assert "Other commands" not in run("run", "--help", cwd=tmp_path).stdout


def test_list_models_lists_models(tmp_path: Path) -> None:
    done = run("--list-models", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == run("list", "models", cwd=tmp_path).stdout
    assert re.search(r"^gpt-4 +openai +set OPENAI_API_KEY$", done.stdout, re.MULTILINE)


def test_a_model_alone_is_asked_the_truthfulness_dataset(tmp_path: Path) -> None:
    done = run("--model", "baseline/random", "--limit", "5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "No dataset was named: truthfulness is asked." in done.stdout
    assert re.search(r"Dataset +truthfulness, 5 trials", done.stdout)


def test_without_a_model_one_that_can_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "models_config.yaml").write_text("models:\n  - {name: gpt-4o-mini, provider: openai}\n")
    done = run("--dataset", "warmup", cwd=tmp_path, OPENAI_API_KEY="k")
    assert done.returncode == 1
    assert "no model was named: add --model gpt-4o-mini, which can run here, or another" in done.stderr
    assert done.stderr.rstrip().endswith("list models")
    assert "start Ollama" not in done.stderr


def test_a_wrong_flag_ends_with_the_help_of_its_command(tmp_path: Path) -> None:
    done = run("batch", "--nope", cwd=tmp_path)
    helps = re.search(r"see: (.*)$", done.stderr)
    assert helps is not None
    assert helps[1] == f"{sys.executable} {SCRIPT} batch --help"
    assert start(helps[1], tmp_path).stdout.startswith("Usage: run_benchmarks.py batch [OPTIONS]")


def test_examples_in_help_are_spelled_as_they_are_typed(tmp_path: Path) -> None:
    (tmp_path / "run_benchmarks.py").write_text(Path(SCRIPT).read_text())
    shown = start(f"{sys.executable} run_benchmarks.py run --help", tmp_path, UV_RUN_RECURSION_DEPTH="1").stdout
    assert "    uv run run_benchmarks.py run --model gemini-1.5-flash --dataset truthfulness\n" in shown
    assert "see uv run run_benchmarks.py list agents" in " ".join(shown.split())
