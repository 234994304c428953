"""Between records and rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tiebreak.core.contestant import Contestant
from tiebreak.core.message import MediaPart
from tiebreak.core.preference import Preference
from tiebreak.core.trial import Judgement, Score, TrialResult

_ENCODER = msgspec.json.Encoder()
Redact = Callable[[str], str]

TRIAL_COLUMNS = (
    *("id", "contestant", "asked", "sample", "category", "repeat", "outcome", "score", "second", "answer", "because"),
    *("text", "thinking", "scores", "failure_kind", "failure"),
    *("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "cost_usd"),
    *(
        "model_s",
        "first_token_s",
        "first_answer_s",
        "queue_s",
        "retry_s",
        "in_flight",
        "attempts",
        "finished_at",
        "cached",
        "unjudged",
    ),
)
INSERT_TRIALS = f"INSERT OR IGNORE INTO trials ({', '.join(TRIAL_COLUMNS)}) VALUES "
INSERT_LOST_TRIALS = f"INSERT INTO trials ({', '.join(TRIAL_COLUMNS)}, superseded) VALUES "
INSERT_SAMPLES = "INSERT OR IGNORE INTO samples VALUES "
INSERT_WORK = "INSERT OR REPLACE INTO work VALUES "
INSERT_EXCHANGES = "INSERT OR REPLACE INTO exchanges VALUES "
INSERT_UNKNOWN_CALLS = "INSERT INTO unknown_calls VALUES "
INSERT_ENDS = "INSERT INTO ends VALUES "
JUDGEMENT_COLUMNS = (
    *("trial", "scorer", "judge", "value", "failure_kind", "calls", "input_tokens", "output_tokens", "cost_usd", "seconds"),
    *("at", "grades", "because", "failure", "reply_text"),
)
INSERT_JUDGEMENTS = f"INSERT INTO judgements ({', '.join(JUDGEMENT_COLUMNS)}) VALUES "
PREFERENCE_COLUMNS = (
    *("sample", "first", "second", "scorer", "judge", "better", "failure_kind", "calls", "input_tokens", "output_tokens"),
    *("cost_usd", "seconds", "local", "at", "because", "failure", "reply_text"),
)
INSERT_PREFERENCES = f"INSERT INTO preferences ({', '.join(PREFERENCE_COLUMNS)}) VALUES "
JUDGE_KEPT_ANSWER = (
    "UPDATE trials SET outcome = ?, score = ?, second = ?, answer = ?, because = ?, failure_kind = ?, failure = ?, unjudged = ?,"
    " scores = json_patch(coalesce(scores, '{}'), ?) WHERE id = ? AND NOT superseded"
)
"""The answer itself, and what it took, stay as they are."""
_ROWS_AT_ONCE = (256, 64, 16, 4, 1)
"""A few sizes only: every size is a statement of its own, and sqlite3 keeps prepared ones in memory."""

REFUSED = frozenset({"rate_limit", "auth", "quota", "not_found", "bad_request", "context_length"})
"""Kinds of failures that cost nothing: the server did not take the request."""
_NO_USAGE = (None, None, None, None, None)
_NO_TIMES = (None, None, None, None, None, None)


def trial_row(result: TrialResult, contestant: int, redact: Redact) -> tuple[Any, ...]:
    """A result as a row of `trials`. Every text a server wrote goes through the redaction."""
    trial, output, failure, primary = result.trial, result.output, result.failure, result.primary
    sample = trial.sample
    head = (trial.id, contestant, trial.asked, _safe(sample.id), _safe(sample.category))
    judged = _judged(primary, redact)
    if output is None:
        said: tuple[Any, ...] = (None, None)
        spent: tuple[Any, ...] = (*_NO_USAGE, None, None, None, None, None, None, failure.attempts if failure else 0)
    else:
        timing, usage = output.timing, output.usage
        text = _safe(redact(output.text)) if output.text or failure is None else None
        said = (text, _safe(redact(output.thinking)) if output.thinking else None)
        tokens = _NO_USAGE if usage is None else (
            usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens, usage.cost_usd
        )  # fmt: skip
        waits = _NO_TIMES if output.batched else (
            timing.model_s, timing.first_token_s, timing.first_answer_s, timing.queue_s, timing.retry_s, timing.in_flight
        )  # fmt: skip
        spent = (*tokens, *waits, output.attempts)
    scores = None if _is_plain(result, primary) else _encoded_scores(result, redact)
    failed = _failure(result, redact)
    tail = (result.finished_at.isoformat(timespec="milliseconds"), output is not None and output.cached, _unjudged(result))
    return (*head, trial.repeat, result.outcome.value, *judged, *said, scores, *failed, *spent, *tail)


def unknown_calls_rows(numbered: Sequence[tuple[TrialResult, int]]) -> list[tuple[Any, ...]]:
    """A row of each trial whose calls may have been paid for without its own row telling so; with its contestant's number."""
    return [
        (number, result.trial.id, result.output.unknown_calls)
        for result, number in numbered
        if result.output is not None and result.output.unknown_calls and not _tells_of_doubt(result)
    ]


def _tells_of_doubt(result: TrialResult) -> bool:
    """A row without any usage says by itself that nobody knows what the trial cost, unless it was refused."""
    refused = result.failure is not None and result.failure.kind.value in REFUSED
    return result.output is not None and result.output.usage is None and not refused


def kept_answer_row(result: TrialResult, redact: Redact) -> tuple[Any, ...]:
    """What was made of an answer that had been kept, for `JUDGE_KEPT_ANSWER`."""
    judged, failed = _judged(result.primary, redact), _failure(result, redact)
    scores = _encoded_scores(result, redact)
    return (result.outcome.value, *judged, *failed, _unjudged(result), scores, result.trial.id)


def _judged(primary: Score | None, redact: Redact) -> tuple[Any, ...]:
    if primary is None:
        return (None, None, None, None)
    return (primary.value, primary.second, _optional(primary.answer, redact), _safe(redact(primary.because)))


def _is_plain(result: TrialResult, primary: Score | None) -> bool:
    """Whether the columns alone tell all scores: one, of the scorer that ranks, with nothing to it."""
    if not result.scores:
        return True
    return len(result.scores) == 1 and primary is not None and not (primary.usage or primary.grades or result.unjudged)


def _encoded_scores(result: TrialResult, redact: Redact) -> str:
    return _safe(redact(_ENCODER.encode(result.scores).decode()))


def _failure(result: TrialResult, redact: Redact) -> tuple[str | None, str | None]:
    failure = result.failure
    return (None, None) if failure is None else (failure.kind.value, _safe(redact(failure.message)))


def _unjudged(result: TrialResult) -> str | None:
    """The outcome of the answer itself, where a judge is still to be heard."""
    return result.output.outcome.value if result.unjudged and result.output is not None else None


def judgement_row(trial: str, judgement: Judgement, at: datetime, redact: Redact) -> tuple[Any, ...]:
    """What a judge said as a row of `judgements`. Every text it wrote goes through the redaction."""
    score, usage, failure = judgement.score, judgement.usage, judgement.failure
    tokens = (None, None, None) if usage is None else (usage.input_tokens, usage.output_tokens, usage.cost_usd)
    return (
        trial,
        judgement.scorer,
        judgement.judge,
        None if score is None else score.value,
        None if failure is None else failure.kind.value,
        judgement.calls,
        *tokens,
        judgement.seconds,
        at.isoformat(timespec="milliseconds"),
        _ENCODER.encode(score.grades).decode() if score is not None and score.grades else None,
        None if score is None else _safe(redact(score.because)),
        None if failure is None else _safe(redact(failure.message)),
        _safe(redact(judgement.reply_text)) or None,
    )


def preference_row(given: Preference, at: datetime, redact: Redact) -> tuple[Any, ...]:
    """What a judge said of two answers as a row of `preferences`. Every text it wrote goes through the redaction."""
    usage, failure = given.usage, given.failure
    tokens = (None, None, None) if usage is None else (usage.input_tokens, usage.output_tokens, usage.cost_usd)
    return (
        *(given.sample, given.first, given.second, given.scorer, given.judge, given.better),
        None if failure is None else failure.kind.value,
        given.calls,
        *tokens,
        given.seconds,
        given.local,
        at.isoformat(timespec="milliseconds"),
        _safe(redact(given.because)) or None,
        None if failure is None else _safe(redact(failure.message)),
        _safe(redact(given.reply_text)) or None,
    )


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
        "null" if sample.exchange is None else _encoded([_media(part) for part in sample.media]),
    )


def _media(part: MediaPart) -> dict[str, Any]:
    """An image or document of a sample, by its digest."""
    return {"digest": part.digest, "media_type": part.media_type, "name": part.name, "size_bytes": part.size_bytes}


def exchange_row(result: TrialResult, redact: Redact) -> tuple[str, str, str]:
    """What was said in an exchange as a row of `exchanges`. The whole of it goes through the redaction."""
    assert result.output is not None
    said = _safe(redact(_ENCODER.encode(result.output.messages).decode()))
    return (result.trial.id, result.finished_at.isoformat(timespec="milliseconds"), said)


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
