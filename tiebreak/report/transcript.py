"""An attempt at a coding task as files: what happened in Markdown, as a trajectory other tools read, and the patch."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tiebreak.core.files import atomic_writer, slug
from tiebreak.core.steps import BAD, GOOD, spent, standing
from tiebreak.core.work import Step, Work
from tiebreak.report.work import short_names
from tiebreak.report.work_tests import suite_lines, suite_summary
from tiebreak.store.reader import StoreReader

ATTEMPTS = "attempts"
TRAJECTORY = "trajectory.json"
ATIF = "ATIF-v1.4"
"""The Agent Trajectory Interchange Format, as Harbor reads it."""
_FENCE = "`````"
_MOST_TESTS = 500
_ATTEMPTS = (
    "SELECT t.id, c.label, c.model, c.agent, t.sample, t.repeat, t.input_tokens, t.output_tokens, t.cached_tokens, t.cost_usd,"
    " t.failure, w.work, w.transcript FROM trials t JOIN contestants c ON c.contestant = t.contestant"
    " JOIN work w ON w.id = t.id AND w.finished_at = t.finished_at WHERE t.superseded = 0"
    " ORDER BY t.contestant, t.sample, t.repeat"
)


def write_attempts(reader: StoreReader, folder: Path) -> list[Path]:
    """Write the files of every attempt; the folder that holds them all."""
    tasks = short_names(sample for (sample,) in reader.rows("SELECT DISTINCT sample FROM samples"))
    repeated = reader.info.protocol.repeats > 1
    for row in reader.records(_ATTEMPTS):
        name = slug(tasks[row["sample"]]) + (f"_{row['repeat'] + 1}" if repeated else "")
        place = folder / ATTEMPTS / slug(row["label"]) / name
        place.mkdir(parents=True, exist_ok=True)
        _write(place, row)
    return [folder / ATTEMPTS]


def _write(place: Path, row: sqlite3.Row) -> None:
    work = msgspec.json.decode(row["work"], type=Work)
    steps = msgspec.json.decode(row["transcript"], type=tuple[Step, ...])
    _put(place / "transcript.md", transcript(row, work, steps))
    _put(place / TRAJECTORY, json.dumps(trajectory(row, work, steps), indent=2, ensure_ascii=False))
    _put(place / "patch.diff", work.changes.diff)


def _put(path: Path, text: str) -> None:
    with atomic_writer(path) as file:
        file.write((text if text.endswith("\n") or not text else text + "\n").encode("utf-8", "replace"))


def transcript(row: Mapping[str, Any] | sqlite3.Row, work: Work, steps: Sequence[Step]) -> str:
    """Everything that happened, step by step."""
    head = [
        f"# {row['sample']}: {row['label']}",
        f"{work.outcome.replace('_', ' ')} after {work.seconds:.1f} s: {work.model_calls} calls, {work.tool_calls} tool calls",
        *([f"Failure: {row['failure']}"] if row["failure"] else []),
        *_suite(work),
    ]
    return "\n\n".join([*head, *(_told(number, step) for number, step in enumerate(steps, start=1))])


def _suite(work: Work) -> list[str]:
    if not work.tests:
        return []
    return [suite_summary(work), "\n".join([_FENCE, *suite_lines(work, _MOST_TESTS), _FENCE])]


def _told(number: int, step: Step) -> str:
    went = {BAD: _FAILED.get(step.kind, "failed"), GOOD: _DONE.get(step.kind, "")}.get(standing(step), "")
    head = [f"## {number}. {step.kind}", *filter(None, [step.actor, went]), f"at {step.at_s:.1f} s", *spent(step)]
    title = " · ".join(head)
    return f"{title}\n\n{_FENCE}\n{step.text.replace(_FENCE, '````')}\n{_FENCE}" if step.text else title


_FAILED, _DONE = {"error": "", "check": "does not pass"}, {"check": "passes"}


def trajectory(row: Mapping[str, Any] | sqlite3.Row, work: Work, steps: Sequence[Step]) -> dict[str, Any]:
    """The attempt as an ATIF trajectory."""
    made = [step for step in _atif_steps(steps) if step]
    for number, step in enumerate(made, start=1):
        step["step_id"] = number
    return {
        "schema_version": ATIF,
        "session_id": row["id"],
        "agent": {"name": row["agent"], "version": work.agent_version or "unknown", "model_name": row["model"]},
        "steps": made,
        "final_metrics": _without_none(
            total_prompt_tokens=row["input_tokens"],
            total_completion_tokens=row["output_tokens"],
            total_cached_tokens=row["cached_tokens"],
            total_cost_usd=row["cost_usd"],
            total_steps=len(made),
        ),
        "extra": {"outcome": work.outcome, "task": row["sample"], "seconds": work.seconds},
    }


def _atif_steps(steps: Sequence[Step]) -> Iterator[dict[str, Any]]:
    """Calls are steps of the agent, with what their tools gave back; all else was told to it."""
    last: dict[str, Any] | None = None
    waiting: list[str] = []
    for number, step in enumerate(steps):
        if step.kind == "tool" and last is not None:
            result = _without_none(source_call_id=waiting.pop(0) if waiting else None, content=step.text)
            last.setdefault("observation", {"results": []})["results"].append(result)
        elif step.kind in ("call", "replay"):
            last = _atif_call(number, step)
            waiting = [call["tool_call_id"] for call in last.get("tool_calls", ())]
            yield last
        else:
            yield {"source": "user" if step.kind in ("prompt", "answer") else "system", "message": step.text, "extra": _at(step)}


def _atif_call(number: int, step: Step) -> dict[str, Any]:
    calls = [
        {"tool_call_id": f"call_{number}_{place}", "function_name": tool["name"], "arguments": _arguments(tool["arguments"])}
        for place, tool in enumerate(step.data.get("tools") or ())
    ]
    metrics = _without_none(prompt_tokens=step.data.get("input_tokens"), completion_tokens=step.data.get("output_tokens"))
    more = {"tool_calls": calls} if calls else {}
    return {"source": "agent", "message": step.text, **more, "metrics": metrics, "extra": _at(step)}


def _at(step: Step) -> dict[str, Any]:
    return {"kind": step.kind, "at_s": step.at_s}


def _arguments(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    return given if isinstance(given, dict) else {"text": text}


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
