"""A run as CSV and JSON files, written whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from tiebreak.core.files import atomic_writer
from tiebreak.report.caveats import caveats
from tiebreak.report.summary import ContestantSummary, Summary
from tiebreak.report.verdict import claims
from tiebreak.report.work_files import attempts_by_trial, guarded_cell, task_data, work_data
from tiebreak.store.reader import StoreReader

SCHEMA_VERSION = 3
_BATCH = 500
_ENCODER = msgspec.json.Encoder()

COLUMNS = {
    "contestant": "c.label",
    "model": "c.model",
    "provider": "c.provider",
    "agent": "c.agent",
    "prompt_name": "c.prompt",
    "sample": "t.sample",
    "category": "t.category",
    "repeat": "t.repeat",
    "outcome": "t.outcome",
    "score": "t.score",
    "second": "t.second",
    "answer": "t.answer",
    "expected": "s.target",
    "because": "t.because",
    "text": "t.text",
    "failure_kind": "t.failure_kind",
    "failure": "t.failure",
    "input_tokens": "t.input_tokens",
    "cached_tokens": "t.cached_tokens",
    "output_tokens": "t.output_tokens",
    "reasoning_tokens": "t.reasoning_tokens",
    "cost_usd": "t.cost_usd",
    "model_s": "round(t.model_s, 6)",
    "first_token_s": "round(t.first_token_s, 6)",
    "first_answer_s": "round(t.first_answer_s, 6)",
    "queue_s": "round(t.queue_s, 6)",
    "retry_s": "round(t.retry_s, 6)",
    "in_flight": "t.in_flight",
    "cached": "t.cached",
    "attempts": "t.attempts",
    "finished_at": "t.finished_at",
    "prompt": "s.prompt",
}


class StoredTrial(msgspec.Struct, frozen=True, gc=False):
    """A trial as the files have it, a field per column; made and written in half the time of a dictionary."""

    contestant: str
    model: str
    provider: str
    agent: str
    prompt_name: str
    sample: str
    category: str
    repeat: int
    """From 0."""
    outcome: str
    score: float | None
    """None when the trial failed."""
    second: float | None
    """The score by a second, independent rule, where there is one."""
    answer: str | None
    """What was read as the answer."""
    expected: str | None
    because: str | None
    text: str | None
    """All the model said."""
    failure_kind: str | None
    failure: str | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    model_s: float | None
    first_token_s: float | None
    first_answer_s: float | None
    queue_s: float | None
    retry_s: float | None
    in_flight: int | None
    cached: int | None
    attempts: int | None
    finished_at: str
    prompt: str
    """What was asked."""


_QUERY = (
    f"SELECT t.id, {', '.join(f'{source} AS {name}' for name, source in COLUMNS.items())} FROM trials t"
    " JOIN contestants c ON c.contestant = t.contestant JOIN samples s ON s.asked = t.asked"
    " WHERE t.superseded = 0 ORDER BY t.contestant, t.sample, t.repeat"
)


def write_files(reader: StoreReader, summary: Summary, json_path: Path, csv_path: Path | None) -> None:
    """The summary and every trial as JSON and, unless left out, every trial as CSV; both in one pass over the store."""
    attempts = attempts_by_trial(reader) if summary.tasks else {}
    with contextlib.ExitStack() as stack:
        json_file = stack.enter_context(atomic_writer(json_path))
        csv_file = stack.enter_context(atomic_writer(csv_path)) if csv_path else None
        if csv_file is not None:
            csv_file.write(f"{','.join(COLUMNS)}\r\n".encode())
        json_file.write(_ENCODER.encode(summary_data(summary))[:-1] + b',"results":[')
        separator = b"\n"
        for rows in batches_of_trials(reader):
            # Encoded together and without the brackets of the list.
            encoded = _ENCODER.encode([_result(row, attempts) for row in rows])
            json_file.write(separator + encoded[1:-1])
            separator = b",\n"
            if csv_file is not None:
                # A lone surrogate has no bytes of its own and becomes a visible "?".
                csv_file.write("".join([_csv_line(row) for row in rows]).encode("utf-8", "replace"))
        json_file.write(b"\n]}\n")


def _result(row: tuple[Any, ...], attempts: Mapping[str, Mapping[str, Any]]) -> Any:
    """A trial as an object; an attempt at a coding task has what it took beside it."""
    if row[0] in attempts:
        return {**dict(zip(COLUMNS, row[1:], strict=True)), **attempts[row[0]]}
    return StoredTrial(*row[1:])


def _csv_line(row: tuple[Any, ...]) -> str:
    """A trial as a line of CSV, as `csv.writer` writes it in three times as long: that looks at every letter by itself."""
    cells = ["" if cell is None else _csv_text(cell) if type(cell) is str else repr(cell) for cell in row[1:]]
    return ",".join(cells) + "\r\n"


def _csv_text(text: str) -> str:
    """A text as a cell, in quotes where it needs them; one that a spreadsheet would run as a formula is kept from it."""
    # Most short texts are a word, and most long ones begin with a letter: they need no second look.
    if text.isalnum():
        return text
    if text and not text[0].isalnum():
        text = guarded_cell(text)
    quoted = "," in text or '"' in text or "\n" in text or "\r" in text
    return '"' + text.replace('"', '""') + '"' if quoted else text


def is_trials_csv(path: Path) -> bool:
    """Whether a file is one that was written here, by its first line."""
    with path.open("rb") as file:
        return file.readline(1000).decode("utf-8", "replace").startswith(",".join(list(COLUMNS)[:4]))


def batches_of_trials(reader: StoreReader) -> Iterator[list[tuple[Any, ...]]]:
    """Every trial that counts, some hundred at a time: its id, then the columns of COLUMNS."""
    # Sorted in larger pieces, what does not fit into memory goes to the disk once less.
    reader.rows("PRAGMA cache_size = -16384")
    rows = reader.rows(_QUERY)
    while batch := list(islice(rows, _BATCH)):
        yield batch


def stored_trials(folder: Path) -> Iterator[StoredTrial]:
    """Every trial of a run that counts, read as it is needed."""
    with StoreReader(folder) as reader:
        for batch in batches_of_trials(reader):
            yield from (StoredTrial(*row[1:]) for row in batch)


def summary_data(summary: Summary) -> dict[str, Any]:
    """The summary as plain data: one shape for questions and coding tasks, described in docs/reference.md."""
    info = summary.info
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": info.run_id,
        "created_at": info.created_at,
        "command": info.command,
        "made_with": info.made_with,
        "protocol": asdict(info.protocol),
        "pace": asdict(info.pace),
        "contestants": [_contestant_data(contestant) for contestant in summary.contestants],
        "comparisons": [asdict(comparison) for comparison in summary.comparisons],
        "tiers": summary.tiers,
        "leader": summary.leader,
        "alternatives": [asdict(alternative) for alternative in summary.alternatives],
        "costs": asdict(summary.costs) if summary.costs else None,
        "speeds": asdict(summary.speeds) if summary.speeds else None,
        "looks": summary.looks,
        "extensions": summary.extensions,
        "error": summary.error,
        "common_samples": summary.common_samples,
        "cost_front": summary.cost_front,
        "latency_front": summary.latency_front,
        "factors": [asdict(factor) for factor in summary.factors],
        "noise": asdict(summary.noise) if summary.noise else None,
        "chosen": asdict(summary.chosen) if summary.chosen else None,
        **_judging_data(summary),
        "claims": [{"kind": claim.kind, "facts": claim.facts, "sentence": claim.sentence} for claim in claims(summary)],
        "caveats": caveats(summary),
        **task_data(summary),
    }


def _judging_data(summary: Summary) -> dict[str, Any]:
    """What judges did, beside the contestants and not among them; and what people's votes make of the scores."""
    judging = summary.judging
    if judging is None:
        return {"judges": [], "judging": None}
    data = asdict(judging)
    return {"judges": data.pop("judges"), "judging": data}


def _contestant_data(summary: ContestantSummary) -> dict[str, Any]:
    contestant, ref = summary.contestant, summary.model
    figures = {name: getattr(summary, name) for name in _FIGURES}
    return {
        "label": contestant.label,
        "model": ref.label,
        "agent": contestant.agent.label,
        "prompt": contestant.prompting.name,
        "factors": contestant.factors,
        "provider": ref.provider,
        "name": ref.name,
        "display_name": ref.display_name,
        "settings": dict(ref.sent),
        "prompting": asdict(contestant.prompting),
        "reference": contestant.reference,
        "local": ref.local,
        **figures,
        "failed": dict(summary.failures),
        "interval": [summary.low, summary.high],
        "by_scorer": dict(summary.by_scorer),
        "latency": asdict(summary.latency) if summary.latency else None,
        "categories": [asdict(category) for category in summary.categories],
        "work": work_data(summary),
    }


_FIGURES = (
    *("state", "message", "planned", "right", "wrong", "no_answer"),
    *("refused", "empty", "filtered", "cut_off", "exhausted", "unjudged", "awaiting_judge", "not_asked", "remembered"),
    *("score", "interval_method", "samples", "score_failures_wrong", "adjusted_score", "tier", "ranks", "pass_at", "pass_all"),
    *("seconds", "model_seconds", "input_tokens", "output_tokens", "cost_usd", "known_cost_usd", "cost_per_trial"),
    *("second_readings", "readings_differ"),
)
