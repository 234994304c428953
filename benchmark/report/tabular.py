"""A run as CSV and JSON files, written whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from benchmark.core.files import atomic_writer
from benchmark.report.caveats import caveats
from benchmark.report.summary import ModelSummary, Summary
from benchmark.report.verdict import claims
from benchmark.store.reader import StoreReader

SCHEMA_VERSION = 2
_BATCH = 500
_ENCODER = msgspec.json.Encoder()
_FORMULA = re.compile(r"[\s\u200b-\u200d\u2060\ufeff]*[=+\-@\t\r]")

COLUMNS = {
    "model": "m.label",
    "sample": "t.sample",
    "category": "t.category",
    "repeat": "t.repeat",
    "agent": "t.agent",
    "outcome": "t.outcome",
    "score": "t.score",
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
    "queue_s": "round(t.queue_s, 6)",
    "retry_s": "round(t.retry_s, 6)",
    "cached": "t.cached",
    "attempts": "t.attempts",
    "finished_at": "t.finished_at",
    "prompt": "s.prompt",
}
_NUMBERS = frozenset(
    {
        *("repeat", "score", "cached", "attempts", "cost_usd", "model_s", "first_token_s", "queue_s", "retry_s"),
        *("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"),
    }
)
_TEXTS = tuple(place for place, name in enumerate(COLUMNS) if name not in _NUMBERS)
_QUERY = (
    f"SELECT {', '.join(f'{source} AS {name}' for name, source in COLUMNS.items())} FROM trials t"
    " JOIN models m ON m.model = t.model JOIN samples s ON s.asked = t.asked"
    " WHERE t.superseded = 0 ORDER BY t.model, t.sample, t.repeat"
)


def write_files(reader: StoreReader, summary: Summary, json_path: Path, csv_path: Path | None) -> None:
    """The summary and every trial as JSON and, unless left out, every trial as CSV; both in one pass over the store."""
    with contextlib.ExitStack() as stack:
        json_file = stack.enter_context(atomic_writer(json_path))
        csv_rows = _csv_writer(stack, csv_path) if csv_path else None
        json_file.write(_ENCODER.encode(summary_data(summary))[:-1] + b',"results":[')
        separator = b"\n"
        for rows in batches_of_trials(reader):
            # Encoded together and without the brackets of the list.
            encoded = _ENCODER.encode([dict(zip(COLUMNS, row, strict=True)) for row in rows])
            json_file.write(separator + encoded[1:-1])
            separator = b",\n"
            if csv_rows is not None:
                csv_rows.writerows([guarded(row) for row in rows])
        json_file.write(b"\n]}\n")


def write_trials(reader: StoreReader, path: Path) -> None:
    """Every trial as CSV."""
    with contextlib.ExitStack() as stack:
        writer = _csv_writer(stack, path)
        for rows in batches_of_trials(reader):
            writer.writerows([guarded(row) for row in rows])


def _csv_writer(stack: contextlib.ExitStack, path: Path) -> Any:
    """A writer of rows, the header already written."""
    file = stack.enter_context(atomic_writer(path))
    # A lone surrogate has no bytes of its own and becomes a visible "?".
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="", write_through=True)
    stack.callback(text.detach)
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    return writer


def batches_of_trials(reader: StoreReader) -> Iterator[list[tuple[Any, ...]]]:
    """Every trial that counts, with the columns of COLUMNS, some hundred at a time."""
    rows = reader.rows(_QUERY)
    while batch := list(islice(rows, _BATCH)):
        yield batch


def guarded(row: tuple[Any, ...]) -> list[Any]:
    """A trial's cells; those a spreadsheet would run as a formula get a quote before them."""
    cells = list(row)
    for place in _TEXTS:
        cell = cells[place]
        # Most texts begin with a letter, and need no second look.
        if cell and not cell[0].isalnum():
            cells[place] = guarded_cell(cell)
    return cells


def guarded_cell(cell: str) -> str:
    """The cell with a quote before it, if a spreadsheet would run it."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def summary_data(summary: Summary) -> dict[str, Any]:
    """The summary as plain data."""
    info = summary.info
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": info.run_id,
        "created_at": info.created_at,
        "command": info.command,
        "made_with": info.made_with,
        "protocol": asdict(info.protocol),
        "models": [_model_data(model) for model in summary.models],
        "comparisons": [asdict(comparison) for comparison in summary.comparisons],
        "tiers": summary.tiers,
        "common_samples": summary.common_samples,
        "cost_front": summary.cost_front,
        "latency_front": summary.latency_front,
        "claims": [{"kind": claim.kind, "facts": claim.facts, "sentence": claim.sentence} for claim in claims(summary)],
        "caveats": caveats(summary),
    }


def _model_data(model: ModelSummary) -> dict[str, Any]:
    ref = model.model
    return {
        "model": model.label,
        "agent": model.agent,
        "provider": ref.provider,
        "name": ref.name,
        "settings": dict(ref.settings),
        "reference": model.reference,
        "local": ref.local,
        "state": model.state,
        "message": model.message,
        "planned": model.planned,
        "right": model.right,
        "wrong": model.wrong,
        "no_answer": model.no_answer,
        "refused": model.refused,
        "empty": model.empty,
        "filtered": model.filtered,
        "cut_off": model.cut_off,
        "failed": dict(model.failures),
        "not_asked": model.not_asked,
        "score": model.score,
        "interval": [model.low, model.high],
        "interval_method": model.interval_method,
        "samples": model.samples,
        "score_failures_wrong": model.score_failures_wrong,
        "by_scorer": dict(model.by_scorer),
        "common_score": model.common_score,
        "tier": model.tier,
        "ranks": model.ranks,
        "pass_at": model.pass_at,
        "pass_all": model.pass_all,
        "seconds": model.seconds,
        "model_seconds": model.model_seconds,
        "latency": asdict(model.latency) if model.latency else None,
        "input_tokens": model.input_tokens,
        "output_tokens": model.output_tokens,
        "cost_usd": model.cost_usd,
        "known_cost_usd": model.known_cost_usd,
        "cost_per_trial": model.cost_per_trial,
        "categories": [asdict(category) for category in model.categories],
    }
