"""Completion in shells: the script that is printed, and what it gets when it asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import ROOT, clean_environment, run


def asked_by_bash(*words: str, cwd: Path) -> list[str]:
    """What the printed script would be told for a line that ends in the last word."""
    variables = {"_TIEBREAK_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    environment = clean_environment(PYTHONPATH=str(ROOT), **variables)
    command = [sys.executable, "-m", "tiebreak"]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_commands_and_flags_are_completed(tmp_path: Path) -> None:
    assert asked_by_bash("tiebreak", "ex", cwd=tmp_path) == ["export"]
    assert asked_by_bash("tiebreak", "run", "--max-c", cwd=tmp_path) == ["--max-connections", "--max-cost"]
    assert asked_by_bash("tiebreak", "completion", "", cwd=tmp_path) == ["bash", "zsh", "fish"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_calls_the_program(shell: str, tmp_path: Path) -> None:
    done = run("completion", shell, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"_TIEBREAK_COMPLETE={shell}_complete" in done.stdout


def test_bash_completes_with_the_printed_script(tmp_path: Path) -> None:
    """The whole way: bash reads the script, calls a program of our name, and has the word."""
    program = tmp_path / "tiebreak"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tiebreak "$@"\n')
    program.chmod(0o755)
    (tmp_path / "script").write_text(run("completion", "bash", cwd=tmp_path).stdout)
    line = ". ./script; COMP_WORDS=(tiebreak doc); COMP_CWORD=1; _tiebreak_completion tiebreak doc tiebreak; echo ${COMPREPLY[@]}"
    environment = clean_environment() | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    command = [shutil.which("bash") or "/bin/bash", "-c", line]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "doctor"
