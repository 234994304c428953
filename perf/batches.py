"""Measures what a run costs whose questions go into batches: CPU a question, and memory by the number of questions.

    python perf/batches.py [--questions 50000] [--few 5000] [--model openai/gpt-4o-mini]

The provider is a fake server in a process of its own. What is measured is the whole command: the questions are read, written
into files, sent, brought home, scored, stored and reported.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.batch_kills import write_questions  # noqa: E402
from support.batch_server import BatchServer  # noqa: E402

MOST_CPU_MS = 0.3
"""A question, of the larger run."""
MOST_BYTES = 1800
"""Of memory, that each further question may take: its id while its job is written, and what the report keeps of it."""


def measure(questions: int, model: str, server: BatchServer) -> tuple[float, float, float]:
    """CPU seconds, megabytes at the peak, and seconds."""
    program = (
        "import json, resource, sys; from tiebreak.cli import main\n"
        "try: main()\n"
        "finally:\n"
        "    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]), file=sys.stderr)"
    )
    with tempfile.TemporaryDirectory() as home:
        write_questions(Path(home), questions)
        flags = [
            "run",
            "--model",
            model,
            "--dataset",
            "q.jsonl",
            "--batch",
            "--poll",
            "0.5",
            "--output",
            "out",
            "--quiet",
            "--yes",
        ]
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", program, *flags, "--no-preflight"],
            cwd=home,
            env=os.environ | server.environment() | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        took = time.monotonic() - began
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    cpu_s, peak_mb = json.loads(done.stderr.splitlines()[-1])
    return cpu_s, peak_mb, took


def main() -> int:
    """Measure and print; 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=50_000)
    parser.add_argument("--few", type=int, default=5_000)
    parser.add_argument("--model", default="openai/gpt-4o-mini")
    chosen = parser.parse_args()
    with BatchServer() as server:
        few_mb = measure(chosen.few, chosen.model, server)[1]
        cpu_s, many_mb, took = measure(chosen.questions, chosen.model, server)
    cpu_ms = 1000 * cpu_s / chosen.questions
    each = (many_mb - few_mb) * 2**20 / (chosen.questions - chosen.few)
    print(f"{chosen.questions:,} questions in batches: {took:.1f} s, {cpu_ms:.3f} ms of CPU each (at most {MOST_CPU_MS})")
    print(f"peak memory {many_mb:.0f} MB, {few_mb:.0f} MB with {chosen.few:,}: {each:,.0f} bytes each (at most {MOST_BYTES:,})")
    return int(cpu_ms > MOST_CPU_MS or each > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
