"""Measures how fast we are against a bare loop that asks the same questions, and says which targets are met.

    python perf/run.py [--quick] [--json FILE] [--command TEMPLATE]

A mock server on one core answers at once, or after 50 ms; the client works on another core. Bare loop and whole road
take turns, and every figure is the median over the rounds. Targets that are times come from a machine on which a request by
aiohttp takes 0.10 ms of CPU and so the bare loop, which writes and reads JSON too, about 0.12: on a slower machine they may
take as much longer as the bare loop does in the same run. Exit code 1: a target was missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from measure import CLIENT_CORE, pin, write_dataset

COMMAND = (
    f"{sys.executable} run_benchmarks.py --model openai/mock --dataset {{dataset}} --output {{results}}"
    " --max-connections {connections} --quiet --no-preflight"
)
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CONNECTIONS = 64
BARE_CPU_MS = 0.12
"""What the bare loop takes where the targets come from."""
LATENCY_MS = 50
Figures = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """How much is asked."""

    samples: int = 10_000
    many_samples: int = 50_000
    slow_samples: int = 2_000
    rounds: int = 3
    capacity_requests: int = 50_000
    fixed_costs_count: bool = True
    """Whether enough is asked for the start-up to be worth judging per sample."""


FULL = Sizes()
QUICK = Sizes(samples=2_000, many_samples=6_000, slow_samples=640, capacity_requests=20_000, fixed_costs_count=False)


@dataclass(frozen=True)
class Row:
    """One figure of the table, with what it should be where that was decided."""

    name: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None
    met: bool | None = field(init=False)

    def __post_init__(self) -> None:
        met = None
        if self.at_most is not None or self.at_least is not None:
            met = (self.at_most is None or self.value <= self.at_most) and (self.at_least is None or self.value >= self.at_least)
        object.__setattr__(self, "met", met)

    @property
    def target(self) -> str:
        """The target in words."""
        if self.at_most is not None and self.at_most == self.at_least:
            return f"= {self.at_most:g}"
        if self.at_most is not None:
            return f"≤ {self.at_most:.3g}"
        return "" if self.at_least is None else f"≥ {self.at_least:g}"


class Server:
    """The mock server in its own process."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.base_url = f"http://127.0.0.1:{port}/v1"

    @classmethod
    @contextlib.contextmanager
    def running(cls, latency_ms: float = 0) -> Iterator[Server]:
        """Serve until the block ends."""
        command = [sys.executable, str(HERE / "server.py"), "--latency-ms", str(latency_ms)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None and process.stdout is not None
            yield cls(int(process.stdout.readline()))
            process.stdin.close()

    def stats(self) -> Figures:
        """What the server saw since the last time."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/reset") as answer:
            figures: Figures = json.load(answer)
        return figures


class Bench:
    """Runs the scripts, each in a fresh process, and checks that they did the work."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.server = server

    def dataset(self, samples: int) -> Path:
        """A dataset of that many samples."""
        path = self.folder / f"{samples}.jsonl"
        if not path.exists():
            write_dataset(path, samples)
        return path

    def capacity(self, requests: int) -> Figures:
        """What the server can take."""
        return self._script("capacity.py", str(self.server.port), "--requests", str(requests))

    def bare(self, samples: int) -> Figures:
        """The bare loop."""
        figures = self._script("bare.py", self.server.base_url, str(self.dataset(samples)), *_connections())
        return self._checked(figures, samples)

    def road(self, samples: int, results: Path | None = None) -> Figures:
        """The whole road, into a new folder or on with a finished one."""
        folder = results or self.new_folder()
        figures = self._script("road.py", str(self.dataset(samples)), str(folder), *_connections())
        asked = 0 if results else samples
        return {**self._checked(figures, asked), "rows": _stored(folder, samples), "results": folder}

    def export(self, samples: int, results: Path) -> Figures:
        """The files of a finished run."""
        return self._script("road.py", str(self.dataset(samples)), str(results), "--export")

    def command(self, template: str, samples: int) -> Figures:
        """A command line of the user's program; {dataset}, {results} and {connections} are filled in."""
        folder = self.new_folder()
        places = {"dataset": self.dataset(samples), "results": folder, "connections": CONNECTIONS}
        figures = self._timed([part.format(**places) for part in shlex.split(template)])
        return {**self._checked(figures, samples), "rows": _stored(folder, samples)}

    def new_folder(self) -> Path:
        """A results folder nothing was written to yet."""
        return Path(tempfile.mkdtemp(prefix="run-", dir=self.folder))

    def _script(self, name: str, *arguments: str) -> Figures:
        figures = self._timed([sys.executable, str(HERE / name), *arguments])
        return {**json.loads(figures.pop("printed")), **figures}

    def _timed(self, command: list[str]) -> Figures:
        environment = {**os.environ, "OPENAI_BASE_URL": self.server.base_url, "OPENAI_API_KEY": "x"}
        self.server.stats()
        started = time.perf_counter()
        ended = subprocess.run(command, check=False, env=environment, cwd=ROOT, capture_output=True, text=True)
        seconds = time.perf_counter() - started
        if ended.returncode != 0:
            sys.exit(f"{shlex.join(command)} failed:\n{ended.stdout}{ended.stderr}")
        return {"printed": ended.stdout, "whole_s": seconds, "server": self.server.stats()}

    @staticmethod
    def _checked(figures: Figures, asked: int) -> Figures:
        if figures["server"]["requests"] != asked:
            sys.exit(f"{figures['server']['requests']} requests were sent, not {asked}")
        return figures


def _connections() -> tuple[str, str]:
    return "--connections", str(CONNECTIONS)


def _stored(folder: Path, samples: int) -> int:
    """The scored trials on disk; fewer than there are samples means that the figures are worth nothing."""
    path = next(folder.rglob("run.sqlite"))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows: int = connection.execute("SELECT count(score) FROM trials WHERE outcome = 'answered'").fetchone()[0]
    if rows != samples:
        sys.exit(f"{rows} trials are stored and scored, not {samples}")
    return rows


# --- the figures -----------------------------------------------------------------------------------


def measure(folder: Path, sizes: Sizes, command: str | None) -> Iterator[Row]:
    """Every figure, as soon as it is known."""
    with Server.running() as server:
        bench = Bench(folder, server)
        capacity = bench.capacity(sizes.capacity_requests)
        bare, road = take_turns(bench, sizes)
        slower = max(1.0, median(1000 * b["cpu_s"] / sizes.samples for b in bare) / BARE_CPU_MS)
        yield Row("this machine, times slower than where the targets come from", slower)
        yield from against_bare(sizes, capacity, bare, road, slower)
        yield from end_to_end(bench, sizes, road, command, slower)
        many = bench.road(sizes.many_samples)
        yield from memory(sizes, road, many)
        yield from afterwards(bench, sizes, road[-1]["results"], slower)
    with Server.running(LATENCY_MS) as server:
        yield from under_latency(Bench(folder, server), sizes, slower)
    yield from start_up(slower)


def take_turns(bench: Bench, sizes: Sizes) -> tuple[list[Figures], list[Figures]]:
    """Bare loop and whole road, one after the other, so that a busy moment of the machine hurts both."""
    bench.bare(min(sizes.samples, 1000))  # the first run of all finds cold files
    rounds = [(bench.bare(sizes.samples), bench.road(sizes.samples)) for _ in range(sizes.rounds)]
    return [bare for bare, _ in rounds], [road for _, road in rounds]


def against_bare(sizes: Sizes, capacity: Figures, bare: list[Figures], road: list[Figures], slower: float) -> Iterator[Row]:
    """Rate and processor time at no latency."""
    n = sizes.samples
    bare_rate = median(n / b["wall_s"] for b in bare)
    server_rate = capacity["requests"] / capacity["wall_s"]
    yield Row("mock server, requests a second", server_rate)
    yield Row("mock server over bare loop", server_rate / bare_rate, at_least=3)
    yield Row("bare loop, samples a second", bare_rate)
    yield Row("whole road, samples a second", median(n / r["wall_s"] for r in road))
    pairs = list(zip(bare, road, strict=True))
    yield Row("whole road over bare loop", median(b["wall_s"] / r["wall_s"] for b, r in pairs), at_least=0.7)
    on_wire = median(b["server"]["wire_s"] / r["server"]["wire_s"] for b, r in pairs)
    yield Row("the same from first request to last reply", on_wire)
    yield Row("bare loop, CPU a sample", median(1000 * b["cpu_s"] / n for b in bare), "ms")
    yield Row("whole road, CPU a sample", median(1000 * r["cpu_s"] / n for r in road), "ms", at_most=0.2 * slower)
    limit = 0.2 * slower if sizes.fixed_costs_count else None
    yield Row("the same with start-up", median(1000 * r["whole_cpu_s"] / n for r in road), "ms", at_most=limit)
    yield Row("whole road over bare loop, CPU", median(r["cpu_s"] / b["cpu_s"] for b, r in pairs))


def end_to_end(bench: Bench, sizes: Sizes, road: list[Figures], command: str | None, slower: float) -> Iterator[Row]:
    """From the start of the process to its end."""
    ends = [bench.command(command, sizes.samples) for _ in range(sizes.rounds)] if command else road
    name = "the command" if command else "whole road"
    took = median(e["whole_s"] for e in ends)
    yield Row(f"{name}, {sizes.samples:,} samples, process start to end", took, "s", at_most=2.0 * slower)


def memory(sizes: Sizes, road: list[Figures], many: Figures) -> Iterator[Row]:
    """Memory does not grow with the number of samples."""
    few_mb = median(r["peak_mb"] for r in road)
    yield Row(f"peak memory at {sizes.samples:,}", few_mb, "MB", at_most=80)
    yield Row(f"peak memory at {sizes.many_samples:,}", many["peak_mb"], "MB", at_most=80)
    yield Row("difference", many["peak_mb"] - few_mb, "MB", at_most=10)


def afterwards(bench: Bench, sizes: Sizes, results: Path, slower: float) -> Iterator[Row]:
    """What is done with a finished run."""
    exports = [bench.export(sizes.samples, results) for _ in range(sizes.rounds)]
    yield Row(f"CSV and JSON of {sizes.samples:,}", median(e["files_s"] for e in exports), "s", at_most=0.4 * slower)
    yield Row(f"page of {sizes.samples:,}", median(e["page_s"] for e in exports), "s")
    resumes = [bench.road(sizes.samples, results) for _ in range(sizes.rounds)]
    yield Row(f"resuming {sizes.samples:,} finished", median(r["whole_s"] for r in resumes), "s", at_most=1.0 * slower)


def under_latency(bench: Bench, sizes: Sizes, slower: float) -> Iterator[Row]:
    """With a server that takes its time, only waiting for it may cost time."""
    ideal_s = sizes.slow_samples * LATENCY_MS / 1000 / CONNECTIONS
    runs = [(bench.bare(sizes.slow_samples), bench.road(sizes.slow_samples)) for _ in range(sizes.rounds)]
    name = f"{LATENCY_MS} ms latency, {sizes.slow_samples:,} samples"
    yield Row(f"{name}: bare loop over ideal", median(bare["wall_s"] for bare, _ in runs) / ideal_s)
    # Connecting, planning and the summary are paid once: only a run of this length can hide them.
    limit = 1 + 0.15 * slower if sizes.fixed_costs_count else None
    yield Row(f"{name}: wall over ideal", median(road["wall_s"] for _, road in runs) / ideal_s, at_most=limit)
    in_flight = min(road["server"]["most_in_flight"] for _, road in runs)
    yield Row(f"{name}: most in flight", in_flight, at_most=CONNECTIONS, at_least=CONNECTIONS)


def start_up(slower: float) -> Iterator[Row]:
    """What --help costs beyond Python itself."""
    program = ROOT / "run_benchmarks.py"
    if not program.is_file():
        return
    differences = [_seconds([str(program), "--help"]) - _seconds(["-c", "pass"]) for _ in range(7)]
    yield Row("run_benchmarks.py --help, beyond Python's own start", median(differences), "s", at_most=0.17 * slower)


def _seconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


# --- the table -------------------------------------------------------------------------------------


def shown(row: Row) -> str:
    """A row of the table."""
    value = f"{row.value:,.0f}" if row.value >= 100 else f"{row.value:.3g}"
    mark = {None: " ", True: "✓", False: "✗"}[row.met]
    return f"{mark} {row.name:<56} {value:>8} {row.unit:<3} {row.target}".rstrip()


def main() -> None:
    """Measure, print the table, say whether every target was met."""
    # Users' Python keeps what it has compiled, whatever is set here.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="ask less: a minute's look, not the final word")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    parser.add_argument(
        "--command", default=COMMAND, help="the end-to-end command; {dataset}, {results} and {connections} are filled in"
    )
    arguments = parser.parse_args()
    pin(CLIENT_CORE)
    rows = []
    with tempfile.TemporaryDirectory(prefix="perf-") as folder:
        for row in measure(Path(folder), QUICK if arguments.quick else FULL, arguments.command):
            print(shown(row), flush=True)
            rows.append(row)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")
    missed = [row.name for row in rows if row.met is False]
    if missed:
        sys.exit(f"{len(missed)} missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
