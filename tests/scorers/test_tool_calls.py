"""Which calls are right, and what is said of those that are not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tiebreak.core.errors import UsageError
from tiebreak.core.message import Message, ToolCall, user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output, Score
from tiebreak.registry import make_scorer

PARIS = {"name": "weather", "arguments": {"city": ["Paris", "Paris, France"], "unit": ["C", None]}}
ROME = {"name": "weather", "arguments": {"city": "Rome"}}


def judged(expected: list[Any], *calls: tuple[str, Any], rule: str = "tool_calls") -> Score:
    made = tuple(
        ToolCall(id=str(n), name=name, arguments=given if isinstance(given, str) else json.dumps(given))
        for n, (name, given) in enumerate(calls)
    )
    sample = Sample(id="s", messages=(user("?"),), metadata={"expected_calls": expected})
    output = Output(text="", messages=(Message(role="assistant", tool_calls=made),) if made else ())
    return asyncio.run(make_scorer(rule).score(sample, output, None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expected", "calls"),
    [
        ([], []),
        ([PARIS], [("weather", {"city": "paris"})]),
        ([PARIS], [("weather", {"city": "Paris,  France", "unit": "c"})]),
        ([PARIS, ROME], [("weather", {"city": "Rome"}), ("weather", {"city": "Paris"})]),
        # A call that both accept goes to the one that accepts nothing else.
        ([{"name": "f", "arguments": {"x": [1, 2]}}, {"name": "f", "arguments": {"x": 1}}], [("f", {"x": 1}), ("f", {"x": 2})]),
        ([{"name": "f", "arguments": {"x": [[1, 2]]}}], [("f", {"x": [1, 2.0]})]),
        ([{"name": "f", "arguments": {"x": {"a": "B"}}}], [("f", {"x": {"a": "b"}})]),
        ([{"name": "f", "arguments": {}}], [("f", "")]),
    ],
)
def test_right_calls_are_right(expected, calls):
    """In any order, with any accepted value."""
    assert judged(expected, *calls).value == 1


@pytest.mark.parametrize(
    ("expected", "calls", "because"),
    [
        ([], [("weather", {})], "called weather, and no call was right"),
        ([PARIS], [], "no tool was called, expected weather"),
        ([PARIS], [("news", {"city": "Paris"})], "weather was not called; called news"),
        ([PARIS], [("weather", {"city": "Rome"})], 'weather has city="Rome", expected "Paris" or "Paris, France"'),
        ([PARIS], [("weather", {})], "weather lacks the argument 'city'"),
        ([ROME], [("weather", {"city": "Rome", "day": 1})], "weather has the argument 'day', which is not expected"),
        ([ROME], [("weather", "{broken")], "the arguments of weather are no JSON object"),
        ([ROME], [("weather", {"city": "Rome"})] * 2, "2 calls, expected 1: also called weather"),
        ([ROME, ROME], [("weather", {"city": "Rome"})], "weather was called too seldom: 1 calls, expected another one"),
        ([{"name": "f", "arguments": {"x": True}}], [("f", {"x": 1})], "f has x=1, expected true"),
        ([{"name": "f", "arguments": {"x": 1}}], [("f", {"x": "1"})], 'f has x="1", expected 1'),
    ],
)
def test_wrong_calls_are_wrong_for_a_reason(expected, calls, because):
    """The reason names the tool, and the argument."""
    score = judged(expected, *calls)
    assert (score.value, score.because) == (0, because)


def test_the_order_counts_where_it_is_asked_for():
    """And only there."""
    calls = [("weather", {"city": "Rome"}), ("weather", {"city": "Paris"})]
    assert judged([ROME, PARIS], *calls, rule="tool_calls:in_order").value == 1
    assert judged([PARIS, ROME], *calls, rule="tool_calls:in_order").value == 0


def test_bfcl_compares_texts_without_punctuation():
    """And has lists of accepted values inside objects too."""
    expected = [{"name": "f", "arguments": {"when": ["June 1, 2020"], "who": [{"name": ["Ann"], "age": [3, ""]}]}}]
    right = ("f", {"when": "june 1 2020", "who": {"name": "ann"}})
    assert judged(expected, right, rule="tool_calls:bfcl").value == 1
    assert judged(expected, ("f", {"when": "june 1 2020", "who": {"name": "bob"}}), rule="tool_calls:bfcl").value == 0


def test_an_unknown_rule_is_refused():
    """Before anything is asked."""
    with pytest.raises(UsageError, match="tool_calls:any: there are"):
        make_scorer("tool_calls:any")


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ('{"a": 1}', "follows the schema"),
        ('{"a": 1.0}', "follows the schema"),
        ("a: 1", "invalid JSON"),
        ('{"a": 1, "b": 2}', "extra keys at $: Additional properties are not allowed ('b' was unexpected)"),
        ("{}", "missing keys at $: 'a' is a required property"),
        ('{"a": "x"}', "wrong value at $.a: 'x' is not of type 'number'"),
        ('{"a": 2}', "wrong value at $.a: 2, expected 1"),
    ],
)
def test_mistakes_in_json_are_told_apart(text, because):
    """Invalid JSON, extra keys, missing keys and wrong values."""
    schema = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"], "additionalProperties": False}
    sample = Sample(id="s", messages=(user("?"),), metadata={"schema": schema, "expected_json": {"a": 1}})
    score = asyncio.run(make_scorer("json_schema").score(sample, Output(text=text), None))  # type: ignore[arg-type]
    assert score.because == because
