"""How long reports, a resume and the viewer's pages take for a large finished run, each from the start of its process.

    python perf/large.py [--rows 100000] [--keep FOLDER] [--json FILE]

Two contestants share the rows: prompts of about 150 characters, answers of about 120. Targets are stretched as those of
perf/run.py are. Above 100,000 rows what may grow with them may take as many times as long, and a tenth more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from run import BARE_CPU_MS, Bench, Row, Server, shown  # noqa: E402

from tiebreak.core.clock import SystemClock  # noqa: E402
from tiebreak.core.contestant import Contestant  # noqa: E402
from tiebreak.core.events import ContestantFinished, ContestantState, Event, TrialFinished  # noqa: E402
from tiebreak.core.message import Usage  # noqa: E402
from tiebreak.core.model import ModelRef  # noqa: E402
from tiebreak.core.run import Protocol, RunSpec  # noqa: E402
from tiebreak.core.trial import Outcome, Output, Score, Timing, Trial, TrialResult  # noqa: E402
from tiebreak.pipeline import Plan, describe, indexes_to_put_off, make_plan  # noqa: E402
from tiebreak.store.store import Store  # noqa: E402

ROWS = 100_000
ROUNDS = 3
_WORDS = (
    *("glacier", "harbour", "lantern", "meadow", "orchard", "pebble", "quarry", "river", "summit", "thicket"),
    *("because,", "between", "nobody:", "seldom", "“twelve”", "answers.\n", "before", '"winter"', "and", "the"),
)
_CATEGORIES = 7
RUN = "large"
NOW = SystemClock().now()


@dataclass(frozen=True)
class Used:
    """What a process took."""

    seconds: float
    cpu_s: float
    peak_mb: float


# --- the store --------------------------------------------------------------------------------------


def make(folder: Path, rows: int) -> None:
    """A finished run of two contestants, asked nothing: planned by the real plan, written by the real writer."""
    dataset, script = folder / "rows.jsonl", folder / "script.json"
    script.write_text('{"answers": [], "default": "?"}', encoding="utf-8")
    _write_dataset(dataset, rows // 2)
    models = [ModelRef(provider="scripted", name=str(script), label=label, settings={"seed": n}) for n, label in enumerate("ab")]
    contestants = tuple(Contestant(label=model.label, model=model) for model in models)
    plan = make_plan(RunSpec(protocol=Protocol(dataset=str(dataset)), contestants=contestants, results_dir=folder / RUN))

    async def write(store: Store) -> None:
        async for _ in store.committed(_events(plan)):
            pass

    with Store.open(folder / RUN, describe(plan, SystemClock()), without=indexes_to_put_off(plan)) as store:
        asyncio.run(write(store))


def _write_dataset(path: Path, samples: int) -> None:
    chance = Random(1)
    with path.open("w", encoding="utf-8") as file:
        for number in range(samples):
            question = f"Question {number}: {' '.join(chance.choices(_WORDS, k=20))}?"
            row = {"id": f"s{number}", "input": question, "target": f"the {number}", "category": f"c{number % _CATEGORIES}"}
            file.write(json.dumps(row) + "\n")


async def _events(plan: Plan) -> AsyncIterator[Event]:
    """Everything that would have happened."""
    chance = Random(2)
    for place, contestant in enumerate(plan.spec.contestants):
        for trial in plan.trials(contestant):
            yield TrialFinished(_result(trial, chance, 0.6 + 0.01 * place))
        label, state, done = contestant.label, ContestantState.FINISHED, plan.trials_per_contestant
        yield ContestantFinished(contestant=label, state=state, message="", seconds=60.0, done=done)


def _result(trial: Trial, chance: Random, skill: float) -> TrialResult:
    text = " ".join(chance.choices(_WORDS, k=18))
    usage, timing = Usage(input_tokens=40, output_tokens=30, cost_usd=0.0001), Timing(model_s=chance.lognormvariate(0, 0.5))
    because = f"expected {trial.sample.target!r}"
    return TrialResult(
        trial=trial,
        outcome=Outcome.ANSWERED,
        output=Output(text=text, usage=usage, timing=timing),
        scores={"match": Score(value=float(chance.random() < skill), answer=text, because=because)},
        finished_at=NOW,
    )


# --- the figures ------------------------------------------------------------------------------------


def measure(folder: Path, rows: int) -> Iterator[Row]:
    """Every figure, as soon as it is known."""
    slower = _machine_factor(folder)
    times = slower * (1.0 if rows <= ROWS else 1.1 * rows / ROWS)
    yield Row("this machine, times slower than where the targets come from", slower)
    if not (folder / RUN).is_dir():
        subprocess.run([sys.executable, str(HERE / "large.py"), "--make", str(folder), "--rows", str(rows)], check=True)
    yield Row("the store", (folder / RUN / "run.sqlite").stat().st_size / 1e6, "MB")
    if not (folder / RUN / "trials.csv").exists():
        yield Row("first report, nothing worked out yet", timed(["report", str(folder / RUN)]).seconds, "s")
    yield from _rows_of("report", ["report", str(folder / RUN)], at_most=3.0 * times)
    resume = ["run", "--resume", str(folder / RUN), "--quiet", "--no-preflight"]
    yield from _rows_of("resume of what is finished", resume, at_most=1.5 * times)
    for name, path in {"the run's page": "", "first samples": "/samples?page=0"}.items():
        took = [viewed(folder / RUN, path) for _ in range(ROUNDS)]
        yield Row(f"viewer, {name}, cold", median(t for t, _ in took), "s", at_most=0.5 * slower)
        yield Row("    peak memory", max(mb for _, mb in took), "MB", at_most=150)


def _rows_of(name: str, arguments: list[str], at_most: float) -> Iterator[Row]:
    used = [timed(arguments) for _ in range(ROUNDS)]
    yield Row(name, median(u.seconds for u in used), "s", at_most=at_most)
    yield Row("    CPU", median(u.cpu_s for u in used), "s")
    yield Row("    peak memory", max(u.peak_mb for u in used), "MB", at_most=150)


def _machine_factor(folder: Path) -> float:
    """As perf/run.py finds it: how much longer the bare loop takes here."""
    with Server.running() as server:
        bench, samples = Bench(folder, server), 5_000
        return max(1.0, median(1000 * bench.bare(samples)["cpu_s"] / samples for _ in range(3)) / BARE_CPU_MS)


def timed(arguments: list[str]) -> Used:
    """Run a command of the program and see what it took."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "tiebreak", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds, process.returncode = time.perf_counter() - began, os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{shlex.join(arguments)} ended with {process.returncode}")
    # A child inherits our peak; we are smaller than any of them.
    return Used(seconds=seconds, cpu_s=used.ru_utime + used.ru_stime, peak_mb=used.ru_maxrss / 1024)


def viewed(run: Path, path: str) -> tuple[float, float]:
    """Seconds of the first request to a viewer that has just started, and its most memory."""
    command = [sys.executable, "-m", "tiebreak", "view", str(run), "--no-browser"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdout is not None
        printed = ""
        while "token=" not in printed or not printed.endswith("\n"):
            printed += process.stdout.readline()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/\S*token=(\S+)", printed)
        assert found is not None, printed
        request = urllib.request.Request(f"{found[1]}/run/{run.name}{path}", headers={"Authorization": f"Bearer {found[2]}"})
        urllib.request.urlopen(urllib.request.Request(f"{found[1]}/favicon.ico", headers=dict(request.headers))).read()
        began = time.perf_counter()
        with urllib.request.urlopen(request) as answer:
            answer.read()
        seconds = time.perf_counter() - began
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        process.terminate()
    return seconds, int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024


def main() -> None:
    """Measure, print the table, say whether every target was met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS, help="trials of both contestants together")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the run here, or use the one that is there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        return make(arguments.make, arguments.rows)
    table = []
    with tempfile.TemporaryDirectory(prefix="perf-") as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for row in measure(folder, arguments.rows):
            print(shown(row), flush=True)
            table.append(row)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in table], indent=2) + "\n", encoding="utf-8")
    missed = [row.name.strip() for row in table if row.met is False]
    if missed:
        sys.exit(f"{len(missed)} missed: {'; '.join(missed)}")
    return None


if __name__ == "__main__":
    main()
