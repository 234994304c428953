"""The three documents the product answers to: what they print, and running it as it is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.command import ROOT, clean_environment

SEEDS = Path(os.environ.get("TEST_SEEDS") or ROOT.parent / "shared" / "seeds")
"""Where the documents are."""

RUN_LINES = (
    "python run_benchmarks.py --model gemini-1.5-flash --dataset truthfulness",
    "python run_benchmarks.py --models gemini-1.5-flash,gpt-4,claude-3-opus-20240229 --dataset truthfulness",
    "python run_benchmarks.py --all-models --dataset truthfulness",
    "python run_benchmarks.py --models gpt-4,claude-3-opus-20240229 --dataset truthfulness --parallel",
    "python run_benchmarks.py --provider google --dataset truthfulness",
    "python run_benchmarks.py --model gpt-4 --dataset truthfulness --use-engine",
    "python run_benchmarks.py --models gpt-4,claude-3,gemini-1.5 --dataset truthfulness --use-engine",
    "python run_benchmarks.py --models gpt-4,claude-3,gemini-1.5 --dataset truthfulness --use-engine --parallel",
    "python run_benchmarks.py --all-models --dataset truthfulness --use-engine --timeout 60",
)
"""Run by test_run_benchmarks_cli.py."""
BATCH_LINES = (
    "uv run benchmark/batch_runner.py --task benchmark/tasks/easy/fix_typo.md",
    'uv run benchmark/batch_runner.py --task benchmark/tasks/easy/fix_typo.md --models "llama3,mistral,codellama"',
    "uv run benchmark/batch_runner.py --task benchmark/tasks/medium/add_validation.md --timeout 3600",
    'uv run benchmark/batch_runner.py --task benchmark/tasks/smoke/add_comment.md --models "mistral,llama3" --timeout 60',
    "uv run benchmark/batch_runner.py --task benchmark/tasks/medium/add_validation.md",
    "uv run benchmark/batch_runner.py --task benchmark/tasks/hard/refactor_metrics.md"
    ' --models "gpt-4,claude-3-opus,ollama/mixtral" --timeout 7200 --output ./my_results',
)
"""Run by test_batch_runner.py."""
RESUME_LINE = "uv run benchmark/batch_runner.py --task benchmark/tasks/hard/refactor_metrics.md --resume batch_20241213_143022"
"""Run by test_seeds.py."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    document: str
    heading: str
    """The heading above it."""
    language: str
    text: str


def documents() -> dict[str, str]:
    """The text of every document, by file name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(SEEDS.glob("*.txt"))}


def blocks(language: str | None = None) -> list[Block]:
    """Every fenced block, or those of one language."""
    found = [block for name, text in documents().items() for block in _blocks(name, text)]
    return [block for block in found if language in (None, block.language)]


def _blocks(document: str, text: str) -> Iterator[Block]:
    heading = ""
    for match in re.finditer(
        r"^#+ (?P<heading>[^\n]+)$|^```(?P<language>\w*)\n(?P<text>.*?)^```$", text, re.MULTILINE | re.DOTALL
    ):
        if match["heading"]:
            heading = match["heading"]
        else:
            yield Block(document, heading, match["language"], match["text"])


def commands(block: Block) -> list[str]:
    """The commands of a bash block, each on one line."""
    lines = re.sub(r"\s*\\\n\s*", " ", block.text).splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def make_checkout(folder: Path) -> Path:
    """Make the folder look like a checkout: the front doors, the tasks, the configuration, and no results."""
    (folder / "benchmark").mkdir()
    for name in ("run_benchmarks.py", "benchmark/batch_runner.py", "benchmark/tasks", "benchmark/models_config.yaml"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "bin").mkdir()
    _write_command(folder / "bin" / "python", f'exec "{sys.executable}" "$@"')
    # `uv run FILE` without the environment uv would make first.
    _write_command(folder / "bin" / "uv", f'[ "$1" = run ] && shift && exec "{sys.executable}" "$@"')
    return folder


def _write_command(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def start_as_printed(line: str, checkout: Path, **environment: str) -> subprocess.Popen[str]:
    """Have a shell start a command line of a document, in a checkout."""
    path = f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        ["/bin/sh", "-c", f"exec {line}"],
        cwd=checkout,
        env=clean_environment(**environment, PATH=path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_as_printed(line: str, checkout: Path, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
    """Have a shell run a command line of a document to its end, in a checkout."""
    with start_as_printed(line, checkout, **environment) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(line, process.returncode, out, err)
