"""Answers that call tools: whether the right ones were called, with the right arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tiebreak.core.errors import UsageError
from tiebreak.core.message import ToolCall
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output, Score
from tiebreak.scorers.bfcl import wrong_argument

_RULES = ("", "in_order", "bfcl")
Schemas = Mapping[str, Mapping[str, Any]]
"""Of each tool, what its arguments are."""
_MOST_SHOWN = 300

Expected = Mapping[str, Any]


class ToolCalls:
    """Right when the expected tools were called, each as often as expected, with accepted arguments.

    The order does not count; with `tool_calls:in_order` it does. An accepted argument is a value or a list of values, of
    which null says that it may be left out. `tool_calls:bfcl` compares as BFCL's own checker does.
    """

    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("expected_calls",)

    def __init__(self, rule: str = "") -> None:
        if rule not in _RULES:
            raise UsageError(f"tool_calls:{rule}: there are tool_calls, tool_calls:in_order and tool_calls:bfcl")
        self._rule = rule

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Compare all calls of the exchange with the expected ones."""
        expected = sample.metadata.get("expected_calls", ())
        calls = output.tool_calls
        schemas = {tool.name: tool.parameters for tool in sample.exchange.tools} if sample.exchange else {}
        wrong = self._fault(expected, calls, schemas)
        return Score.of(not wrong, answer=_in_words(calls), because=wrong or _praise(expected))

    def _fault(self, expected: Sequence[Expected], calls: Sequence[ToolCall], schemas: Schemas) -> str:
        if not expected:
            return f"called {_names(calls)}, and no call was right" if calls else ""
        if not calls:
            return f"no tool was called, expected {_wanted(expected)}"
        faults = [[self._difference(want, call, schemas) for call in calls] for want in expected]
        pairs = list(zip(range(len(expected)), range(len(calls)), strict=False)) if self._rule == "in_order" else _paired(faults)
        for place, want in enumerate(expected):
            own = dict(pairs).get(place)
            if own is None or faults[place][own]:
                return self._nearest(want, faults[place], own, calls)
        if len(calls) > len(expected):
            beside = [call for place, call in enumerate(calls) if place not in dict(pairs).values()]
            return f"{len(calls)} calls, expected {len(expected)}: also called {_names(beside)}"
        return ""

    def _nearest(self, want: Expected, faults: Sequence[str], own: int | None, calls: Sequence[ToolCall]) -> str:
        """What is wrong with the call that was meant, if any was."""
        same_name = [place for place, call in enumerate(calls) if call.name == want["name"]]
        place = own if own is not None and self._rule == "in_order" else next(iter(same_name), None)
        if place is None:
            return f"{want['name']} was not called; called {_names(calls)}"
        return faults[place] or f"{want['name']} was called too seldom: {len(calls)} calls, expected another one"

    def _difference(self, want: Expected, call: ToolCall, schemas: Schemas) -> str:
        """How a call differs from what is expected; empty where it does not."""
        if call.name != want["name"]:
            return f"called {call.name}, expected {want['name']}"
        given, expected = call.parsed(), want["arguments"]
        if given is None:
            return f"the arguments of {call.name} are no JSON object"
        wrong = wrong_argument(given, expected, schemas.get(call.name, {})) if self._rule == "bfcl" else _wrong(given, expected)
        if not wrong:
            return ""
        if wrong not in expected:
            return f"{call.name} has the argument {wrong!r}, which is not expected"
        if wrong not in given:
            return f"{call.name} lacks the argument {wrong!r}"
        return f"{call.name} has {wrong}={_shown(given[wrong])}, expected {' or '.join(map(_shown, _listed(expected[wrong])))}"


def _wrong(given: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """The first argument that is not as it should be; empty where all are."""
    if extra := [name for name in given if name not in expected]:
        return extra[0]
    for name, accepted in expected.items():
        listed = _listed(accepted)
        if None not in listed if name not in given else not any(_same(one, given[name]) for one in listed):
            return name
    return ""


def _listed(accepted: Any) -> list[Any]:
    return accepted if isinstance(accepted, list) else [accepted]


def _same(expected: Any, given: Any) -> bool:
    """Whether a value is the expected one: numbers by value, texts without their case."""
    if isinstance(expected, str) and isinstance(given, str):
        return _folded(expected) == _folded(given)
    if isinstance(expected, bool) or isinstance(given, bool):
        return expected is given
    if isinstance(expected, Mapping) and isinstance(given, Mapping):
        return expected.keys() == given.keys() and all(_same(expected[name], given[name]) for name in expected)
    if isinstance(expected, list) and isinstance(given, list):
        return len(expected) == len(given) and all(map(_same, expected, given))
    return bool(expected == given)


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _paired(faults: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Expected calls with calls that are right, as many as can be paired: a call may be what several of them accept."""
    taken: dict[int, int] = {}

    def pair(place: int, seen: set[int]) -> bool:
        for call, fault in enumerate(faults[place]):
            if fault or call in seen:
                continue
            seen.add(call)
            if call not in taken or pair(taken[call], seen):
                taken[call] = place
                return True
        return False

    for place in range(len(faults)):
        pair(place, set())
    return [(place, call) for call, place in taken.items()]


def _in_words(calls: Sequence[ToolCall]) -> str:
    return "\n".join(f"{call.name}({call.arguments})" for call in calls)[:_MOST_SHOWN] or "no call"


def _names(calls: Sequence[ToolCall]) -> str:
    return ", ".join(dict.fromkeys(call.name for call in calls))[:_MOST_SHOWN]


def _wanted(expected: Sequence[Expected]) -> str:
    return ", ".join(dict.fromkeys(str(want["name"]) for want in expected))


def _praise(expected: Sequence[Expected]) -> str:
    return "called what was expected" if expected else "called nothing, which is right"


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:100]
