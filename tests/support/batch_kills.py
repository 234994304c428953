"""Runs with batches that are killed: at any moment of any request to the provider, or at any durable step on the disk.

As a program it runs command lines that come on standard input, each in a child forked from what is loaded once, and tells
the child's process id before and its exit code after. With the faulty disk preloaded, a child can be ended at a durable step.
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
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUESTIONS = 12
MODELS = {
    "chat": "openai/gpt-4o-mini",
    "responses": "openai-responses/gpt-4o-mini",
    "messages": "anthropic/claude-3-5-haiku-latest",
    "gemini": "google/gemini-2.0-flash",
}
_DISK_MODES = {"count": 0, "kill before": 1, "kill after": 2}


@dataclass
class Driver:
    """The forking program, as the tests use it."""

    process: subprocess.Popen[str]

    def start(self, arguments: list[str], folder: Path, *, step: int = 0, mode: str = "count") -> int:
        """Start a command line; its process id."""
        assert self.process.stdin is not None
        asked = {"arguments": arguments, "folder": str(folder), "step": step, "mode": mode}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return int(self._told()["pid"])

    def ended(self) -> dict[str, Any]:
        """How it ended: its exit code, what it said, and how many durable steps it took."""
        return self._told()

    def _told(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read() if self.process.stderr else ""
        found: dict[str, Any] = json.loads(line)
        return found


@contextlib.contextmanager
def driver(home: Path, environment: dict[str, str]) -> Iterator[Driver]:
    """The program, running in a folder."""
    process = subprocess.Popen(
        [sys.executable, __file__],
        cwd=home,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Driver(process)
        assert process.stdin is not None
        process.stdin.close()


@dataclass
class Killing:
    """One dialect at a server, and runs that are killed there."""

    home: Path
    server: Any
    program: Driver
    dialect: str
    how: dict[str, Any]
    """How the server behaves."""
    key: str
    kills: int = 0
    """Those that came before the run's own end."""

    @property
    def folder(self) -> Path:
        return self.home / "killed"

    def _line(self) -> list[str]:
        line = ["run", "--model", MODELS[self.dialect], "--dataset", "q.jsonl", "--batch", "--poll", "0.05"]
        return [*line, "--no-preflight", "--yes", "--output", str(self.folder)]

    def _next(self) -> list[str]:
        if (self.folder / "run.sqlite").exists():
            return ["run", "--resume", str(self.folder), "--no-preflight", "--yes"]
        return self._line()

    def calm(self) -> tuple[list[str], int]:
        """A run that nobody kills: the requests it makes, and how many durable steps it takes."""
        self._fresh()
        ended = self._run(self._line())
        assert ended["code"] == 0, ended
        assert self._wrong() == []
        return list(self.server.batches.order), ended["steps"]

    def killed(self, *kills: Any, step: int = 0, mode: str = "count") -> list[str]:
        """Kill a run, and its resumes as often as there are kills, then let it end; what is wrong about it."""
        self._fresh()
        said = ""
        for kill in kills or (None,):
            self.server.how.kill = kill and type(kill)(self.server.requests + kill.request, kill.moment)
            said += self._run(self._next(), step=step, mode=mode)["said"]
        self.server.how.kill = None
        for _ in range(4):
            ended = self._run(self._next())
            said += ended["said"]
            if ended["code"] == 0:
                break
        wrong = self._wrong() + (["a traceback"] if "Traceback" in said else [])
        wrong += ["the key is told"] if self.key in said else []
        return [*wrong, said[-2000:], str(self.server.batches.steps)] if wrong else []

    def _fresh(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.server.reset(**self.how)

    def _run(self, line: list[str], *, step: int = 0, mode: str = "count") -> dict[str, Any]:
        self.server.victim = None
        self.server.victim = self.program.start(line, self.folder, step=step, mode=mode)
        ended = self.program.ended()
        self.kills += ended["code"] == -signal.SIGKILL
        return ended

    def _wrong(self) -> list[str]:
        """By the server's own ledger, and by the store."""
        paid = self.server.batches.paid
        wrong = [f"paid {count} times: {name}" for name, count in paid.items() if count != 1]
        wrong += [] if len(paid) == QUESTIONS else [f"{len(paid)} of {QUESTIONS} were answered"]
        with contextlib.closing(sqlite3.connect(self.folder / "run.sqlite")) as connection:
            rows = connection.execute("SELECT outcome, score, text FROM trials WHERE NOT superseded").fetchall()
        right = [row for row in rows if row[:2] == ("answered", 1.0) and row[2].startswith("Answer to [q")]
        wrong += [] if len(rows) == len(right) == QUESTIONS else [f"the store has {rows}"]
        left = [path.name for path in self.folder.iterdir() if path.name.startswith("batch-") or path.name.endswith(".tmp")]
        wrong += [f"left behind: {left}"] if left else []
        wrong += [f"the key is in {p.name}" for p in self.folder.iterdir() if p.is_file() and self.key.encode() in p.read_bytes()]
        return wrong


def write_questions(home: Path, count: int = QUESTIONS) -> None:
    """A dataset whose right answers are what the server answers."""
    questions = (f"[q{n}] The capital?" for n in range(count))
    rows = ({"id": f"q{n}", "input": text, "target": f"Answer to {text}"} for n, text in enumerate(questions))
    (home / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def fails_first(custom_id: str, times: int) -> str:
    """Some requests expire the first time, and some fail by the server's doing."""
    kind = int(custom_id[:8], 16) % 4
    return {0: "expired", 1: "error"}.get(kind, "answered") if times == 1 else "answered"


# --- the forking program


def _work(asked: dict[str, Any], disk: Any) -> int:
    from tiebreak.cli.main import run_command_line

    if disk is not None:
        disk.faulty_arm(asked["folder"].encode(), asked["step"], _DISK_MODES[asked["mode"]])
    code = run_command_line(asked["arguments"])
    if disk is not None:
        Path(f"{asked['folder']}.count").write_text(str(disk.faulty_count()))
    return code


def _forked(asked: dict[str, Any], disk: Any) -> None:
    output, counted = Path(f"{asked['folder']}.out"), Path(f"{asked['folder']}.count")
    counted.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        code = 99
        try:
            code = _work(asked, disk)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    print(json.dumps({"pid": child}), flush=True)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    steps = int(counted.read_text()) if counted.exists() else 0
    print(json.dumps({"code": code, "said": output.read_text(errors="replace"), "steps": steps}), flush=True)


def _serve() -> None:
    disk = ctypes.CDLL(os.environ["LD_PRELOAD"]) if os.environ.get("LD_PRELOAD") else None
    for line in sys.stdin:
        _forked(json.loads(line), disk)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import tiebreak.cli.main
    import tiebreak.cli.run
    import tiebreak.engine.batches
    import tiebreak.providers.anthropic
    import tiebreak.providers.google
    import tiebreak.providers.openai
    import tiebreak.report.html
    import tiebreak.report.tabular
    import tiebreak.scorers.texts

    tiebreak.engine.batches.SETTLE_S = 0.1
    with contextlib.redirect_stdout(io.StringIO()):
        import rich.console
        import rich.table  # noqa: F401
    _serve()
