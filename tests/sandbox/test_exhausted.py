"""A machine that is out of processes or files: a sentence, and nobody's attempt is wrong for it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import ROOT, clean_environment, read_csv, run

TASK = """# Write it

Write the word done into done.txt.

## Verify

```bash
exec python3 -c 'import os
if os.fork() == 0:
    os._exit(0)
print(os.wait())'
```

## Solution

```bash
echo done > done.txt
```
"""
LINE = ("run", "--model", "scripted/s.json", "--dataset", "tasks", "--follow-ups", "0", "--output", "out")
SENTENCE = "no more processes or threads can be started; raise the limit of processes"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two tasks whose check starts a process, and a model that does nothing."""
    (tmp_path / "tasks").mkdir()
    for name in ("one", "two"):
        (tmp_path / "tasks" / f"{name}.md").write_text(TASK)
    (tmp_path / "s.json").write_text('{"answers": [], "default": "FINISH"}')
    return tmp_path


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group in which processes are counted."""
    root = next((path for path in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")) if path.is_dir()), Path("/nowhere"))
    folder = root / f"test-{uuid.uuid4().hex}"
    try:
        folder.mkdir()
        (folder / "pids.max").write_text("100")
    except OSError:
        pytest.skip("control groups cannot be written here")
    yield folder
    folder.rmdir()


def limited_run(group: Path, most: int, home: Path) -> subprocess.CompletedProcess[str]:
    """The program in a group that may have so many processes and threads."""
    (group / "pids.max").write_text(str(most))
    command = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    program = [sys.executable, str(ROOT / "run_benchmarks.py"), *LINE]
    return subprocess.run(
        ["/bin/sh", "-c", command, str(group), *program],
        cwd=home,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.needs("bubblewrap", "root")
@pytest.mark.parametrize("most", [1, 2, 4, 5, 6])
def test_out_of_processes_before_the_run_is_a_sentence(home: Path, group: Path, most: int) -> None:
    """And no lower isolation takes the place of the one that could not be tried."""
    done = limited_run(group, most, home)
    assert done.returncode == 1
    assert SENTENCE in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not (home / "out" / "trials.csv").exists()
    # Where nothing was begun there is nothing to resume: the same line runs.
    begun = (home / "out" / "run.sqlite").exists()
    assert run(*(("run", "--resume", "out") if begun else LINE), cwd=home).returncode == 0


@pytest.mark.needs("bubblewrap", "root")
def test_a_check_that_cannot_start_processes_is_nobodys_doing(home: Path, group: Path) -> None:
    """The sandbox itself still fits: what fails is the check inside. On a machine with room the run goes on."""
    limited_run(group, 7, home)
    rows = read_csv(home / "out" / "trials.csv")
    assert {(row["outcome"], row["score"]) for row in rows} == {("failed", "")}
    report = json.loads((home / "out" / "comparison_report.json").read_text())
    assert {row["outcome"] for row in report["results"]} == {"verifier_error"}
    again = run("run", "--resume", "out", "--retry-failed", cwd=home)
    assert again.returncode == 0, again.stdout + again.stderr
    assert {row["score"] for row in read_csv(home / "out" / "trials.csv")} == {"1.0"}


@pytest.mark.needs("bubblewrap")
def test_words_about_processes_are_not_believed(home: Path) -> None:
    """Work that says there are none is wrong like any other."""
    for name in ("one", "two"):
        said = "echo Resource temporarily unavailable; exit 1"
        (home / "tasks" / f"{name}.md").write_text(f"# Do\n\nDo it.\n\n## Verify\n\n```bash\n{said}\n```\n")
    done = run(*LINE, cwd=home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {row["score"] for row in read_csv(home / "out" / "trials.csv")} == {"0.0"}


@pytest.mark.parametrize("most", [12, 24, 47])
def test_a_run_needs_some_open_files(home: Path, most: int) -> None:
    """Said beforehand: with fewer, the reasons given later would be wrong ones."""
    done = run_with_files(most, home)
    assert done.returncode == 1
    assert f"only {most} files may be open at once, and a run needs 48" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.needs("bubblewrap")
def test_out_of_open_files_nobody_is_wrong(home: Path) -> None:
    """Attempts that could not be made are left out, or there is an error in words."""
    done = run_with_files(48, home)
    assert "Traceback" not in done.stdout + done.stderr
    rows = read_csv(home / "out" / "trials.csv") if (home / "out" / "trials.csv").exists() else []
    assert "0.0" not in {row["score"] for row in rows}
    again = run("run", "--resume", "out", "--retry-failed", cwd=home)
    assert again.returncode == 0, again.stdout + again.stderr
    assert {row["score"] for row in read_csv(home / "out" / "trials.csv")} == {"1.0"}


def run_with_files(most: int, home: Path) -> subprocess.CompletedProcess[str]:
    """The program with so many files open at most."""
    program = [sys.executable, str(ROOT / "run_benchmarks.py"), *LINE]
    return subprocess.run(
        program,
        cwd=home,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),
    )
