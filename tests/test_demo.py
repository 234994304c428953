"""The first thing a user sees, with the real embedded model; and what a person sees on a terminal."""

from __future__ import annotations

import json
import math
import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.command import ROOT, clean_environment, only_run, run
from support.server import FakeServer


@pytest.mark.needs("embedded")
def test_demo_compares_two_ways_of_asking_and_reaches_a_verdict(tmp_path: Path) -> None:
    """Fifty questions twice to a real model, a table, a verdict, the place of the reports, and what to do next."""
    done = run("demo", cwd=tmp_path, timeout=300)

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((only_run(tmp_path) / "comparison_report.json").read_text())
    short, pirate = (f"llama_cpp/smollm2-135m · {prompt}" for prompt in ("short", "pirate"))
    (pair,) = report["comparisons"]
    assert (pair["first"], pair["second"], pair["samples"]) == (short, pirate, 50)
    verdict = report["claims"][0]
    assert verdict["kind"] == ("leads" if pair["p_corrected"] < 0.05 else "tie")
    assert verdict["sentence"] in " ".join(done.stdout.split())
    above = next(claim for claim in report["claims"] if claim["kind"] == "above_reference")
    assert above["facts"]["low"] > above["facts"]["reference_score"]
    assert "A toy model proves the tool, not a choice" in done.stdout
    assert "comparison_report.json" in done.stdout


@pytest.mark.needs("embedded")
def test_embedded_model_leaves_nothing_behind_and_gets_no_key(tmp_path: Path) -> None:
    """Even when its parent is killed, the model's process ends; a key of ours is not in its environment."""
    line = "--model llama_cpp/smollm2-135m --dataset warmup"
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "run_benchmarks.py"), *line.split()],
        cwd=tmp_path,
        env=clean_environment(OPENAI_API_KEY="canary-for-the-child"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    child = _wait_for_child(process.pid)
    environment = Path(f"/proc/{child}/environ").read_bytes()
    process.kill()
    process.wait()
    deadline = time.monotonic() + 15
    while _is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert b"canary-for-the-child" not in environment
    assert not _is_running(child)


def _is_running(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be forgotten."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def _wait_for_child(parent: int) -> int:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
                if int(fields[1]) == parent and b"llama_cpp_server" in (path.parent / "cmdline").read_bytes():
                    return int(path.parent.name)
            except (OSError, IndexError):
                continue
        time.sleep(0.05)
    raise AssertionError("the model's process never started")


def test_baselines_score_as_chance_does(tmp_path: Path) -> None:
    """On `truthfulness`, guessing and always taking the first choice are within three standard errors of a quarter."""
    line = "--models baseline/random,baseline/always-first,baseline/constant --dataset truthfulness --repeats 4"
    assert run(*line.split(), cwd=tmp_path).returncode == 0
    for model in json.loads((only_run(tmp_path) / "comparison_report.json").read_text())["contestants"]:
        error = math.sqrt(0.25 * 0.75 / (model["planned"] / 4))
        assert abs(model["score"] - 0.25) <= 3 * error, model["model"]


@pytest.mark.parametrize("columns", [80, 120])
def test_terminal_shows_live_progress_that_fits(columns: int, tmp_path: Path) -> None:
    """On a terminal the bars move, and no line is longer than the screen."""

    with FakeServer(latency_s=0.05) as server:
        shown = _on_terminal(
            "--models gpt-4,claude-3-opus,ollama/qwen2.5-coder:7b --dataset warmup --parallel",
            columns,
            tmp_path,
            server.environment(),
        )
    assert "━" in shown
    assert "50/50" in shown
    assert "[1/3] Processing" not in shown
    final = shown.rpartition("Model")[2]
    assert "gpt-4" in final


def _on_terminal(line: str, columns: int, cwd: Path, environment: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    variables = clean_environment(**environment, TERM="xterm-256color") | {"COLUMNS": str(columns)}
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "run_benchmarks.py"), *line.split()], cwd=cwd, env=variables, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    pieces = []
    try:
        while piece := os.read(ours, 65536):
            pieces.append(piece)
    except OSError:
        pass  # the other side of the terminal was closed
    os.close(ours)
    assert process.wait(30) == 0
    return b"".join(pieces).decode()


@pytest.mark.needs("uv")
def test_uv_runs_it_with_nothing_before(tmp_path: Path) -> None:
    """In a fresh copy, `uv run run_benchmarks.py` just works, the embedded model included."""
    copy = tmp_path / "copy"
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    for name in tracked:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("VIRTUAL_ENV", "PYTHONPATH", "COV_"))}
    line = "uv run --quiet run_benchmarks.py --model llama_cpp/smollm2-135m --dataset warmup --limit 2 --json"
    done = subprocess.run(line.split(), cwd=copy, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert '"event":"run_finished"' in done.stdout
