"""Coding tasks as files: one per model, and a row per attempt. All can be rebuilt from the store."""

from __future__ import annotations

import csv
import io
import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tiebreak.core.files import atomic_writer, slug
from tiebreak.core.model import ModelRef
from tiebreak.core.work import Work, WorkOutcome
from tiebreak.report.summary import ContestantSummary, Summary
from tiebreak.report.transcript import write_attempts
from tiebreak.report.work import RANKINGS, short_names, solved_alone
from tiebreak.store.reader import StoreReader

REPORT_CSV = "comparison_report.csv"
_LEFT_OUT_OF_CSV = ("check_output", "diff", "files", "said", "tests")
_FORMULA = re.compile(r"[\s\u200b-\u200d\u2060\ufeff]*[=+\-@\t\r]")
_ATTEMPTS = (
    "SELECT t.id, c.label, c.model, c.provider, c.agent, t.sample, t.repeat, t.model_s, t.queue_s, t.retry_s, t.input_tokens,"
    " t.output_tokens, t.cost_usd, t.failure, t.text, t.finished_at, w.work FROM trials t"
    " JOIN contestants c ON c.contestant = t.contestant JOIN work w ON w.id = t.id AND w.finished_at = t.finished_at"
    " WHERE t.superseded = 0 ORDER BY t.contestant, t.sample, t.repeat"
)


def write_work_files(reader: StoreReader, summary: Summary, folder: Path) -> list[Path]:
    """Write a file per model and a row per attempt, and say where they are."""
    models = {c.model.label: c.model for c in summary.contestants}
    names = file_names(list(models.values()))
    by_model: dict[str, list[dict[str, Any]]] = {}
    for attempt in attempts_by_trial(reader).values():
        by_model.setdefault(attempt["model"], []).append(attempt)
    written = [write_json(folder / names[label], model_data(attempts)) for label, attempts in by_model.items()]
    rows = _write_csv(folder / REPORT_CSV, [attempt for own in by_model.values() for attempt in own])
    return [*written, rows, *(write_attempts(reader, folder) if reader.answers else ())]


def file_names(models: Sequence[ModelRef]) -> Mapping[str, str]:
    """Each model's result file: readable names, a hash only where two would collide."""
    plain = {model.label: _plain_name(model) for model in models}
    taken = Counter(name.lower() for name in plain.values())
    chosen = {label: name if taken[name.lower()] == 1 else slug(f"{name} {label}") for label, name in plain.items()}
    return {label: f"{name}_result.json" for label, name in chosen.items()}


def _plain_name(model: ModelRef) -> str:
    """`gpt-4`, `ollama_llama2`: only Ollama's keep their provider, and `:latest` says nothing."""
    name = model.label.removesuffix(":latest")
    provider, slash, rest = name.partition("/")
    if model.provider == "ollama":
        return slug(f"ollama_{rest if slash and provider == 'ollama' else name}")
    return slug(rest if slash and provider in (model.provider, model.house) else name)


def model_data(attempts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One model's result: what holds of all its attempts, or the only one's own fields, and always the list of them."""
    first = attempts[0]
    head = dict(first) if len(attempts) == 1 else {"model": first["model"], "provider": first["provider"]}
    solved = sum(attempt["success"] for attempt in attempts)
    return {**head, "success": solved == len(attempts), "solved": solved, "results": list(attempts)}


def attempts_by_trial(reader: StoreReader) -> dict[str, dict[str, Any]]:
    """What every attempt took and left behind, as plain data, by the id of its trial."""
    short = short_names(sample for (sample,) in reader.rows("SELECT DISTINCT sample FROM samples"))
    return {row["id"]: _attempt_data(row, short[row["sample"]]) for row in reader.records(_ATTEMPTS)}


def _attempt_data(row: sqlite3.Row, task: str) -> dict[str, Any]:
    work = msgspec.json.decode(row["work"], type=Work)
    return {
        "contestant": row["label"],
        "model": row["model"],
        "provider": row["provider"],
        "agent": row["agent"],
        "task": task,
        "task_id": row["sample"],
        "repeat": row["repeat"],
        "success": work.outcome is WorkOutcome.PASSED,
        "outcome": work.outcome,
        "first_try": solved_alone(work),
        "completion_time": round(work.seconds, 3),
        "model_time": round(row["model_s"] or 0.0, 3),
        "waiting_time": round((row["queue_s"] or 0.0) + (row["retry_s"] or 0.0), 3),
        **{name: getattr(work, name) for name in _COUNTS},
        "human_interventions": work.interventions,
        "files_modified": len(work.changes.files),
        "lines_added": work.changes.lines_added,
        "lines_removed": work.changes.lines_removed,
        "input_tokens": row["input_tokens"],
        "output_tokens": row["output_tokens"],
        "cost_usd": row["cost_usd"],
        "failure": row["failure"] or "",
        "isolation": work.isolation.level,
        "limits_missing": ", ".join(work.isolation.missing),
        "agent_version": work.agent_version,
        "permissions": work.permissions,
        "hosts": ", ".join(work.hosts),
        "files": list(work.changes.files),
        "tests_passed": sum(test.passed for test in work.tests) if work.tests else None,
        "tests_total": len(work.tests) or None,
        "tests": [{"id": test.id, "status": test.status, "group": test.group} for test in work.tests],
        "said": row["text"] or "",
        "check_output": work.check_output,
        "diff": work.changes.diff,
        "timestamp": f"{row['finished_at'][:19]}Z",
    }


_COUNTS = (
    *("prompts_sent", "model_calls", "side_calls", "tool_calls", "follow_ups", "permission_requests", "permissions_by_person"),
    *("questions", "manual_edits"),
)


def task_data(summary: Summary) -> dict[str, Any]:
    """What a report says of coding tasks; in a run without any, that there are none."""
    working = [c for c in summary.tested if c.work] or [c for c in summary.contestants if c.work]
    solved = sum(c.finished and c.work is not None and c.work.solve_rate == 1 for c in working)
    tasks = summary.tasks
    names = tasks.tasks if tasks else ()
    rankings = {name: tasks.rankings[name] if tasks else () for name in RANKINGS}
    full = {name: [{"model": r.label, "rank": r.rank, **r.values} for r in places] for name, places in rankings.items()}
    # A tie goes to who was named first.
    winners = {name: places[0].label if places else None for name, places in rankings.items()}
    return {
        "batch_id": summary.info.run_id if tasks else None,
        "task": names[0] if len(names) == 1 else list(names),
        "models_tested": len(working) if tasks else len(summary.tested),
        "successful": solved,
        "failed": len(working) - solved,
        "total_time": round(tasks.total_s, 3) if tasks else max((c.seconds for c in summary.contestants), default=0.0),
        "rankings": {**winners, "least_intervention": winners["most_autonomous"]},
        "rankings_full": full,
        "summary_stats": _stats(summary),
    }


def _stats(summary: Summary) -> dict[str, Any]:
    attempts = [attempt for c in summary.contestants if c.work for attempt in c.work.attempts]
    times = [attempt.work.seconds for attempt in attempts] or [0.0]
    costs = [c.cost_usd for c in summary.contestants]
    known = [cost for cost in costs if cost is not None]
    return {
        "avg_completion_time": round(sum(times) / len(times), 3),
        "min_completion_time": round(min(times), 3),
        "max_completion_time": round(max(times), 3),
        "avg_prompts_sent": sum(a.work.prompts_sent for a in attempts) / len(attempts) if attempts else 0.0,
        "total_cost_usd": sum(known) if known and len(known) == len(costs) else None,
    }


def work_data(contestant: ContestantSummary) -> dict[str, Any] | None:
    """What a contestant's attempts came to, as plain data."""
    work = contestant.work
    if work is None:
        return None
    return {
        "planned": work.planned,
        "attempted": len(work.attempts),
        "solved": len(work.solved),
        "solved_first_try": work.solved_alone,
        "solved_with_help": len(work.solved) - work.solved_alone,
        "outcomes": dict(work.outcomes),
    }


def write_json(path: Path, data: Any) -> Path:
    """A JSON file people can read, whole or not at all."""
    with atomic_writer(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n")
    return path


def guarded_cell(cell: str) -> str:
    """The cell with a quote before it, if a spreadsheet would run it."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    with atomic_writer(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="", write_through=True)
        writer = csv.writer(text)
        names = [name for name in (rows[0] if rows else {}) if name not in _LEFT_OUT_OF_CSV]
        writer.writerow(names)
        for row in rows:
            cells = [row[name] for name in names]
            writer.writerow([guarded_cell(cell) if isinstance(cell, str) else cell for cell in cells])
        text.detach()
    return path
