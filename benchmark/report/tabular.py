"""A run as CSV and JSON files, written whole or not at all."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from benchmark.core.files import atomic_writer
from benchmark.report.summary import ModelSummary, Summary
from benchmark.store.reader import StoreReader

SCHEMA_VERSION = 1
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
    "retry_s": "round(t.retry_s, 6)",
    "attempts": "t.attempts",
    "finished_at": "t.finished_at",
    "prompt": "s.prompt",
}
_QUERY = (
    f"SELECT {', '.join(f'{source} AS {name}' for name, source in COLUMNS.items())} FROM trials t"
    " JOIN models m ON m.model = t.model JOIN samples s ON s.asked = t.asked"
    " WHERE t.superseded = 0 ORDER BY t.model, t.sample, t.repeat"
)


def write_csv(reader: StoreReader, path: Path) -> None:
    """One row per trial, every model's; safe to open in a spreadsheet."""
    with atomic_writer(path, newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(map(_guarded, reader.rows(_QUERY)))


def _guarded(row: tuple[Any, ...]) -> list[Any]:
    """Cells a spreadsheet would run as a formula get a quote before them."""
    return [f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell for cell in row]


def write_json(reader: StoreReader, summary: Summary, path: Path) -> None:
    """The summary and every trial. Schema: docs/reference.md, "comparison_report.json"."""
    head = _ENCODER.encode(summary_data(summary)).decode()
    with atomic_writer(path) as file:
        file.write(head[:-1] + ',"results":[')
        for position, line in enumerate(_lines(reader)):
            file.write(f"{',' if position else ''}\n{line}")
        file.write("\n]}\n")


def _lines(reader: StoreReader) -> Iterator[str]:
    names = tuple(COLUMNS)
    for row in reader.rows(_QUERY):
        yield _ENCODER.encode(dict(zip(names, row, strict=True))).decode()


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
    }


def _model_data(model: ModelSummary) -> dict[str, Any]:
    ref = model.model
    return {
        "model": ref.label,
        "provider": ref.provider,
        "name": ref.name,
        "settings": dict(ref.settings),
        "reference": ref.reference,
        "local": ref.local,
        "state": model.state,
        "message": model.message,
        "planned": model.planned,
        "right": model.right,
        "wrong": model.wrong,
        "no_answer": model.no_answer,
        "failed": dict(model.failures),
        "not_asked": model.not_asked,
        "score": model.score,
        "interval": [model.low, model.high],
        "seconds": model.seconds,
        "model_seconds": model.model_seconds,
        "input_tokens": model.input_tokens,
        "output_tokens": model.output_tokens,
        "cost_usd": model.cost_usd,
        "categories": [asdict(category) for category in model.categories],
    }
