"""Runs the program over and over, each time ended or failing at another durable step, and once more to go on.

Started with the faulty disk preloaded. What is loaded once is forked for every try: a try takes a tenth of a second.
Prints a line of JSON for each try.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path

DISK = ctypes.CDLL(os.environ["LD_PRELOAD"])
MODES = {"count": 0, "kill before": 1, "kill after": 2, "EIO": 3, "ENOSPC": 4}


def forked(work: Callable[[], int], output: Path) -> tuple[int, str]:
    """Do the work in a child: its exit code, or minus the signal that ended it, and what it printed."""
    child = os.fork()
    if child == 0:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        code = 99
        try:
            code = work()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), output.read_text(errors="replace")
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -999, output.read_text(errors="replace")
        time.sleep(0.002)


def command(arguments: list[str], folder: Path, step: int, mode: str) -> Callable[[], int]:
    """A command line, with the disk armed."""

    def work() -> int:
        from tiebreak.cli.main import run_command_line

        DISK.faulty_arm(str(folder).encode(), step, MODES[mode])
        code = run_command_line(arguments)
        if mode == "count":
            Path(f"{folder}.count").write_text(str(DISK.faulty_count()))
        return code

    return work


def rows(folder: Path) -> list[tuple[object, ...]]:
    """What a run's store says of its trials."""
    with contextlib.closing(sqlite3.connect(f"file:{folder / 'run.sqlite'}?mode=ro", uri=True)) as connection:
        query = "SELECT contestant, sample, repeat, outcome, score, text FROM trials WHERE NOT superseded ORDER BY 1, 2, 3"
        return connection.execute(query).fetchall()


def tell(**facts: object) -> None:
    sys.__stdout__.write(json.dumps(facts) + "\n")
    sys.__stdout__.flush()


def main(home: Path, arguments: list[str], modes: list[str], every: int, resumes: bool) -> None:
    """Try every `every`-th step of a first run, or of a resume, in each of the modes."""
    run, out = home / "r", home / "out"
    first = [*arguments, "--output", str(run)]
    again = ["run", "--resume", str(run), "--yes"]

    def steps_of(line: list[str]) -> int:
        code, said = forked(command(line, run, 0, "count"), out)
        assert code == 0, said
        return int(Path(f"{run}.count").read_text())

    def fresh() -> None:
        shutil.rmtree(run, ignore_errors=True)
        if resumes:
            forked(command(first, run, steps // 2, "kill before"), out)

    shutil.rmtree(run, ignore_errors=True)
    steps = steps_of(first)
    expected = rows(run)
    fresh()
    tried = again if resumes else first
    of_tried = steps_of(tried) if resumes else steps
    tell(steps=of_tried, rows=len(expected))
    for mode in modes:
        for step in range(1, of_tried + 1, every):
            fresh()
            code, said = forked(command(tried, run, step, mode), out)
            resumed, told = 0, ""
            if code != 0 or rows(run) != expected:
                go_on = again if (run / "run.sqlite").exists() else first
                resumed, told = forked(command(go_on, run, 0, "count"), out)
            whole = (run / "run.sqlite").exists() and rows(run) == expected
            left = sorted(path.name for path in run.iterdir() if path.name.endswith(".tmp")) if run.exists() else []
            traced = "Traceback" in said or "Traceback" in told
            good = whole and resumed == 0 and not traced and not left and code != -999
            facts = {"said": said[-1500:], "told": told[-1500:]} if not good else {}
            tell(mode=mode, step=step, code=code, resumed=resumed, whole=whole, left=left, good=good, **facts)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import tiebreak.cli.main
    import tiebreak.cli.run
    import tiebreak.report.html
    import tiebreak.report.tabular
    import tiebreak.scorers.texts  # noqa: F401

    with contextlib.redirect_stdout(io.StringIO()):
        import rich.console
        import rich.table  # noqa: F401
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3].split(","), int(sys.argv[4]), len(sys.argv) > 5)
