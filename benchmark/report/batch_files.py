"""A batch as files: one per model, and the comparison as JSON and CSV. All can be rebuilt from the store."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmark.core.files import atomic_writer, slug
from benchmark.core.model import ModelRef
from benchmark.report.batch import Attempt, BatchSummary, Contestant, Ranked
from benchmark.report.tabular import guarded_cell

BATCH_SCHEMA_VERSION = 1
REPORT = "comparison_report"
_LEFT_OUT_OF_CSV = ("check_output", "diff", "files", "said")


def write_batch_files(summary: BatchSummary, folder: Path) -> list[Path]:
    """Write every file of a batch but the pages, and say where they are."""
    names = file_names(summary.info.models)
    written = []
    for model in summary.info.models:
        own = [attempt for attempt in summary.attempts if attempt.model.label == model.label]
        if own:
            written.append(write_json(folder / names[model.label], model_data(own)))
    written.append(write_json(folder / f"{REPORT}.json", batch_data(summary)))
    written.append(_write_csv(folder / f"{REPORT}.csv", [attempt_data(attempt) for attempt in summary.attempts]))
    return written


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


def model_data(attempts: Sequence[Attempt]) -> dict[str, Any]:
    """One model's result: the attempt itself when there is one, else the list of them."""
    if len(attempts) == 1:
        return attempt_data(attempts[0])
    first = attempts[0]
    return {
        "model": first.model.label,
        "provider": first.model.provider,
        "success": all(attempt.solved for attempt in attempts),
        "solved": sum(attempt.solved for attempt in attempts),
        "results": [attempt_data(attempt) for attempt in attempts],
    }


def attempt_data(attempt: Attempt) -> dict[str, Any]:
    """One attempt as plain data."""
    work = attempt.work
    return {
        "model": attempt.model.label,
        "provider": attempt.model.provider,
        "agent": attempt.agent,
        "task": attempt.task,
        "task_id": attempt.sample,
        "repeat": attempt.repeat,
        "success": attempt.solved,
        "outcome": work.outcome,
        "first_try": attempt.solved and work.first_try and not work.interventions,
        "completion_time": round(work.seconds, 3),
        "model_time": round(attempt.model_s, 3),
        "waiting_time": round(attempt.waits_s, 3),
        "prompts_sent": work.prompts_sent,
        "model_calls": work.model_calls,
        "side_calls": work.side_calls,
        "tool_calls": work.tool_calls,
        "human_interventions": work.interventions,
        "follow_ups": work.follow_ups,
        "permission_requests": work.permission_requests,
        "permissions_by_person": work.permissions_by_person,
        "questions": work.questions,
        "manual_edits": work.manual_edits,
        "files_modified": len(work.changes.files),
        "lines_added": work.changes.lines_added,
        "lines_removed": work.changes.lines_removed,
        "input_tokens": attempt.input_tokens,
        "output_tokens": attempt.output_tokens,
        "cost_usd": attempt.cost_usd,
        "failure": attempt.failure,
        "isolation": work.isolation.level,
        "limits_missing": ", ".join(work.isolation.missing),
        "agent_version": work.agent_version,
        "permissions": work.permissions,
        "hosts": ", ".join(work.hosts),
        "files": list(work.changes.files),
        "said": attempt.said,
        "check_output": work.check_output,
        "diff": work.changes.diff,
        "timestamp": f"{attempt.finished_at[:19]}Z",
    }


def batch_data(summary: BatchSummary) -> dict[str, Any]:
    """The whole comparison as plain data."""
    tested = [c for c in summary.contestants if not c.reference] or list(summary.contestants)
    successful = sum(c.finished and bool(c.solved) and len(c.solved) == c.planned for c in tested)
    winners = {name: summary.winner(name) for name in summary.rankings}
    return {
        "schema_version": BATCH_SCHEMA_VERSION,
        "kind": "batch",
        "batch_id": summary.info.run_id,
        "created_at": summary.info.created_at,
        "command": summary.info.command,
        "made_with": summary.info.made_with,
        "task": summary.tasks[0] if len(summary.tasks) == 1 else list(summary.tasks),
        "models_tested": len(tested),
        "successful": successful,
        "failed": len(tested) - successful,
        "total_time": round(summary.total_s, 3),
        "rankings": {**winners, "least_intervention": winners["most_autonomous"]},
        "rankings_full": {name: [_place(ranked) for ranked in ranking] for name, ranking in summary.rankings.items()},
        "summary_stats": _stats(summary),
        "contestants": [_contestant_data(contestant) for contestant in summary.contestants],
        "caveats": list(summary.caveats),
        "results": [attempt_data(attempt) for attempt in summary.attempts],
    }


def _place(ranked: Ranked) -> dict[str, Any]:
    return {"model": ranked.label, "rank": ranked.rank, **ranked.values}


def _stats(summary: BatchSummary) -> dict[str, Any]:
    attempts = summary.attempts
    times = [attempt.work.seconds for attempt in attempts]
    costs = [contestant.cost_usd for contestant in summary.contestants]
    known = [cost for cost in costs if cost is not None]
    return {
        "avg_completion_time": round(sum(times) / len(times), 3) if times else 0.0,
        "min_completion_time": round(min(times), 3) if times else 0.0,
        "max_completion_time": round(max(times), 3) if times else 0.0,
        "avg_prompts_sent": sum(a.work.prompts_sent for a in attempts) / len(attempts) if attempts else 0.0,
        "total_cost_usd": sum(known) if known and len(known) == len(costs) else None,
    }


def _contestant_data(contestant: Contestant) -> dict[str, Any]:
    return {
        "model": contestant.model.label,
        "agent": contestant.agent,
        "label": contestant.label,
        "reference": contestant.reference,
        "state": contestant.state,
        "message": contestant.message,
        "planned": contestant.planned,
        "attempted": len(contestant.attempts),
        "solved": len(contestant.solved),
        "solved_first_try": contestant.first_try,
        "solved_with_help": len(contestant.solved) - contestant.first_try,
        "outcomes": dict(contestant.outcomes),
        "cost_usd": contestant.cost_usd,
    }


def write_json(path: Path, data: Any) -> Path:
    """A JSON file people can read, whole or not at all."""
    with atomic_writer(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n")
    return path


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
