"""Between records and rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tiebreak.core.contestant import Contestant
from tiebreak.core.trial import TrialResult

_ENCODER = msgspec.json.Encoder()
Redact = Callable[[str], str]

TRIAL_COLUMNS = (
    *("id", "contestant", "asked", "sample", "category", "repeat", "outcome", "score", "second", "answer", "because"),
    *("text", "thinking", "scores", "failure_kind", "failure"),
    *("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "cost_usd"),
    *("model_s", "first_token_s", "queue_s", "retry_s", "in_flight", "attempts", "finished_at", "cached"),
)
INSERT_TRIALS = f"INSERT OR IGNORE INTO trials ({', '.join(TRIAL_COLUMNS)}) VALUES "
INSERT_SAMPLES = "INSERT OR IGNORE INTO samples VALUES "
INSERT_WORK = "INSERT OR REPLACE INTO work VALUES "
INSERT_ENDS = "INSERT INTO ends VALUES "
_ROWS_AT_ONCE = (256, 64, 16, 4, 1)
"""A few sizes only: every size is a statement of its own, and sqlite3 keeps prepared ones in memory."""

_NO_USAGE = (None, None, None, None, None)


def trial_row(result: TrialResult, contestant: int, redact: Redact) -> tuple[Any, ...]:
    """A result as a row of `trials`. Every text a server wrote goes through the redaction."""
    trial, output, failure, primary = result.trial, result.output, result.failure, result.primary
    sample = trial.sample
    head = (trial.id, contestant, trial.asked, _safe(sample.id), _safe(sample.category))
    judged: tuple[Any, ...] = (None, None, None, None)
    if primary is not None:
        judged = (primary.value, primary.second, _optional(primary.answer, redact), _safe(primary.because))
    if output is None:
        said: tuple[Any, ...] = (None, None)
        spent: tuple[Any, ...] = (*_NO_USAGE, None, None, None, None, None, failure.attempts if failure else 0)
    else:
        timing, usage = output.timing, output.usage
        text = _safe(redact(output.text)) if output.text or failure is None else None
        said = (text, _safe(redact(output.thinking)) if output.thinking else None)
        tokens = _NO_USAGE if usage is None else (
            usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens, usage.cost_usd
        )  # fmt: skip
        waits = (timing.model_s, timing.first_token_s, timing.queue_s, timing.retry_s, timing.in_flight)
        spent = (*tokens, *waits, output.attempts)
    told = len(result.scores) > 1 or (primary is not None and primary.usage is not None)
    scores = _safe(redact(_ENCODER.encode(result.scores).decode())) if told else None
    failed = (None, None) if failure is None else (failure.kind.value, _safe(redact(failure.message)))
    tail = (result.finished_at.isoformat(timespec="milliseconds"), output is not None and output.cached)
    return (*head, trial.repeat, result.outcome.value, *judged, *said, scores, *failed, *spent, *tail)


def work_row(result: TrialResult, redact: Redact) -> tuple[Any, ...]:
    """What a coding task's attempt amounted to, as a row of `work`. The whole of it goes through the redaction."""
    finished = result.finished_at.isoformat(timespec="milliseconds")
    parts = (_safe(redact(_ENCODER.encode(part).decode())) for part in (result.work, result.transcript))
    return (result.trial.id, finished, *parts)


def sample_row(result: TrialResult) -> tuple[Any, ...]:
    """The result's sample as a row of `samples`: what was asked and what would be right."""
    sample = result.trial.sample
    return (
        result.trial.asked,
        _safe(sample.id),
        _safe(sample.category),
        _safe(sample.group),
        result.trial.place,
        _safe(sample.prompt),
        _safe(sample.target),
        _encoded(sample.choices),
        _encoded(sample.metadata),
    )


def contestant_row(contestant: Contestant) -> tuple[str, ...]:
    """A contestant as a row of `contestants`, its number left out."""
    model = contestant.model
    factors = (model.label, model.provider, contestant.agent.label, contestant.prompting.name)
    return (contestant.label, *factors, _ENCODER.encode(contestant).decode())


def insert(connection: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows, many with each statement.

    sqlite3 lets go of the interpreter's lock for every statement and then queues for it behind the event loop:
    with a statement per row the two threads would mostly wait for each other.
    """
    start = 0
    for size in _ROWS_AT_ONCE:
        while len(rows) - start >= size:
            chunk = rows[start : start + size]
            values = f"({', '.join('?' * len(chunk[0]))})"
            connection.execute(statement + ", ".join([values] * size), [cell for row in chunk for cell in row])
            start += size


def _encoded(data: Any) -> str:
    return _ENCODER.encode(data).decode() if data else "null"


def safe(text: str | None) -> str | None:
    """Text, if there is any, that SQLite takes."""
    return None if text is None else _safe(text)


def _optional(text: str | None, redact: Redact) -> str | None:
    return None if text is None else _safe(redact(text))


def _safe(text: str) -> str:
    """Text that SQLite takes: a lone surrogate, which some models emit, has no bytes of its own."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
