"""A million rows through the audit, a model that answers at once, and the reports: memory stays flat, the work small.

    python perf/million.py [ROWS]

Prints the CPU time per sample beyond the model, and the most memory the whole process took.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measure import peak_mb

from tiebreak.core.contestant import Contestant
from tiebreak.core.run import Pace, Protocol, RunSpec
from tiebreak.pipeline import TRIALS_CSV, make_plan, run_plan, write_reports
from tiebreak.registry import Catalog, audit_dataset

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
MOST_MB, MOST_MS = 150.0, 0.20


def write_rows(path: Path, count: int) -> None:
    """Rows as people have them: an id, a question, an answer, a category."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(count):
            row = {
                "id": i,
                "input": f"What is {i} + 1? Say it.",
                "target": str(i + 1),
                "category": f"c{i % 7}",
            }
            file.write(json.dumps(row) + "\n")


def measured(name: str, began: float) -> None:
    """Say what a step took."""
    megabytes = peak_mb()
    spent = time.process_time() - began
    print(f"{name:24} {spent:8.1f} s CPU  {1000 * spent / ROWS:.4f} ms a sample  {megabytes:6.1f} MB at most")


def main() -> int:
    """Write, load, audit, ask; 1 when a limit is passed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        write_rows(path, ROWS)
        began = time.process_time()
        model = Catalog().resolve("baseline/constant")
        plan = make_plan(
            RunSpec(
                protocol=Protocol(dataset=str(path)),
                contestants=(Contestant(label=model.label, model=model),),
                pace=Pace(max_connections=64),
                results_dir=Path(folder) / "run",
            )
        )
        measured("loaded and ordered", began)
        began = time.process_time()
        audit_dataset(plan.dataset)
        measured("audited", began)
        began = time.process_time()
        summary = asyncio.run(run_plan(plan))
        measured("asked, scored and stored", began)
        per_sample = 1000 * (time.process_time() - began) / ROWS
        began = time.process_time()
        write_reports(Path(folder) / "run", csv_path=Path(folder) / "run" / TRIALS_CSV, summary=summary)
        measured("CSV, JSON and page", began)
    most = peak_mb()
    assert summary.contestants[0].answered == ROWS
    fits = most < MOST_MB and per_sample <= MOST_MS
    print(f"{'ok' if fits else 'TOO MUCH'}: {per_sample:.3f} ms a sample (most {MOST_MS}), {most:.0f} MB (most {MOST_MB:.0f})")
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
