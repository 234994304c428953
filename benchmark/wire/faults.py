"""From an HTTP status and body to one kind of failure, whoever the provider is."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from benchmark.core.errors import FailureKind, MissingModel, ProviderError, RateLimitError

_LONGEST_MESSAGE = 500

_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|billing|credit balance|payment|spend(ing)? limit", re.I)
_CONTEXT = re.compile(
    r"context[ _](length|window|size)|too many tokens|prompt is too long|maximum.{0,20}tokens|input token count", re.I
)
_KEY = re.compile(r"api[ _]?key|authenticat|unauthori[sz]ed|permission[ _]denied", re.I)

_BY_STATUS: dict[int, FailureKind] = {
    401: FailureKind.AUTH,
    402: FailureKind.QUOTA,
    403: FailureKind.AUTH,
    404: FailureKind.NOT_FOUND,
    408: FailureKind.TIMEOUT,
    409: FailureKind.TRANSIENT,
    413: FailureKind.CONTEXT_LENGTH,
    425: FailureKind.TRANSIENT,
    429: FailureKind.RATE_LIMIT,
    503: FailureKind.OVERLOADED,
    504: FailureKind.TIMEOUT,
    529: FailureKind.OVERLOADED,
}


def fault(status: int, body: bytes, headers: Mapping[str, str], *, now: datetime | None = None) -> ProviderError:
    """The error an HTTP answer other than 200 stands for."""
    parsed = _parsed(body)
    message = f"HTTP {status}: {_message(parsed, body)}"
    text = body.decode("utf-8", "replace")[:4000]
    kind = _kind(status, text)
    # Google words its limits per minute like a spent quota; only the wait it asks for tells them apart.
    if status == 429 and _retry_info(parsed) is not None and "PerDay" not in text:
        kind = FailureKind.RATE_LIMIT
    if kind is FailureKind.RATE_LIMIT:
        return RateLimitError(message, retry_after=retry_after(headers, parsed, now=now), status=status)
    if kind is FailureKind.NOT_FOUND:
        return MissingModel(message, status=status)
    wait = retry_after(headers, parsed, now=now) if kind.retryable else None
    return ProviderError(message, kind=kind, retry_after=wait, status=status)


def malformed(what: str, body: bytes) -> ProviderError:
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


def _kind(status: int, text: str) -> FailureKind:
    if status in (400, 403, 422, 429, 402) and _QUOTA.search(text):
        return FailureKind.QUOTA
    if status in (400, 413, 422) and _CONTEXT.search(text):
        return FailureKind.CONTEXT_LENGTH
    if status == 400 and _KEY.search(text):
        return FailureKind.AUTH
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return FailureKind.TRANSIENT if status >= 500 else FailureKind.BAD_REQUEST


def _parsed(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
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
