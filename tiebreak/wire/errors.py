"""From an HTTP status and body to one kind of failure, whoever the provider is."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from tiebreak.core.errors import FailureKind, MissingModel, ProviderError, RateLimitError

_LONGEST_MESSAGE = 500
_NAMING = 160
_QUOTED = re.compile(r"\"[^\"]{0,160}(\"|$)|(?<!\w)'[^']{0,160}('|$)|`[^`]{0,160}(`|$)")

_QUOTA = re.compile(
    r"insufficient[ _](quota|balance|credits?|funds)|exceeded your current quota|billing_|billing hard limit|credit balance"
    r"|payment[ _]required|spend(ing)? limit|billing (is )?(not|details|account)|check your (plan|billing)",
    re.I,
)
_CONTEXT = re.compile(
    r"context[ _](length|window|size)|too many tokens|prompt is too long|maximum.{0,20}tokens|input token count", re.I
)
_KEY = re.compile(r"api[ _]?key|authenticat|unauthori[sz]ed|permission[ _]denied", re.I)

_BY_STATUS: dict[int, FailureKind] = {
    **dict.fromkeys((401, 403), FailureKind.AUTH),
    402: FailureKind.QUOTA,
    404: FailureKind.NOT_FOUND,
    **dict.fromkeys((408, 504), FailureKind.TIMEOUT),
    **dict.fromkeys((409, 425), FailureKind.TRANSIENT),
    413: FailureKind.CONTEXT_LENGTH,
    429: FailureKind.RATE_LIMIT,
    **dict.fromkeys((503, 529), FailureKind.OVERLOADED),
}

_WORDS: dict[int, tuple[str, ...]] = {
    400: ("invalid_request_error", "invalid_prompt", "context_length_exceeded", "INVALID_ARGUMENT", "FAILED_PRECONDITION"),
    401: ("authentication_error", "invalid_api_key", "UNAUTHENTICATED"),
    402: ("billing_error", "insufficient_quota"),
    403: ("permission_error", "PERMISSION_DENIED"),
    404: ("not_found_error", "model_not_found", "NOT_FOUND"),
    413: ("request_too_large",),
    429: ("rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"),
    503: ("UNAVAILABLE",),
    504: ("timeout_error", "DEADLINE_EXCEEDED"),
    529: ("overloaded_error", "engine_overloaded", "server_is_overloaded"),
}
"""What providers call an error once the answer has begun, by the status it would have had before."""
_BY_WORD = {word: status for status, words in _WORDS.items() for word in words}


def http_error(status: int, body: bytes, headers: Mapping[str, str], *, now: datetime | None = None) -> ProviderError:
    """The error an HTTP answer other than 200 stands for."""
    parsed = _parsed(body)
    kind = _kind(status, parsed, body)
    # Google words its limits per minute like a spent quota; only the wait it asks for tells them apart.
    if status == 429 and _retry_info(parsed) is not None and b"PerDay" not in body[:4000]:
        kind = FailureKind.RATE_LIMIT
    wait = retry_after(headers, parsed, now=now) if kind.retryable else None
    return _error(kind, f"HTTP {status}: {_message(parsed, body)}", wait, status)


def reported_error(body: Any) -> ProviderError:
    """The error a server reports, as parsed JSON, inside an answer that began as a good one."""
    text = msgspec.json.encode(body)
    kind = _kind(_status(body), body, text)
    wait = retry_after({}, body) if kind.retryable else None
    return _error(kind, f"the server reported: {_message(body, text)}", wait, None)


def malformed_answer(what: str, body: bytes) -> ProviderError:
    """The error of an answer that says it is fine and is not what was promised."""
    start = body[:120].decode("utf-8", "replace")
    return ProviderError(f"the server's answer {what}: {start!r}", kind=FailureKind.MALFORMED)


def retry_after(headers: Mapping[str, str], body: Any = None, *, now: datetime | None = None) -> float | None:
    """Seconds the server asks us to wait: Retry-After in ms, seconds or as a date, or Google's RetryInfo."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    hint = headers.get("retry-after")
    seconds = _number(hint)
    if seconds is None and hint:
        seconds = _seconds_until(hint, now or datetime.now(UTC))
    if seconds is None:
        seconds = _retry_info(body)
    return None if seconds is None else max(0.0, seconds)


def _error(kind: FailureKind, message: str, wait: float | None, status: int | None) -> ProviderError:
    if kind is FailureKind.RATE_LIMIT:
        return RateLimitError(message, retry_after=wait, status=status)
    if kind is FailureKind.NOT_FOUND:
        return MissingModel(message, status=status)
    return ProviderError(message, kind=kind, retry_after=wait, status=status)


def _status(body: Any) -> int:
    """The HTTP status an error would have had, had it come before the answer began."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return 500
    code = error.get("code")
    if isinstance(code, int) and 400 <= code < 600:
        return code
    words = (error.get(name) for name in ("code", "type", "status"))
    return next((_BY_WORD[word] for word in words if isinstance(word, str) and word in _BY_WORD), 500)


def _kind(status: int, parsed: Any, body: bytes) -> FailureKind:
    said = _error_words(parsed, body)
    if status in (400, 403, 422, 429, 402) and _QUOTA.search(said):
        return FailureKind.QUOTA
    if status in (400, 413, 422) and _CONTEXT.search(said):
        return FailureKind.CONTEXT_LENGTH
    if status == 400 and _KEY.search(said):
        return FailureKind.AUTH
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status < 400:
        # Neither an answer nor an error: something else than the model's server is there, perhaps for a while.
        return FailureKind.MALFORMED
    return FailureKind.TRANSIENT if status >= 500 else FailureKind.BAD_REQUEST


def _error_words(parsed: Any, body: bytes) -> str:
    """The words that name an error: its codes, and how its sentence begins. Further on it may repeat what was asked."""
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    codes = [error.get(name) for name in ("code", "type", "status", "reason")] if isinstance(error, dict) else []
    sentence = _QUOTED.sub("", _message(parsed, body)[:_NAMING])
    return " ".join([*map(str, filter(None, codes)), sentence])


def _parsed(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _message(parsed: Any, body: bytes) -> str:
    """The sentence the provider meant for a person."""
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else None
    said = error.get("message") if isinstance(error, dict) else error
    text = said if isinstance(said, str) and said else body.decode("utf-8", "replace")
    return " ".join(text.split())[:_LONGEST_MESSAGE] or "no message"


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _seconds_until(date: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return None
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()


def _retry_info(body: Any) -> float | None:
    error = body.get("error") if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return _number(delay[:-1])
    return None
