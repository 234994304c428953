"""A run of questions and coding tasks that is killed at random moments, and what it comes to compared with a calm one."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from support.command import read_csv, run, start
from support.server import Asked, FakeServer

QUESTIONS, TASKS = 60, 3
TIMES = ("model_s", "first_token_s", "first_answer_s", "queue_s", "retry_s", "in_flight", "finished_at")
LATENCY_S, LATENCY_OF_CHAINS_S = 0.05, 0.3
_NAMED = re.compile(r"\[(\w+)\]")
_TASK = """# Write it

Write the word done into done.txt. This is [{name}].

## Verify

```bash
grep -q done done.txt
```

## Solution

```bash
echo done > done.txt
```
"""


def answer(prompt: str) -> str:
    """What the server says: it does the task, and is right about every question but each third."""
    if "done.txt" in prompt:
        return "```shell\necho done > done.txt\n```\nFINISH"
    number = re.search(r"\[q(\d+)\]", prompt)
    return "FINISH" if number is None else "Paris" if int(number[1]) % 3 else "Bern"


def sample_of(asked: Asked) -> str:
    """The sample a request is about; every prompt names its own in brackets."""
    found = _NAMED.search(json.dumps(asked.body["messages"]))
    assert found is not None, asked.body
    return found[1]


@dataclass
class Killing:
    """One dataset and server, a calm run to compare with, and runs of the same that are killed."""

    home: Path
    server: FakeServer
    tasks: bool
    chance: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    """Where they fell: before there was a store, in a first run, in a resume."""
    landed: Counter[str] = field(default_factory=Counter)
    """Chains that had all of their kills, and those that came to their end before."""

    def __post_init__(self) -> None:
        data = self.home / "data"
        (data / "tasks").mkdir(parents=True)
        rows = ({"id": f"q{n}", "input": f"[q{n}] The capital of France?", "target": "Paris"} for n in range(QUESTIONS))
        (data / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for n in range(TASKS if self.tasks else 0):
            (data / "tasks" / f"t{n}.md").write_text(_TASK.format(name=f"t{n}"))
        self.server.latency_s = LATENCY_S
        begun = time.monotonic()
        self.expected = self._ended("calm", self._line("calm"))
        self.calm_s = time.monotonic() - begun
        assert isinstance(self.expected, list), self.expected

    def _line(self, name: str) -> list[str]:
        data = "data" if self.tasks else "data/questions.jsonl"
        return ["run", "--model", "openai/fake", "--dataset", data, "--max-connections", "8", "--yes", "--output", name]

    def _next(self, name: str) -> list[str]:
        """What a user types next: go on with what there is, or start."""
        return ["run", "--resume", name] if (self.home / name / "run.sqlite").exists() else self._line(name)

    def chain(self, name: str, kills: int) -> list[str]:
        """Kill a run so many times, each at a random moment, then let it end; what is wrong about it."""
        # The run is to live through all of its kills: answers come slowly until the last of them.
        self.server.latency_s = LATENCY_S if kills < 3 else LATENCY_OF_CHAINS_S
        wrong: list[str] = []
        committed: set[str] = set()
        done = 0
        while done < kills and self._killed(name, wrong):
            now = committed_in(self.home / name)
            wrong += [f"lost: {sorted(committed - now)}"] if committed - now else []
            committed = now
            done += 1
        self.landed["whole" if done == kills else "ended too early"] += 1
        self.server.latency_s = LATENCY_S
        wrong += self._compared(name)
        if not wrong:
            shutil.rmtree(self.home / name)
        return wrong

    def _killed(self, name: str, wrong: list[str]) -> bool:
        """Run and kill; not when the run ended before its random moment came."""
        arguments, since, committed = self._next(name), len(self.server.ledger), committed_in(self.home / name)
        process = start(*arguments, cwd=self.home, **self.server.environment())
        time.sleep(self.chance.uniform(0.0, self.calm_s))
        ended = process.poll() is not None
        if not ended:
            os.killpg(process.pid, signal.SIGKILL)
            begun = (self.home / name / "run.sqlite").exists()
            self.kills["in a resume" if "--resume" in arguments else "in a first run" if begun else "before the store"] += 1
        _, complaint = process.communicate()
        if ended and process.returncode != 0:
            wrong.append(f"{arguments} ended with {process.returncode}: {complaint}")
        wrong += self._asked_again(committed, since)
        return not ended

    def _compared(self, name: str) -> list[str]:
        """Let the run end; what differs from the calm one."""
        since, committed = len(self.server.ledger), committed_in(self.home / name)
        rows = self._ended(name, self._next(name))
        if isinstance(rows, str):
            return [rows]
        wrong = self._asked_again(committed, since)
        wrong += [] if rows == self.expected else ["other results than the calm run"]
        left = {path.name for path in (self.home / name).iterdir()} ^ {path.name for path in (self.home / "calm").iterdir()}
        return wrong + ([f"files that only one of the runs has: {sorted(left)}"] if left else [])

    def _asked_again(self, committed: set[str], since: int) -> list[str]:
        again = committed & {sample_of(asked) for asked in self.server.ledger[since:]}
        return [f"asked again: {sorted(again)}"] if again else []

    def _ended(self, name: str, arguments: list[str]) -> list[dict[str, str]] | str:
        """The rows of a run that was let go on to its end, or what it complained of."""
        done = run(*arguments, cwd=self.home, timeout=120, **self.server.environment())
        if done.returncode != 0:
            return f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}"
        rows = read_csv(self.home / name / "trials.csv")
        return [{column: value for column, value in row.items() if column not in TIMES} for row in rows]


def committed_in(folder: Path) -> set[str]:
    """Samples whose trials a killed run's store holds. Read from a copy: reading must not repair what the kill left."""
    if not (folder / "run.sqlite").exists():
        return set()
    with tempfile.TemporaryDirectory() as copies:
        for path in folder.glob("run.sqlite*"):
            shutil.copy(path, copies)
        with contextlib.closing(sqlite3.connect(Path(copies) / "run.sqlite")) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'trials'").fetchone():
                return set()
            rows = connection.execute("SELECT sample FROM trials WHERE superseded = 0").fetchall()
            return {Path(sample).name for (sample,) in rows}
