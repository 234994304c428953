"""Standard streams that are closed, full or left, and interrupts at any moment: no traceback, nothing lost."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.command import ROOT, clean_environment
from support.server import FakeServer

RUN = [sys.executable, str(ROOT / "run_benchmarks.py")]
QUESTIONS = '{"question": "Capital of France?", "answer": "Paris"}\n{"question": "Capital of Italy?", "answer": "Rome"}\n'
ASKING = ["run", "--model", "baseline/constant", "--dataset", "q.jsonl", "--output", "r"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "q.jsonl").write_text(QUESTIONS)
    return tmp_path


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command line of the program's, as a shell redirects it."""
    command = line.replace("TIEBREAK", " ".join(RUN))
    return subprocess.run(["bash", "-c", command], cwd=cwd, env=clean_environment(), capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_cost_nothing(folder: Path, closed: str) -> None:
    done = shell(f"TIEBREAK {' '.join(ASKING)} {closed}", folder)
    assert done.returncode == 0, done
    assert (folder / "r" / "trials.csv").read_text().count("\n") == 3
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("more", ["", "--json", "--quiet"])
def test_a_full_disk_behind_standard_output_is_told_and_the_run_is_whole(folder: Path, more: str) -> None:
    done = shell(f"TIEBREAK {' '.join(ASKING)} {more} > /dev/full", folder)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done
    assert "No space left on device" in done.stderr
    if more:
        assert (folder / "r" / "trials.csv").read_text().count("\n") == 3


@pytest.mark.parametrize(
    "line", ["TIEBREAK --help > /dev/full", "TIEBREAK list datasets > /dev/full", "TIEBREAK doctor > /dev/full"]
)
def test_other_commands_say_so_too(folder: Path, line: str) -> None:
    done = shell(line, folder)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done
    assert "No space left on device" in done.stderr


def test_a_reader_that_leaves_is_no_error_of_ours(folder: Path) -> None:
    done = shell(f"TIEBREAK {' '.join(ASKING)} --json | head -1", folder)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr, done.stderr


@pytest.mark.parametrize("after_s", [0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.45])
def test_an_interrupt_while_it_starts_leaves_no_traceback(folder: Path, after_s: float) -> None:
    process = subprocess.Popen(
        [*RUN, *ASKING], cwd=folder, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    # Until the first two small files of ours are read, the interpreter says what it likes.
    assert not re.search(r"/tiebreak/(?!(cli/)?__init__\.py)", errors), errors
    assert process.returncode in (0, 1, 130, -signal.SIGINT)


def test_an_interrupt_after_the_last_answer_interrupts_nothing(folder: Path) -> None:
    """All that was planned is done: the exit code is the run's own."""
    with FakeServer(lambda prompt: "Paris", latency_s=0.8) as server:
        line = [*RUN, "run", "--model", "openai/x", "--dataset", "q.jsonl", "--output", "r", "--max-connections", "2"]
        process = subprocess.Popen(
            line, cwd=folder, env=clean_environment(**server.environment()), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        while len(server.ledger) < 2:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize("output", ["q.jsonl/run", "/proc/run"])
def test_a_folder_that_cannot_be_made_is_named(folder: Path, output: str) -> None:
    done = shell(f"TIEBREAK {' '.join(ASKING[:-1])} {output}", folder)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done
    assert "--output" in done.stderr
