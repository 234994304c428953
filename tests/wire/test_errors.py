"""From an HTTP answer to one kind of failure."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebreak.core.errors import FailureKind, MissingModel, RateLimitError
from tiebreak.wire.errors import http_error, retry_after

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GEMINI_SAYS = "You exceeded your current quota, please check your plan and billing details."


def gemini_limit(quota):
    violation = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]}
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "26s"}
    return json.dumps({"error": {"message": GEMINI_SAYS, "details": [violation, wait]}})


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, "", "auth"),
        (403, "", "auth"),
        (402, "", "quota"),
        (404, "", "not_found"),
        (408, "", "timeout"),
        (409, "", "transient"),
        (413, "", "context_length"),
        (429, "slow down", "rate_limit"),
        (429, '{"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}', "quota"),
        (429, gemini_limit("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"), "rate_limit"),
        (429, gemini_limit("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), "quota"),
        (400, '{"error": {"message": "Your credit balance is too low"}}', "quota"),
        (400, '{"error": {"message": "This model\'s maximum context length is 8192 tokens"}}', "context_length"),
        (400, '{"error": {"message": "prompt is too long: 9 tokens"}}', "context_length"),
        (400, '{"error": {"message": "API key not valid"}}', "auth"),
        (400, '{"error": {"message": "unknown field"}}', "bad_request"),
        (422, "", "bad_request"),
        (418, "", "bad_request"),
        (204, "", "malformed"),
        (302, "", "malformed"),
        (
            400,
            '{"error": {"message": "Rejected: the prompt \\"how does billing work, insufficient quota\\" is not allowed"}}',
            "bad_request",
        ),
        (
            400,
            '{"error": {"message": "Your request was refused by a filter. ' + "It reads: " * 20 + 'credit balance"}}',
            "bad_request",
        ),
        (400, '{"error": {"message": "unsafe text: \'my api key is lost\'"}}', "bad_request"),
        (400, '{"error": {"message": "unsafe text: `maximum tokens`"}}', "bad_request"),
        (400, '{"error": {"type": "billing_error", "message": "no"}}', "quota"),
        (403, '{"error": {"message": "This API method requires billing to be enabled", "status": "PERMISSION_DENIED"}}', "auth"),
        (500, "", "transient"),
        (502, "<html>", "transient"),
        (503, "", "overloaded"),
        (504, "", "timeout"),
        (529, "", "overloaded"),
        (599, "", "transient"),
    ],
)
def test_who_is_to_blame(status, body, kind):
    """Status and body together name one kind."""
    error = http_error(status, body.encode(), {})
    assert (error.kind, error.status) == (FailureKind(kind), status)
    assert str(error).startswith(f"HTTP {status}: ")


def test_two_kinds_have_their_own_class():
    """So that a caller can catch them."""
    assert isinstance(http_error(429, b"", {}), RateLimitError)
    assert isinstance(http_error(404, b"", {}), MissingModel)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "Too  hot\\nhere"}}', "Too hot here"),
        (b'{"error": "plain"}', "plain"),
        (b'{"message": "top"}', "top"),
        (b"not json", "not json"),
        (b"", "no message"),
        (b"[1]", "[1]"),
        (b"x" * 10_000, "x" * 500),
    ],
)
def test_the_servers_own_sentence_is_kept(body, message):
    """On one line, not too long."""
    assert str(http_error(500, body, {})) == f"HTTP 500: {message}"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "5"}, 5.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2025 00:00:30 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_how_long_the_server_asks_to_wait(headers, seconds):
    """Milliseconds, seconds or a date; never a negative wait."""
    assert retry_after(headers, now=NOW) == seconds


def test_googles_hint_is_in_the_body():
    """RetryInfo is read when no header says anything."""
    assert http_error(429, gemini_limit("PerMinute").encode(), {}).retry_after == 26.0
    assert http_error(429, gemini_limit("PerMinute").encode(), {"retry-after": "3"}).retry_after == 3.0


def test_what_will_not_be_tried_again_has_no_wait():
    """A hint on a rejected key means nothing."""
    assert http_error(401, b"", {"retry-after": "5"}).retry_after is None
    assert http_error(503, b"", {"retry-after": "5"}).retry_after == 5.0


DATES = st.builds("{}, {} {} {} {}:{}:{} {}".format, *[st.text(max_size=4) | st.integers().map(str)] * 8)
HINTS = (
    st.text()
    | st.floats().map(str)
    | st.integers().map(str)
    | DATES
    | st.datetimes().map(lambda d: d.strftime("%a, %d %b %Y %T GMT"))
)
JSON = st.recursive(
    st.none() | st.text() | st.floats(),
    lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["error", "details", "retryDelay"]), x),
)


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), HINTS), JSON)
def test_no_hint_raises_or_is_negative(headers, body):
    """Servers write anything."""
    seconds = retry_after(headers, body, now=NOW)
    assert seconds is None or 0.0 <= seconds < float("inf")


@given(st.integers(100, 599), st.binary(max_size=80), HINTS)
def test_any_answer_is_some_fault(status, body, hint):
    """Classifying never fails itself."""
    assert http_error(status, body, {"retry-after": hint}).kind in FailureKind
