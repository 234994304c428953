"""What the scripts of the speed suite share: the questions, the cores, and what a process has used."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from string import ascii_uppercase
from typing import Any

SERVER_CORE, CLIENT_CORE = 0, 1
_WORDS = ("glacier", "harbour", "lantern", "meadow", "orchard", "pebble", "quarry", "river", "summit", "thicket")


def write_dataset(path: Path, samples: int) -> None:
    """A file of multiple-choice samples; each prompt is about 190 bytes once its choices are listed."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(samples):
            first, second = _WORDS[number % 10], _WORDS[number // 10 % 10]
            choices = [f"the {_WORDS[(number + 3 * step) % 10]} {number + step}" for step in range(4)]
            question = f"Which of these names comes after the {first} and the {second} in list {number}?"
            row = {"id": f"s{number}", "input": question, "target": choices[number % 4], "choices": choices}
            file.write(json.dumps(row) + "\n")


def prompts(path: Path) -> Iterator[str]:
    """The questions of a dataset file, with their choices."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            listed = "\n".join(f"{letter}) {choice}" for letter, choice in zip(ascii_uppercase, row["choices"], strict=False))
            yield f"{row['input']}\n\n{listed}\n\nAnswer with the letter of the correct choice only."


def pin(core: int) -> None:
    """Stay on one core, where there are two and the system allows it."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(allowed) >= 2:
        os.sched_setaffinity(0, {allowed[core]})


def cpu_seconds() -> float:
    """Processor time of this process and its threads so far, user and system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mb() -> float:
    """The most memory this process held."""
    # On Linux ru_maxrss survives exec: a small program started by a large one would report the large one's.
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)


class Stopwatch:
    """Wall and processor time from here on; what came before is the start-up."""

    def __init__(self) -> None:
        self._started_cpu_s = cpu_seconds()
        self._started_s = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        return time.perf_counter() - self._started_s

    def report(self, **more: Any) -> None:
        """Print, as JSON, what was used."""
        wall_s = self.seconds
        whole_cpu_s = cpu_seconds()
        used = {"wall_s": wall_s, "cpu_s": whole_cpu_s - self._started_cpu_s, "start_up_cpu_s": self._started_cpu_s}
        print(json.dumps({**used, "whole_cpu_s": whole_cpu_s, "peak_mb": peak_mb(), **more}))
