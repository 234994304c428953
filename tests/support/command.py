"""Running the program as a user does: a process of its own, in a folder of its own."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "COVERAGE_PROCESS_CONFIG")
NOWHERE = "http://127.0.0.1:9"
LOCAL_SERVERS = ("OLLAMA_HOST", "VLLM_BASE_URL", "LMSTUDIO_BASE_URL", "LLAMACPP_SERVER_BASE_URL")
"""Variables of the servers that are looked for on this machine."""


def clean_environment(**more: str) -> dict[str, str]:
    """An environment without keys, addresses or settings of this machine; nobody's model server is reached."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, **dict.fromkeys(LOCAL_SERVERS, NOWHERE), "COLUMNS": "120", **more}


def start(*arguments: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    """Start the program and leave it running."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "run_benchmarks.py"), *arguments],
        cwd=cwd,
        env=clean_environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(*arguments: str, cwd: Path, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    process = start(*arguments, cwd=cwd, **environment)
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def events(output: str) -> list[dict[str, Any]]:
    """The JSON lines a run printed."""
    return [json.loads(line) for line in output.splitlines()]


def only_run(cwd: Path) -> Path:
    """The folder of the one run that was made."""
    folders = list((cwd / "benchmark" / "results").iterdir())
    assert len(folders) == 1, folders
    return folders[0]


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
